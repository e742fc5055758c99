"""Return the CPUs and memory nodes that pods may have: the cgroup of all pods and each cgroup above it limit them.

On cgroup v1 the kernel refuses any other CPU below such a cgroup; on v2 it takes the set and lets its tasks run on the
parent's CPUs (Documentation/admin-guide/cgroup-v1/cpusets, cgroup-v2 "Cpuset"). The BestEffort cgroup is left out:
agents that suppress offline pods narrow it, and online pods have nothing to do with that.

On v2 another agent can make a partition of a cgroup (`cpuset.cpus.partition`). The root and all other cgroups lack its
CPUs, so cgroups outside it cannot be widened to these. If the cgroup of all pods is in one, pods have the partition's.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from nri_coloc.core import cpuset, kubepods
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.cgroup_layout import CgroupLayout

_CPUS: Final = {1: "cpuset.cpus", 2: "cpuset.cpus.effective"}
_ROOTS: Final = "/cpuset.cpus"
_MEMS: Final = {1: "cpuset.mems", 2: "cpuset.mems.effective"}


class Granted(NamedTuple):
    """The online CPUs that pods may have.

    file: the file of the outermost cgroup that lacks one, "" if none does. mems: the memory nodes, -1 for all.
    parted: whether that cgroup is the hierarchy's root, so partitions have the CPUs.
    """

    cpus: CPUMask
    file: str = ""
    mems: CPUMask = -1
    parted: bool = False


def read(layout: CgroupLayout, places: Iterable[str], online: CPUMask) -> Granted:
    """Return the CPUs and memory nodes that all pods may have.

    places: the cgroup of all pods of each kubelet whose pods are known; nothing while it is unknown.

    A cgroup without the file has the CPUs of its parent, and so has one whose file cannot be read.
    """
    granted, mems = online, -1
    ways: list[Mapping[str, CPUMask]] = []
    for place in tuple(places) or ("",):
        way = ("", *(kubepods.levels(kubepods.burstable_in(place)) if place else ()))
        found = {path: own for path in way if (own := _mask(layout, path, _CPUS)) is not None}
        granted &= _common(found, place, layout.version)
        ways.append(found)
        nodes = (_mask(layout, path, _MEMS) for path in way)
        mems = reduce(and_, (each for each in nodes if each is not None), mems)
    file = next(filter(None, (_withholding(found, online & ~granted) for found in ways)), "")
    return Granted(granted, file, mems, parted=file == _ROOTS and _is_whole_hierarchy(layout))


def _common(found: Mapping[str, CPUMask], place: str, version: int) -> CPUMask:
    """Return the CPUs that the cgroup of all pods and the QoS cgroup in it have, on v1 also those above them.

    On v2 an effective set is within all limits above it, and in a partition it has CPUs that the root lacks.
    """
    holding = [own for path, own in found.items() if version == 1 or f"{path}/".startswith(f"{place}/")]
    return reduce(and_, holding or [*found.values()][-1:], -1)


def _withholding(found: Mapping[str, CPUMask], missing: CPUMask) -> str:
    """Return the file of the outermost cgroup that lacks a missing CPU which no cgroup in it has, "" if none does.

    found: the CPUs of a cgroup of pods and of those above it, by path, the outermost first.
    """
    inner = 0
    file = ""
    for path, own in reversed([*found.items()]):
        if missing & ~own & ~inner:
            file = f"/{path}/cpuset.cpus".replace("//", "/")
        inner |= own
    return file


def _is_whole_hierarchy(layout: CgroupLayout) -> bool:
    """Return whether the root is the root of v2, which has no set of its own; that of a cgroup namespace has one."""
    folder = layout.folder("cpuset", "") if layout.version == 2 else None
    try:
        return folder is not None and "cpuset.cpus" not in files.entries(folder)
    except KernelInterfaceError:
        return False


def _mask(layout: CgroupLayout, path: str, names: Mapping[int, str]) -> CPUMask | None:
    folder = layout.folder("cpuset", path)
    try:
        return None if folder is None else files.cpu_list(f"{folder}/{names[layout.version]}")
    except KernelInterfaceError:
        return None


def problem(granted: Granted, usable: CPUMask) -> str:
    """Say which file leaves pods no CPU, and how to mend it; "" if there is one. `usable`: the machine's CPUs."""
    if granted.cpus & usable:
        return ""
    if granted.parted:
        return f"partitions of other cgroups leave no CPU for pods (usable={cpuset.render(usable)}): {_END_PARTITIONS}"
    return f"{granted.file} has no CPU for pods (usable={cpuset.render(usable)}): {_widen(usable)}"


def remark(granted: Granted, online: CPUMask) -> str:
    """Say which file keeps pods from some CPUs, and how to give them; "" if none does."""
    if not online & ~granted.cpus:
        return ""
    had = f"CPUs {cpuset.render(granted.cpus)} of {cpuset.render(online)}"
    if granted.parted:
        return f"partitions of other cgroups leave {had}: pods are placed within these; {_END_PARTITIONS}"
    return f"{granted.file} has {had}: pods are placed within these; to give them the others {_widen(online)}"


def _widen(cpus: CPUMask) -> str:
    """Say how to give a cgroup these CPUs; for an empty list systemd (252) writes nothing, also at a daemon-reload."""
    return f"widen it (AllowedCPUs={cpuset.render(cpus)} of its systemd unit) and then the cgroups below it"


_END_PARTITIONS: Final = (
    "write member to the file of one to end it; they are in the list of "
    "`grep -rlxE 'root|isolated' --include=cpuset.cpus.partition /sys/fs/cgroup`"
)


def change(granted: Granted, online: CPUMask) -> str:
    """Say in one clause which CPUs pods may have, for the audit."""
    if not granted.file:
        return f"pods may have all online CPUs, {cpuset.render(online)}"
    had = cpuset.render(granted.cpus) or "none"
    why = "partitions of other cgroups have the others" if granted.parted else f"{granted.file} has no others"
    return f"pods may have CPUs {had} of {cpuset.render(online)}: {why}"
