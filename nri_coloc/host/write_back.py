"""Write original values back to one cgroup: a pod's CPUs with all below it, an empty set by one that means the same.

On cgroup v1, where no set is empty, the original "" of a cpuset means "as the parent's": a cgroup without a set of its
own has its parent's, and gets that again whatever set the parent has by then. Two names in the journal are no files
of ours, and writing them would move tasks: they stand for the scheduling policy and the oom score of the tasks.
"""

import time
from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cpusets, files, oom_scores, originals, tasks
from nri_coloc.host.former import CPUSETS
from nri_coloc.host.journal import Journal
from nri_coloc.host.overwritten import Overwritten

CPUS: Final = "/cpuset.cpus"


def placed_in(journalled: Iterable[str]) -> set[str]:
    """Return the folders of the cgroups whose own CPUs are among journalled files."""
    return {file.removesuffix(CPUS) for file in journalled if file.endswith(CPUS)}


def own(file: str, found: str, version: int) -> str:
    """Return the original of a file that shows `found`: "" for a set that a cgroup of v1 has from its parent."""
    is_a_set = version == 1 and file.rpartition("/")[2] in CPUSETS
    return "" if is_a_set and is_as_its_parents(file, found) else found


def is_as_its_parents(file: str, found: str | None = None) -> bool:
    """Whether a set of a cgroup is its parent's; `found`: its text, where it was read already."""
    folder, _, name = file.rpartition("/")
    texts = files.read(f"{folder.rpartition('/')[0]}/{name}"), files.read(file) if found is None else found
    sets = [files.mask(file, text) for text in texts if text]
    return len(sets) == len(texts) and sets[0] == sets[1]


def give_back(file: str, was: str, version: int, proc: str, apart: Container[str] | None = None) -> None:
    """Restore an entry of the journal: a file, the policy of tasks, or the score of processes.

    Raises KernelInterfaceError. `apart` as for `restore`.
    """
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
    if name not in CPUSETS:
        return files.write(file, originals.written(name, was) or "\n")
    if not was and version == 2:
        return _emptied(folder, name)
    was = was or files.read(f"{folder.rpartition('/')[0]}/{name}") or ""
    if not was:
        return False
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


class Apart(NamedTuple):
    """A cgroup below a pod's that has a set of CPUs of its own; `ordered`: by us, not by the kubelet."""

    path: str
    ordered: bool = True


class PuttingBack:
    """One writer at a time: the caller serialises, as for the journal. Folders are paths on this machine."""

    def __init__(self, journal: Journal, overwritten: Overwritten, version: int, proc: str) -> None:
        self._journal = journal
        self._overwritten = overwritten
        self._version = version
        self._proc = proc

    def run(
        self, folders: Iterable[str], means: Callable[[str], bool], apart: Iterable[Apart] | None = None
    ) -> tuple[KernelInterfaceError, ...]:
        """Put back the journalled files of a cgroup whose names are meant; refusals are returned, and kept.

        `apart`: of a pod, by their folders.
        """
        failures: list[KernelInterfaceError] = []
        meant = (file for folder in folders for file in self._journal.below(folder) if means(_name(file)))
        for file in [*meant]:
            try:
                self._put_back(file, apart)
            except KernelInterfaceError as error:
                failures.append(error.as_value())
        return tuple(failures)

    def _put_back(self, file: str, apart: Iterable[Apart] | None) -> None:
        self._overwritten.look(file, time.monotonic())
        original = self._journal.original(file) or ""
        not_following = None
        if apart is not None and _name(file) in CPUSETS:
            not_following = self._parted([*apart]) if file.endswith(CPUS) else set()
        give_back(file, original, self._version, self._proc, not_following)
        self._journal.forget(file)

    def _parted(self, apart: list[Apart]) -> set[str]:
        """Return the folders that keep their own CPUs while their pod gets back its original ones."""
        for each in apart:
            file = each.path + CPUS
            if each.ordered and self._version == 1 and is_as_its_parents(file):
                self._journal.note_known(file, "")
        return {*placed_in(self._journal.files()), *(each.path for each in apart)}


def _name(file: str) -> str:
    return file.rpartition("/")[2]
