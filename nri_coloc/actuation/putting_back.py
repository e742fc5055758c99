"""Restore the files of a cgroup while the daemon runs; `restoration` does it for a whole node.

A pod's CPUs go to all cgroups below it but those with a set of their own. On cgroup v1 a container that we gave a set
may show its pod's at this moment: before us it had its pod's, whatever that is. This is noted before the pod's set
changes, for afterwards nothing tells it.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from nri_coloc.actuation import former_values
from nri_coloc.actuation.former import CPUSETS
from nri_coloc.actuation.former_values import CPUS
from nri_coloc.actuation.journal import Journal
from nri_coloc.actuation.overwritten import Overwritten
from nri_coloc.errors import KernelInterfaceError


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
        former_values.give_back(file, original, self._version, self._proc, not_following)
        self._journal.forget(file)

    def _parted(self, apart: list[Apart]) -> set[str]:
        """Return the folders that keep their own CPUs while their pod gets back its original ones."""
        for each in apart:
            file = each.path + CPUS
            if each.ordered and self._version == 1 and former_values.is_as_its_parents(file):
                self._journal.note_known(file, "")
        return {*former_values.placed_in(self._journal.files()), *(each.path for each in apart)}


def _name(file: str) -> str:
    return file.rpartition("/")[2]
