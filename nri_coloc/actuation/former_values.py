"""What a file held before us, written back: a pod's CPUs with all below it, an empty set by what means the same.

Two names in the journal are no files of ours, and writing them would move tasks: they stand for what the tasks and the
processes of a cgroup were given.
"""

from collections.abc import Container, Iterable
from typing import Final

from nri_coloc.actuation import cpusets, files, oom_scores, tasks
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.knobs import originals
from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask

CPUS: Final = "/cpuset.cpus"
CPUSETS: Final = (CPUS, "/cpuset.mems")


def placed_in(journalled: Iterable[str]) -> set[str]:
    """Return the folders of the cgroups whose own CPUs are among journalled files."""
    return {file.removesuffix(CPUS) for file in journalled if file.endswith(CPUS)}


def has_its_parents(folder: str) -> bool:
    """Whether a cgroup of v1 has the very CPUs of the one above it, as each has that was given none of its own."""
    above = cpusets.actual(folder.rpartition("/")[0], 1)
    return above is not None and cpusets.actual(folder, 1) == above


def give_back(file: str, was: str, version: int, proc: str, apart: Container[str] | None = None) -> None:
    """Undo what the journal has an entry for: a file, or what tasks or processes were told; raises
    KernelInterfaceError. `apart` as for `restore`."""
    folder, _, name = file.rpartition("/")
    if name == tasks.NAME:
        failure = tasks.reset(folder, version, was)
    elif name in oom_scores.NAMES:
        failure = oom_scores.reset(folder, proc, was)
    else:
        restore(file, was, version, apart)
        return
    if failure is not None:
        raise failure


def restore(file: str, was: str, version: int, apart: Container[str] | None = None) -> bool:
    """Write a file's former value, a cpuset together with the cgroups below it; False if it is gone.

    `apart`: for a pod's file, the folders that do not follow it (`cpusets.release`); None for any other's.
    """
    folder, _, name = file.rpartition("/")
    if name not in ("cpuset.cpus", "cpuset.mems"):
        return files.write(file, originals.written(name, was) or "\n")
    if not was:
        return _emptied(folder, name)
    cpus = _said(file, was)
    if name == "cpuset.mems":
        return cpusets.write(file, was, version, inherited=apart is not None)
    if apart is None:
        return cpusets.move(folder, version, cpus) is not None
    return cpusets.release(folder, version, cpus, apart) is not None


def _said(file: str, was: str) -> CPUMask:
    try:
        return cpuset.parse(was)
    except ValueError as error:  # no journal of ours says such a thing
        raise KernelInterfaceError(file, f"write {was[:80]!r} to", str(error)) from error


def _emptied(folder: str, name: str) -> bool:
    """Let a v2 cgroup have its parent's set again, False if it is gone.

    One that has tasks cannot be without a set of its own any more (ENOSPC; kernel/cgroup/cpuset.c, validate_change):
    all that its parent has means the same.
    """
    try:
        return files.write(f"{folder}/{name}", "\n")
    except KernelInterfaceError:
        above = files.read(f"{folder.rpartition('/')[0]}/{name}.effective")
        if not above:
            raise
        return files.write(f"{folder}/{name}", above)
