"""Restore original values of one cgroup, and know which values those are after another writer wrote over ours.

If another writer resets a file, the original value stays the value to restore. A resize of a pod is different: the
kubelet writes the pod's cgroup, before it calls the runtime for the containers if it grows and after that if it shrinks
(pkg/kubelet/kuberuntime, doPodResizeAction). So a foreign value within `LASTS_S` of the runtime's message, before or
after, is the kubelet's new value, and the original from then on. If that value equals ours, the file cannot show it,
and the message counts. A value that no process of ours wrote, by the journal, is an original too: it was written while
no daemon ran.

A pod's CPUs are restored with all cgroups below it. On cgroup v1 no set is empty: there the original "" of a cpuset
means "as the parent's", and the cgroup gets the set that its parent then has. Two names in the journal are not files of
ours, and writing them would move tasks. They stand for the tasks' scheduling policy and oom score.
"""

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import Controller
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cpusets, files, io_limits, oom_scores, originals, scheduler
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import CPUS, FileValue, makes_sense
from nri_coloc.host.originals import CPUSETS

LASTS_S: Final = 100.0
"""The longest pause between two looks at a file: a memory bound is looked at with each picture of the node, every half
minute at the least, and not for a minute after a refusal. The kubelet's own steps are runs of runc, seconds at most."""


KUBELETS: Final = frozenset({"cpu.shares", "cpu.weight", "memory.limit_in_bytes", "memory.max"})
"""Files of a pod's cgroup that it writes at a resize. Quotas too, which `bandwidths` handles."""

KUBELETS_CONTROLLERS: Final[tuple[Controller, ...]] = ("cpu", "memory")
"""The controllers of these files."""

MOST: Final = 1024
"""Resizes kept at a time, in both hierarchies of cgroup v1: of all pods of a large node. The end of a pod is not
reported."""


class _Found(NamedTuple):
    text: str
    at: float


