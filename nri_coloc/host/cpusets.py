"""Moving a cgroup's tasks to other CPUs, in the order that the kernel accepts.

On cgroup v1 a child's set must lie within its parent's at every moment (EACCES on the way up, EBUSY on the way down),
and the pause container and nested cgroups are children too: so the root of the tree is widened first, then its
descendants are set from the top, then the root is narrowed, bottom-up. On v2 one write is enough: the effective set is
the intersection (Documentation/admin-guide/cgroup-v1/cpusets, cgroup-v2 "Cpuset").

A process that is killed in the middle leaves a root with its CPUs above children without them. The children's former
sets are then known only if all children have all CPUs of the root, as a pod's do: `inherited` says so. When a pod is
given up, `release` widens such children at every depth, for no later move would.
"""

from collections.abc import Container
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, knob_files
from nri_coloc.host.knob_files import Shown


class Found(NamedTuple):
    """The contents of a cgroup's files: its own set as written, and the CPUs that its tasks may really use.

    shown: the files that were read.
    """

    own: str
    cpus: CPUMask
    shown: Shown = ()

    def holds(self, wanted: CPUMask, version: int) -> bool:
        """Return whether there is nothing to write; on v2 the written set may be larger than the granted set."""
        return self.cpus == wanted if version == 1 else self.own == cpuset.render(wanted)


def look(folder: str, version: int) -> Found | None:
    """Read a cgroup's files; None if it is gone or has no such file. Raises KernelInterfaceError for all else."""
    file = f"{folder}/cpuset.cpus"
    own = files.read(file)
    if version == 1:
        return None if own is None else Found(own, files.mask(file, own), ((file, own),))
    effective = files.read(f"{file}.effective")
    if effective is None:
        return Found(own, files.mask(file, own)) if own else None
    granted = files.mask(f"{file}.effective", effective)
    # where nothing of a cgroup's own set is left to it, the kernel lets it use its parent's
    cpus = granted & files.mask(file, own or "") or granted
    return Found(own or "", cpus, ((file, own or ""), (f"{file}.effective", effective)))


def actual(folder: str, version: int) -> CPUMask | None:
    """Return the CPUs that a cgroup's tasks may really use; None if it is gone or has no such file."""
    found = look(folder, version)
    return None if found is None else found.cpus


def is_followed(folder: str, version: int, cpus: CPUMask) -> bool:
    """Return whether the children of a cgroup all have its CPUs; on v2 they cannot have others for long."""
    return version == 2 or all(actual(child, 1) in (cpus, None) for child in files.children(folder))


def granted(folder: str, cpus: CPUMask) -> CPUMask:
    """Return the part of some CPUs that the parent of a cgroup has (cgroup v1)."""
    return cpus & (actual(folder.rpartition("/")[0], 1) or 0) if cpus else 0


def move(
    folder: str,
    version: int,
    wanted: CPUMask,
    found: Found | None = None,
    *,
    inherited: bool = False,
    beyond: CPUMask = 0,
) -> CPUMask | None:
    """Set a cgroup's CPUs and return the CPUs that were read back; None if the cgroup is gone.

    found: a look at the cgroup just now.
    inherited: the cgroup's children are to have all of `wanted`.
    beyond: on cgroup v1, CPUs that the cgroup has too and its children do not. They are not in the result.
    Raises KernelInterfaceError if the kernel refuses.
    """
    found = found or look(folder, version)
    if version == 2:
        if found is None or not found.holds(wanted, 2):
            _set(folder, wanted)
        return actual(folder, version)
    if found is None:
        return None
    if found.cpus == wanted | beyond and (not inherited or is_followed(folder, 1, wanted)):
        return wanted
    try:
        _move_tree(folder, found.cpus, wanted, inherited=inherited, beyond=beyond)
    except KernelInterfaceError:
        _take_what_is_granted(folder, wanted, inherited=inherited)
        raise
    cpus = actual(folder, 1)
    return cpus if cpus is None else cpus & ~beyond or cpus


def _take_what_is_granted(folder: str, wanted: CPUMask, *, inherited: bool) -> None:
    """Move to the part of a refused set that the parent has: the CPUs that must be left are left then, as on v2.

    A parent lacks CPUs if another writer narrowed it, and for good after they were offline for a while
    (kernel/cgroup/cpuset-v1.c, hotplug_update_tasks_legacy).
    """
    had, above = actual(folder, 1), actual(folder.rpartition("/")[0], 1)
    granted = wanted & (above or 0)
    if had is not None and granted not in (0, wanted, had):
        _move_tree(folder, had, granted, inherited=inherited)


def release(folder: str, version: int, wanted: CPUMask, apart: Container[str] = ()) -> CPUMask | None:
    """Set a pod's CPUs and those below it, and return the CPUs that were read back; None if the cgroup is gone.

    `apart`: the folders below it that have CPUs of their own, and keep them with all cgroups in them. Any other nested
    cgroup gets the pod's CPUs: a set of its own choice looks like the rest of an interrupted move. Raises as
    `move`.
    """
    if version == 2:
        return move(folder, version, wanted)
    found = look(folder, 1)
    if found is None:
        return None
    _move_tree(folder, found.cpus, wanted, apart=apart)
    cpus = actual(folder, 1)
    if cpus is not None:
        _let_follow(folder, cpus, apart)
    return cpus


