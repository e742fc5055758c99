"""Distinguish this daemon's marks from marks of other daemons that may see the same cgroups.

Files and folders have the names that the host gives them (docs/decisions/0061-marks-name-their-daemon.md).
"""

import os
import secrets
from collections import Counter
from collections.abc import Container, Iterable, Mapping

from nri_coloc.host.journal_file import Contents
from nri_coloc.host.marks import Mark, Marks, Owner
from nri_coloc.host.originals import Entry


class OwnMarks:
    """The marks of one daemon. The lock of its journal guards them.

    owner: the daemon; each daemon has a random name until it knows the name that its journal holds.
    others: marks that other daemons had at the start, by folder and file.
    """

    def __init__(self, marks: Marks, host_root: str, state_folder: str) -> None:
        self.owner = Owner(os.path.realpath(state_folder), secrets.token_hex(8))
        self.others: dict[str, dict[str, Mark]] = {}
        self._marks = marks
        self._root = host_root

    def take_name(self, name: str) -> None:
        """Take the name that the journal holds, "" for none."""
        self.owner = self.owner._replace(name=name or self.owner.name)

    def read(self, journal: Contents) -> dict[str, Entry]:
        """Return the values of this daemon's marks; keep the values of other daemons' marks separately.

        journal: decides which marks are this daemon's.
        """
        ours: dict[str, Entry] = {}
        self.others = {}
        for file, mark in self._marks.read().items():
            if self._is_ours(name := file.removeprefix(self._root), mark.owner, journal):
                ours[name] = mark.entry
            else:
                self.others.setdefault(name.rpartition("/")[0], {})[name] = mark
        return ours

    def write(self, folder: str, values: Mapping[str, Entry]) -> bool:
        """Write a cgroup's mark, without values remove it; return False if there is no room for it."""
        names = {file.rpartition("/")[2]: entry for file, entry in values.items()}
        return self._marks.write(self._root + folder, names, self.owner)

    def taken_over(self, files: Iterable[str]) -> set[str]:
        """Return the folders of files that have the mark of another named daemon."""
        folders = {file.rpartition("/")[0] for file in files} & self.others.keys()
        return {folder for folder in folders if any(mark.owner.name for mark in self.others[folder].values())}

    def take_over(self, folder: str) -> dict[str, Entry]:
        """Return the values of a mark that this daemon takes over, none if the mark is its own.

        The mark is read again: since this daemon's start the other daemon may have restored values or written new ones.
        """
        self.others.pop(folder, None)
        return {
            file.removeprefix(self._root): mark.entry
            for file, mark in self._marks.of(self._root + folder).items()
            if mark.owner.name != self.owner.name
        }

    def is_foreign(self, folder: str, journal: Contents) -> bool:
        """Return whether a cgroup has the mark of another named daemon."""
        return any(
            mark.owner.name and not self._is_ours(file.removeprefix(self._root), mark.owner, journal)
            for file, mark in self._marks.of(self._root + folder).items()
        )

    def elsewhere(self, taken: Container[str], *, has_none: bool) -> Mapping[str, int]:
        """Return the numbers of values by state folder: of cgroups that were taken over, and of this state folder.

        The latter have another name if the journal came from a backup. `has_none`: all count, because this daemon has
        neither a name in its journal nor a value.
        """
        owners = (
            mark.owner
            for folder, found in self.others.items()
            for mark in found.values()
            if has_none or folder in taken or mark.owner.folder == self.owner.folder
        )
        return Counter(owner.folder for owner in owners if owner.folder)

    def _is_ours(self, file: str, owner: Owner, journal: Contents) -> bool:
        """Return whether this daemon wrote a mark.

        The name in the state folder decides; if that was lost, the folder's path. A mark without a name is ours if the
        journal holds its file, or may have lost it.
        """
        if journal.name:
            return owner.name == journal.name
        if owner.name:
            return owner.folder == self.owner.folder
        return file in journal.entries or not journal.is_complete
