"""Keep original values: the content of files before our first write, for `restore` (docs/testing.md, invariant 9).

The state folder holds them, one line each, and the cgroups themselves do (`marks`). A value is noted before the first
write to its file. The first noted value is the original. The values that we are about to write are noted too, so that
the next process and `restore` know a later value of another writer. They change more often than originals: where the
kernel takes marks, a change of them alone is written to the mark alone, unless the cgroup has no room for a mark. A
journal that cannot be written affects `restore`, never placement: the value is written nevertheless, and the whole
journal is retried.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from nri_coloc.host import journal_file, originals, state_file
from nri_coloc.host.journal_file import Contents, Header
from nri_coloc.host.mark_owners import OwnMarks
from nri_coloc.host.marks import Marks
from nri_coloc.host.originals import CPUSETS, Entry

SUPERFLUOUS: Final = 1000
"""Lines without effect after which the file is rewritten: a fifth of a megabyte."""

CLUTTER: Final = 256
"""Files beyond twice the number after the last cleaning; with more, a cleaning is due. Some fifty ended pods."""


class Remark(NamedTuple):
    """A fact for an operator.

    because: a sentence.
    inputs: its figures and names.
    """

    because: str
    inputs: Mapping[str, str | int]


class Journal:
    """Original values by file. Files are paths on this machine; any thread may call.

    Size: one file, its lock, and the checks that keep a damaged or foreign file from being taken for ours.
    """

    def __init__(self, path: str, host_root: str = "/", marks: Marks | None = None) -> None:
        self.problem = ""
        """Why the file cannot be written, "" while it can."""
        self.complaint = ""
        """Why the file that was read is not a journal of ours, without the sentence's subject; "" if it is one."""
        self.dropped = 0
        """The number of entries that were read and date from before the machine's last start."""
        self._path = Path(path)
        self._root = host_root.rstrip("/")
        self._marks = marks or Marks()
        self._boot = journal_file.boot_of(self._root)
        self._lock = RLock()
        self._originals: dict[str, Entry] = {}
        self._in_folder: dict[str, set[str]] = {}
        self._to_come: dict[str, list[tuple[str, ...]]] = {}
        self._let_go: set[str] = set()
        self._contents = Contents()
        self._own_marks = OwnMarks(self._marks, self._root, str(self._path.parent))
        self._elsewhere: Mapping[str, int] = {}
        self._is_whole = True
        self._distrusted: frozenset[str] = frozenset()
        self._was_rewritten = False
        self._aside: Path | None = None
        self._left_as: tuple[int, int, int] | None = None
        """Device, inode and size after our last write. The size counts because a new file may get a removed file's
        inode."""
        self._superfluous = 0
        self._left = 0
        self._hold(self._read().entries)

    @property
    def path(self) -> str:
        return str(self._path)

    @property
    def kept_as(self) -> str:
        """The new name of a file that was not a journal of ours, "" if there was none."""
        return str(self._aside or "")

    @property
    def elsewhere(self) -> Mapping[str, int]:
        """Return the numbers of values that marks of other daemons hold instead of this one, by state folder."""
        return self._elsewhere

    # ---- the file and the marks as a whole ----

    def load(self) -> None:
        """Read the file and this daemon's marks. Where they differ the marks count: they cannot be outdated.

        Entries of a cgroup with the mark of another named daemon do not count: that daemon has taken them over.
        """
        with self._lock:
            self._marks.probe()
            contents = self._read()
            self._is_whole = contents.is_whole
            marked, taken = self._own_marks.read(contents), self._own_marks.taken_over(contents.entries)
            kept = {file: one for file, one in contents.entries.items() if self._folder_of(file) not in taken}
            self._hold(kept | marked)
            self._elsewhere = self._own_marks.elsewhere(
                taken, has_none=not (contents.name or self._originals)
            )

    def begin(self) -> list[Remark]:
        """Load all, rewrite file and marks, and return remarks on problems that were found.

        The state folder must be locked by this process.
        """
        with self._lock:
            self.load()
            was_there = self._contents.is_there
            if self.complaint:
                self._forget_gone()  # it may name more files than a node has
            self._rewrite()
            for folder in self._in_folder:
                self._mark(folder)
            if not self._is_whole:
                self._distrust_found()
            return [*self._remarks(was_there=was_there)]

    def look(self) -> bool:
        """Rewrite the file if it is gone or lacks a line; return whether it was rewritten since the last call."""
        with self._lock:
            if self.problem or not self._is_in_place():
                self._was_rewritten = self._rewrite() or self._was_rewritten
            was_rewritten, self._was_rewritten = self._was_rewritten, False
            return was_rewritten

    def keep(self, entries: Iterable[str]) -> str:
        """Keep only these entries; return why the file cannot be written, "" if it was.

        entries: files as the host names them. A journal of another version stays as it is.
        """
        with self._lock:
            before = [*self._in_folder]
            self._hold({file: self._originals[file] for file in entries})
            for folder in before:
                self._mark(folder)
            if not self._contents.is_foreign:
                self._rewrite()
            return self.problem

    @property
    def lacking(self) -> str:
        """Return why values of ours may be in force that the journal does not hold, "" if there can be none."""
        if self.complaint and (self._contents.is_foreign or not self._marks.work):
            return f"the restore journal {self._path} {self.complaint}"
        lost = "an earlier journal was lost while the plugin's values were in force"
        because = "" if self._is_whole else lost
        if self._contents.is_torn and not self._marks.work:
            because = "its last line was cut off"
        return because and f"the restore journal {self._path} is not whole: {because}"

    @property
    def may_lack(self) -> bool:
        """Whether an earlier journal may have been lost without marks that replace it."""
        return not self._marks.work and not self._contents.is_complete

    def distrust(self) -> None:
        """From now on, take no value of a present cgroup for an original: the previous process may have written it."""
        with self._lock:
            self._is_whole = False
            self._distrust_found()
            self._rewrite()

    # ---- entries ----

    def note(self, file: str, found: str, *ours: str) -> None:
        """Note the value that a file shows before it is written, and the values that it may show afterwards.

        ours: texts of the value that will be written, none if they are not known.
        """
        name = file.removeprefix(self._root)
        with self._lock:
            self._let_go.discard(name)
            held = self._held(name)
            if held is not None and not (ours or held.ours):
                return  # the entry stays as it is, as at most writes of CPUs
            first = originals.unknown(file, found) if self._is_distrusted(file) else Entry(found)
            entry = (held or first).before_write(found, self._with_those_to_come(name, ours))
            if held is None:
                self._add(self._folder_of(name), {name: entry})
            else:
                self._note_ours(name, entry)

    def expect(self, file: str, found: str, *ours: str) -> None:
        """Note, as `note` does, a write that another thread or the runtime will make without the caller's lock.

        Until `arrived` no thread drops the entry, and the values that are to come count as ours.
        """
        with self._lock:
            self._to_come.setdefault(file.removeprefix(self._root), []).append(ours)
            self.note(file, found, *ours)

    def arrived(self, file: str, shown: str | None, *ours: str) -> bool:
        """Note that an expected write was made or given up; return whether the entry was to be dropped meanwhile.

        It is dropped now if the file shows the original value. shown: None if the file is gone or cannot be read.
        """
        name = file.removeprefix(self._root)
        with self._lock:
            self._to_come[name].remove(ours)
            if self._to_come[name]:
                return False
            del self._to_come[name]
            was_let_go, entry = name in self._let_go, self._originals.get(name)
            self._let_go.discard(name)
            if was_let_go and entry is not None and shown is not None and entry.is_original(shown):
                self._drop(file)
            return was_let_go

    def is_to_come(self, file: str, shown: str) -> bool:
        """Return whether a file shows a value of ours that is still expected."""
        return any(shown in texts for texts in self._to_come.get(file.removeprefix(self._root), ()))

    def wrote(self, file: str, shown: str) -> None:
        """Note the value that a file shows after our write, if it is not noted: the kernel may have rounded it."""
        entry, name = self.entry(file), file.removeprefix(self._root)
        if entry is not None and shown not in entry.ours and file.rpartition("/")[2] not in CPUSETS:
            with self._lock:
                texts = self._with_those_to_come(name, (*entry.ours[-1:], shown))
                self._note_ours(name, entry._replace(ours=tuple(dict.fromkeys(texts))))

    def suspect(self, file: str, found: str) -> None:
        """Note a file's value if the previous process may have written it, even if the file will not be written."""
        with self._lock:
            if self._is_distrusted(file):
                self._note(file, originals.unknown(file, found))
            elif (folder := self._folder_of(file)) in self._own_marks.others:
                self._take_over(folder)

    def note_known(self, file: str, original: str) -> None:
        """Note an original value that is known from another source than the file."""
        with self._lock:
            self._note(file, Entry(original))

    def renew(self, file: str, original: str) -> None:
        """Replace the original value: the kubelet wrote another one."""
        name = file.removeprefix(self._root)
        with self._lock:
            self._take_over(self._folder_of(name))
            former = self._originals.get(name)
            renewed = Entry(original, ours=former.ours if former else ())
            if former is None:
                self._note(file, renewed)
            elif former != renewed:
                self._originals[name] = renewed
                self._superfluous += 2
                self._write_mark(name.rpartition("/")[0])
                self._append(journal_file.text({name: None}) + journal_file.text({name: renewed}))

    def entry(self, file: str) -> Entry | None:
        return self._originals.get(file.removeprefix(self._root))

    def original(self, file: str) -> str | None:
        """Return the value that `restore` writes to a file; None if we never wrote the file."""
        return None if (found := self.entry(file)) is None else found.original

    def entries(self) -> Mapping[str, Entry]:
        """Return all entries by file, as the host names files."""
        with self._lock:
            return dict(self._originals)

    def below(self, folder: str) -> dict[str, str]:
        """Return the original values of one folder's files."""
        with self._lock:
            names = self._in_folder.get(folder.removeprefix(self._root), ())
            return {self._root + file: self._originals[file].original for file in names}

    def files(self) -> list[str]:
        with self._lock:
            return [self._root + file for file in self._originals]

    def forget(self, file: str) -> None:
        """Drop a file that has its original value again, once no write of it is to come.

        Its next write notes a new original.
        """
        name = file.removeprefix(self._root)
        with self._lock:
            if name in self._to_come:
                self._let_go.add(name)
            else:
                self._drop(file)

    @property
    def is_cluttered(self) -> bool:
        """Whether so many entries were added since the last cleaning that most may belong to ended cgroups."""
        return len(self._originals) > 2 * self._left + CLUTTER

    def forget_gone(self) -> None:
        """Drop the entries of ended cgroups; rewrite the file if there were any, or if many lines are without effect.

        Even on a node where no pod ends, each raise and restoration of a quota adds two lines.
        """
        with self._lock:
            gone = self._forget_gone()
            self._left = len(self._originals)
            if gone or self.problem or self._superfluous >= SUPERFLUOUS:
                self._rewrite()

    # ---- inside ----

    def _note(self, file: str, entry: Entry) -> None:
        """Add an entry unless the file has one."""
        name = file.removeprefix(self._root)
        if self._held(name) is None:
            self._add(self._folder_of(name), {name: entry})

    def _held(self, name: str) -> Entry | None:
        """Return a file's entry, which may come from another daemon's mark that is taken over first."""
        folder = self._folder_of(name)
        if name not in self._originals or folder in self._own_marks.others:
            self._take_over(folder)
        return self._originals.get(name)

    def _with_those_to_come(self, name: str, ours: tuple[str, ...]) -> tuple[str, ...]:
        """Return values of ours with those that are to come; none if one of them is unknown."""
        all_of = (ours, *self._to_come.get(name, ()))
        return tuple(text for texts in all_of for text in texts) if all(all_of) else ()

    def _note_ours(self, name: str, entry: Entry) -> None:
        """Replace the entry of a file by one with other values of ours."""
        held = self._originals.get(name)
        if held is None or set(entry.ours) == set(held.ours):
            return
        self._originals[name] = entry
        self._mark(self._folder_of(name))
        if not self._marks.work:
            self._superfluous += 1
            self._append(journal_file.text({name: entry}))

    def _add(self, folder: str, originals: Mapping[str, Entry]) -> None:
        self._originals |= originals
        self._in_folder.setdefault(folder, set()).update(originals)
        self._write_mark(folder)
        self._append(journal_file.text(originals))

    def _take_over(self, folder: str) -> None:
        """Take over another daemon's mark on a cgroup that this daemon acts on: the values there are not original."""
        if found := self._own_marks.take_over(folder):
            self._add(folder, found | self._held_in(folder))

    def _held_in(self, folder: str) -> dict[str, Entry]:
        return {file: self._originals[file] for file in self._in_folder.get(folder, ())}

    def _folder_of(self, file: str) -> str:
        return file.removeprefix(self._root).rpartition("/")[0]

    def _drop(self, file: str) -> None:
        file = file.removeprefix(self._root)
        if self._originals.pop(file, None) is None:
            return
        folder = file.rpartition("/")[0]
        self._in_folder[folder].discard(file)
        if not self._in_folder[folder]:
            del self._in_folder[folder]
        self._superfluous += 2
        self._mark(folder)
        self._append(journal_file.text({file: None}))

    def _forget_gone(self) -> int:
        """Drop the entries of ended cgroups; return their number."""
        gone = {file for file in self._originals if not os.path.exists(self._root + file)}  # noqa: PTH110 - never raises
        if gone:
            self._hold({file: one for file, one in self._originals.items() if file not in gone})
            for folder in dict.fromkeys(file.rpartition("/")[0] for file in gone):
                self._mark(folder)
        return len(gone)

    def _hold(self, originals: Mapping[str, Entry]) -> None:
        self._originals, self._in_folder = dict(originals), {}
        for file in originals:
            self._in_folder.setdefault(file.rpartition("/")[0], set()).add(file)

    def _mark(self, folder: str) -> None:
        """Write a cgroup's mark, unless another daemon has taken the cgroup over."""
        if not self._own_marks.is_foreign(folder, self._contents):
            self._write_mark(folder)

    def _write_mark(self, folder: str) -> None:
        """Write a cgroup's mark; if there is no room for it, the journal gets all values that it would hold."""
        held = self._held_in(folder)
        if not self._own_marks.write(folder, held):
            self._superfluous += len(held)
            self._append(journal_file.text(held))

    def _is_distrusted(self, file: str) -> bool:
        return file.rpartition("/")[0] in self._distrusted

    def _distrust_found(self) -> None:
        self._distrusted = frozenset(self._marks.folders())

    def _read(self) -> Contents:
        self._contents = journal_file.read(
            str(self._path), self._boot, lambda file: self._marks.covers(self._root + file)
        )
        self.dropped = self._contents.dropped
        self.complaint = self._contents.complaint
        self._own_marks.take_name(self._contents.name)
        if not (self._marks.work or self._contents.is_complete):
            # a lost line may have held a newer value of ours
            entries = self._contents.entries
            self._contents.entries = {file: one._replace(ours=()) for file, one in entries.items()}
        return self._contents

    def _remarks(self, *, was_there: bool) -> Iterator[Remark]:
        inputs: dict[str, str | int] = {"file": str(self._path), "values": len(self._originals)}
        known = f"values={len(self._originals)}"
        if not was_there and self._originals:
            yield Remark(
                f"restore journal missing: its values were read from the cgroups' marks ({known})", inputs
            )
        if self.complaint:
            because = f"restore journal moved aside: it {self.complaint} ({known})"
            yield Remark(because, inputs | {"kept_as": self.kept_as})
        if self.dropped:
            because = f"restore journal of another boot dropped: its cgroups no longer exist (dropped={self.dropped})"
            yield Remark(because, inputs | {"dropped": self.dropped})

    # ---- writing ----

    def _is_in_place(self) -> bool:
        """Return whether the file is as this process left it."""
        try:
            status = self._path.lstat()
        except OSError:
            return False
        return self._left_as in (None, _identity(status))

    def _rewrite(self) -> bool:
        """Rewrite the file; return whether that worked."""
        try:
            self._move_aside()
            state_file.replace(self._path, journal_file.text(self._originals, self._header))
            status = self._path.lstat()
        except OSError as error:
            self._fail(error)
            return False
        self.problem, self._superfluous = "", 0
        self._left_as = _identity(status)
        return True

    @property
    def _is_in_the_way(self) -> bool:
        """Whether a file that is not a journal of ours was read and is still at its path."""
        return self._contents.is_there and not self._contents.is_sound

    def _move_aside(self) -> None:
        """Rename a file that is not a journal of ours; raise OSError if that is refused."""
        if self._is_in_the_way:
            self._aside = journal_file.keep_aside(self._path)
            if self._aside is None:
                raise OSError(errno.EEXIST, "it is no journal of this program, and cannot be moved aside")
            self._contents = Contents()

    def _append(self, lines: str) -> None:
        if self._is_in_the_way or not self._is_in_place():
            is_first = self._left_as is None
            self._was_rewritten = self._rewrite() and not is_first
            return
        try:
            status, is_written = journal_file.append(self._path, lines, self._header)
        except OSError as error:
            self._fail(error)
            return
        self._left_as = _identity(status)
        if not is_written:
            self._fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    @property
    def _header(self) -> Header:
        return Header(self._boot, self._is_whole, self._own_marks.owner.name)

    def _fail(self, error: OSError) -> None:
        self.problem = f"cannot write the restore journal {self._path}: {error.strerror}"


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_size