class Overwritten:
    """One writer at a time: the caller serialises, as for the journal. Times are of any one clock, seconds."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ours: dict[str, str] = {}
        self._theirs: dict[str, _Found] = {}
        self._resized: dict[str, float] = {}

    def wrote(self, file: str, text: str) -> None:
        """Note the value that this process wrote to a file."""
        if self._ours.get(file) != text:
            self._ours[file] = text
            self._journal.wrote(file, text)

    def ours(self, file: str) -> str | None:
        """Return our last value of a file; None if this process did not write it."""
        return self._ours.get(file)

    def found(self, file: str, shown: str, now: float) -> None:
        """Note the value that a file shows, before it is written again: ours, a foreign one, or that of a resize."""
        folder, _, name = file.rpartition("/")
        ours, entry = self._ours.get(file), self._journal.entry(file)
        if ours is None and entry is not None and entry.is_anothers(shown):
            self._adopt(file, shown)
        original = None if entry is None else entry.original
        if name not in KUBELETS or original in (None, shown) or ours in (None, shown):
            return
        if self._journal.is_to_come(file, shown):
            return
        if now - self._resized.get(folder, -inf) < LASTS_S:
            self._adopt(file, shown)
        else:
            self._theirs[file] = _Found(shown, now)

    def resized(self, folder: str, now: float, told: Iterable[FileValue] = ()) -> None:
        """Note that the kubelet is resizing the pod of a cgroup: its values were found shortly before, or will be.

        told: the new values, as far as they are known; one that equals ours is the original from now on.
        """
        self._resized.pop(folder, None)
        self._resized[folder] = now
        if len(self._resized) > MOST:
            del self._resized[next(iter(self._resized))]
        for file in self._journal.below(folder):
            found = self._theirs.get(file)
            if found is not None and now - found.at < LASTS_S:
                self._adopt(file, found.text)
        for value in told:
            self._told(f"{folder}/{value.name}", value)

    def look(self, file: str, now: float) -> None:
        """Read a file whose value of ours is known, and note its value as `found` does; raises KernelInterfaceError."""
        name = file.rpartition("/")[2]
        entry = self._journal.entry(file)
        shown = files.read(file) if entry is not None and entry.ours else None
        if shown is not None and makes_sense(name, shown):
            self.found(file, shown, now)

    def look_again(self, now: float) -> None:
        """Look once more at all pods that are being resized: it is the last look before their files are restored."""
        for folder in [folder for folder, at in self._resized.items() if now - at < LASTS_S]:
            for file in self._journal.below(folder):
                with suppress(KernelInterfaceError):  # the caller that restores it records it
                    self.look(file, now)

    def tidy(self, now: float) -> None:
        """Forget files that the journal has forgotten, and resizes that are over."""
        self._ours = {k: text for k, text in self._ours.items() if self._journal.original(k) is not None}
        self._theirs = {k: found for k, found in self._theirs.items() if now - found.at < LASTS_S}
        self._resized = {k: at for k, at in self._resized.items() if now - at < LASTS_S}

    def _told(self, file: str, value: FileValue) -> None:
        entry = self._journal.entry(file)
        if entry is None or entry.original in value.texts:
            return
        equal = [text for text in (self._ours.get(file), *entry.ours) if text in value.texts]
        if equal:
            self._adopt(file, str(equal[0]))

    def _adopt(self, file: str, shown: str) -> None:
        self._theirs.pop(file, None)
        self._journal.renew(file, shown)


def placed_in(journalled: Iterable[str]) -> set[str]:
    """Return the folders of cgroups whose own CPUs are journalled."""
    return {file.removesuffix(f"/{CPUS}") for file in journalled if _name(file) == CPUS}


def own(file: str, found: str, version: int) -> str:
    """Return the original value of a file that shows `found`: "" for a set that a v1 cgroup has from its parent."""
    is_a_set = version == 1 and _name(file) in CPUSETS
    return "" if is_a_set and is_as_its_parents(file, found) else found


def is_as_its_parents(file: str, found: str | None = None) -> bool:
    """Return whether a cgroup's CPUs or memory nodes equal its parent's.

    found: the text of the file, if it was read already.
    """
    folder, _, name = file.rpartition("/")
    texts = files.read(f"{folder.rpartition('/')[0]}/{name}"), files.read(file) if found is None else found
    sets = [files.mask(file, text) for text in texts if text]
    return len(sets) == len(texts) and sets[0] == sets[1]


def give_back(file: str, was: str, version: int, proc: str, apart: Container[str] | None = None) -> None:
    """Restore an entry of the journal: a file, the policy of tasks, or the score of processes.

    Raises KernelInterfaceError. `apart` as for `restore`.
    """
    folder, _, name = file.rpartition("/")
    if name == scheduler.NAME:
        failure = scheduler.reset_all(folder, version, was)
    elif name in oom_scores.NAMES:
        failure = oom_scores.reset(folder, proc, was)
    else:
        restore(file, was, version, apart)
        return
    if failure is not None:
        raise failure


def restore(file: str, was: str, version: int, apart: Container[str] | None = None) -> bool:
    """Write a file's original value, a cpuset together with the cgroups below it; return False if the file is gone.

    apart: for a pod's file, the folders that do not follow it (`cpusets.release`); None for any other file.
    """
    folder, _, name = file.rpartition("/")
    if name in io_limits.ALL_NAMES:
        return io_limits.restore(file, was)
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
    except ValueError as error:  # no journal of ours holds such a value
        raise KernelInterfaceError(file, f"write {was[:80]!r} to", str(error)) from error


def _emptied(folder: str, name: str) -> bool:
    """Give a v2 cgroup its parent's set again; return False if the cgroup is gone.

    A cgroup with tasks can no longer be without a set of its own (ENOSPC; kernel/cgroup/cpuset.c, validate_change). It
    gets its parent's whole set, which means the same.
    """
    try:
        return files.write(f"{folder}/{name}", "\n")
    except KernelInterfaceError:
        above = files.read(f"{folder.rpartition('/')[0]}/{name}.effective")
        if not above:
            raise
        return files.write(f"{folder}/{name}", above)


class Apart(NamedTuple):
    """A cgroup below a pod's with CPUs of its own.

    path: its folder.
    ordered: whether we ordered the CPUs; otherwise the kubelet did.
    """

    path: str
    ordered: bool = True


class PuttingBack:
    """Restores cgroups. Folders are paths on this machine.

    There is one writer at a time: the caller serialises, as for the journal.
    """

    def __init__(self, journal: Journal, overwritten: Overwritten, version: int, proc: str) -> None:
        self._journal = journal
        self._overwritten = overwritten
        self._version = version
        self._proc = proc

    def run(
        self, folders: Iterable[str], means: Callable[[str], bool], apart: Iterable[Apart] | None = None
    ) -> tuple[KernelInterfaceError, ...]:
        """Restore a cgroup's journalled files; return the refusals, which stay in the journal.

        means: selects files by name.
        apart: cgroups of a pod with CPUs of their own, if `folders` are a pod's.
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
            not_following = self._parted([*apart]) if _name(file) == CPUS else set()
        give_back(file, original, self._version, self._proc, not_following)
        self._journal.forget(file)

    def _parted(self, apart: list[Apart]) -> set[str]:
        """Return the folders that keep their own CPUs while their pod gets its original CPUs again."""
        for each in apart:
            file = f"{each.path}/{CPUS}"
            if each.ordered and self._version == 1 and is_as_its_parents(file):
                self._journal.note_known(file, "")
        return {*placed_in(self._journal.files()), *(each.path for each in apart)}


def _name(file: str) -> str:
    return file.rpartition("/")[2]