MOST_MOVED: Final = 64 << 20
"""Bytes that a cgroup may have on memory nodes that it leaves: they take some 50 ms to move."""


def bearable(folder: str, version: int, wanted: str) -> str:
    """Return the memory nodes to write: with the nodes that a cgroup leaves, if it has much memory there.

    On cgroup v2 the kernel moves that memory before the write returns, and until then no other write of a CPU set
    returns either (kernel/cgroup/cpuset.c, cpuset_write_resmask, flush_workqueue). On v1 it stays where it is.
    """
    had = files.read(f"{folder}/cpuset.mems.effective") if version == 2 else None
    nodes = cpuset.parse(wanted)
    leaves = files.mask(f"{folder}/cpuset.mems.effective", had) & ~nodes if had else 0
    if not leaves or _movable(folder, leaves) <= MOST_MOVED:
        return wanted
    return cpuset.render(nodes | leaves)


def _movable(folder: str, nodes: CPUMask) -> int:
    """Return the bytes on memory nodes that the kernel would move; 0 if it does not report them."""
    lines = (files.read(f"{folder}/memory.numa_stat") or "").splitlines()
    counted = [line.split()[1:] for line in lines if line.startswith(_MOVED)]
    names = {f"N{node}" for node in cpuset.members(nodes)}
    found = (each.partition("=") for words in counted for each in words)
    return sum(knob_files.number(amount) or 0 for name, _, amount in found if name in names)


_MOVED: Final = ("anon ", "file_mapped ")
"""The lines of memory.numa_stat with memory that processes have mapped."""


def write(file: str, text: str, version: int, *, inherited: bool) -> bool:
    """Write one control file; memory nodes of a cgroup whose children have all of them as `bind` does."""
    folder, _, name = file.rpartition("/")
    return bind(folder, version, text) if inherited and name == "cpuset.mems" else files.write(file, text)


def bind(folder: str, version: int, mems: str) -> bool:
    """Set a pod's memory nodes, on v1 with all cgroups below it; False if the cgroup is gone. Raises as `move`."""
    had = _nodes(folder) if version == 1 else None
    if had is None:
        return files.write(f"{folder}/cpuset.mems", mems)
    _bind_tree(folder, had, cpuset.parse(mems))
    return True


def _nodes(folder: str) -> CPUMask | None:
    file = f"{folder}/cpuset.mems"
    text = files.read(file)
    return None if text is None else files.mask(file, text)


def _bind_tree(folder: str, had: CPUMask, wanted: CPUMask) -> None:
    """Widen a cgroup, bind what lies below it, narrow it."""
    pending, narrowed = [(folder, had)], []
    while pending:
        current, mask = pending.pop()
        both = mask | wanted
        if both != mask:
            files.write(f"{current}/cpuset.mems", cpuset.render(both))
        if both != wanted:
            narrowed.append(current)
        nodes = ((child, _nodes(child)) for child in files.children(current))
        pending += [(child, childs) for child, childs in nodes if childs is not None]
    for current in reversed(narrowed):
        files.write(f"{current}/cpuset.mems", cpuset.render(wanted))


def _let_follow(folder: str, cpus: CPUMask, apart: Container[str]) -> None:
    """Give every cgroup below `folder` the same CPUs, parents before children. This only widens them.

    apart: cgroups to leave alone, with all below them.
    """
    pending = files.children(folder)
    while pending:
        child = pending.pop()
        had = None if child in apart else actual(child, 1)
        if had is None:
            continue
        if had != cpus:
            _set(child, cpus)
        pending += files.children(child)


def _move_tree(
    folder: str,
    current: CPUMask,
    wanted: CPUMask,
    *,
    inherited: bool = False,
    apart: Container[str] = (),
    beyond: CPUMask = 0,
) -> None:
    """Widen a cgroup, move what lies below it, narrow it to `wanted` and `beyond`.

    A container may nest as many cgroups as it likes, so that recursion would end at the interpreter's limit.
    """
    narrowed = [*_widened(folder, current, wanted, beyond)]
    pending = _targets(folder, current, wanted, apart, inherited=inherited)
    while pending:
        child, had, target = pending.pop()
        narrowed += _widened(child, had, target)
        pending += _targets(child, had, target, apart)
    for each, mask in reversed(narrowed):
        _set(each, mask)


def _widened(
    folder: str, current: CPUMask, wanted: CPUMask, beyond: CPUMask = 0
) -> list[tuple[str, CPUMask]]:
    """Let a cgroup have what it has and shall have; returns what it is to be narrowed to, if it is."""
    both = current | wanted | beyond
    if both != current:
        _set(folder, both)
    return [(folder, wanted | beyond)] if both != wanted | beyond else []


def _targets(
    folder: str, current: CPUMask, wanted: CPUMask, apart: Container[str], *, inherited: bool = False
) -> list[tuple[str, CPUMask, CPUMask]]:
    """Return the cgroups directly below a cgroup that are to move, each with its present and its wanted CPUs."""
    found = []
    for child in files.children(folder):
        had = actual(child, 1)
        if had is None:
            continue
        # a child that had all of its parent's CPUs gets all again, another keeps its part
        follows = inherited or (had == current and child not in apart)
        target = wanted if follows else (had & wanted) or wanted
        if target != had:
            found.append((child, had, target))
    return found


def _set(folder: str, mask: CPUMask) -> None:
    files.write(f"{folder}/cpuset.cpus", cpuset.render(mask))
