"""Return the CPUs and memory nodes that pods may have: the cgroup of all pods and each cgroup above it limit them.

On cgroup v1 the kernel refuses any other CPU below such a cgroup; on v2 it takes the set and lets its tasks run on the
parent's CPUs (Documentation/admin-guide/cgroup-v1/cpusets, cgroup-v2 "Cpuset"). The BestEffort cgroup is left out:
agents that suppress offline pods narrow it, and online pods have nothing to do with that.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core import cpuset, kubepods
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.cgroup_layout import CgroupLayout

_CPUS: Final = {1: "cpuset.cpus", 2: "cpuset.cpus.effective"}
_MEMS: Final = {1: "cpuset.mems", 2: "cpuset.mems.effective"}


class Granted(NamedTuple):
    """The online CPUs that pods may have.

    file: the file of the outermost cgroup that lacks one, "" if none does. mems: the memory nodes, -1 for all.
    """

    cpus: CPUMask
    file: str = ""
    mems: CPUMask = -1


def read(layout: CgroupLayout, places: Iterable[str], online: CPUMask) -> Granted:
    """Return the CPUs and memory nodes that all pods may have.

    places: the cgroup of all pods of each kubelet whose pods are known; nothing while it is unknown.

    A cgroup without the file has the CPUs of its parent, and so has one whose file cannot be read.
    """
    granted, file, mems = online, "", -1
    levels = (level for place in places for level in kubepods.levels(kubepods.burstable_in(place)))
    for path in dict.fromkeys(("", *levels)):
        own = _mask(layout, path, _CPUS)
        if granted & ~own and not file:
            file = f"/{path}/cpuset.cpus".replace("//", "/")
        granted &= own
        mems &= _mask(layout, path, _MEMS)
    return Granted(granted, file, mems)


def _mask(layout: CgroupLayout, path: str, names: Mapping[int, str]) -> CPUMask:
    folder = layout.folder("cpuset", path)
    try:
        found = None if folder is None else files.cpu_list(f"{folder}/{names[layout.version]}")
    except KernelInterfaceError:
        found = None
    return -1 if found is None else found


def problem(granted: Granted, usable: CPUMask) -> str:
    """Say which file leaves pods no CPU, and how to mend it; "" if there is one. `usable`: the machine's CPUs."""
    if granted.cpus & usable:
        return ""
    return f"{granted.file} has no CPU for pods (usable={cpuset.render(usable)}): {_widen(usable)}"


def remark(granted: Granted, online: CPUMask) -> str:
    """Say which file keeps pods from some CPUs, and how to give them; "" if none does."""
    if not online & ~granted.cpus:
        return ""
    return (
        f"{granted.file} has CPUs {cpuset.render(granted.cpus)} of {cpuset.render(online)}: pods are placed within "
        f"these; to give them the others {_widen(online)}"
    )


def _widen(cpus: CPUMask) -> str:
    """Say how to give a cgroup these CPUs; for an empty list systemd (252) writes nothing, also at a daemon-reload."""
    return f"widen it (AllowedCPUs={cpuset.render(cpus)} of its systemd unit) and then the cgroups below it"


def change(granted: Granted, online: CPUMask) -> str:
    """Say in one clause which CPUs pods may have, for the audit."""
    if not granted.file:
        return f"pods may have all online CPUs, {cpuset.render(online)}"
    had = cpuset.render(granted.cpus) or "none"
    return f"pods may have CPUs {had} of {cpuset.render(online)}: {granted.file} has no others"
