"""What was there before us, so that `restore` can put it back (DESIGN invariant 9).

One line of JSON per file, appended before the first write to it; the first value recorded for a file is the
original, later ones are ours, and a value of null says that the file has its original again. A line that is cut off
(a crash, a full disk) is skipped when read. A journal that cannot be written costs restore, never placement: the
failure is reported once, the value is written, and the whole journal is tried again with every cleaning.
"""

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

SUPERFLUOUS: Final = 1000
"""Lines that say nothing any more, from which on the file is written anew: a fifth of a megabyte in /run."""

CLUTTER: Final = 256
"""Files, beyond twice those that the last cleaning left, from which on another is due: some fifty pods that ended."""

Report = Callable[[str], None]


class Journal:
    """Append-only; knows which files it holds already. One writer at a time: the caller serialises."""

    def __init__(self, path: str, report: Report, host_root: str = "/") -> None:
        self._path = Path(path)
        self._root = host_root.rstrip("/")
        self._report = report
        self._originals: dict[str, str] = {}
        self._in_folder: dict[str, set[str]] = {}
        self._failed = False
        self._superfluous = 0
        self._left = 0
        self.load_again()

    def load_again(self) -> None:
        """Take what the file holds now: another daemon may have written it while we waited for our turn."""
        self._hold(load(str(self._path)))

    def note(self, file: str, original: str) -> None:
        """Record a file's value before our first write to it; kept as the host names it."""
        file = file.removeprefix(self._root)
        if file in self._originals:
            return
        self._originals[file] = original
        self._in_folder.setdefault(file.rpartition("/")[0], set()).add(file)
        self._try_to_append(lines({file: original}))

    def renew(self, file: str, original: str) -> None:
        """Have another value be the one to go back to: somebody wrote it who may."""
        file = file.removeprefix(self._root)
        if self._originals.get(file) in (None, original):
            self.note(file, original)
            return
        self._originals[file] = original
        self._superfluous += 2
        self._try_to_append(lines({file: None}) + lines({file: original}))

    def original(self, file: str) -> str | None:
        """Return what a file held before us, None if we never wrote it."""
        return self._originals.get(file.removeprefix(self._root))

    def below(self, folder: str) -> dict[str, str]:
        """Return what the files of one folder held before us, by path on this machine."""
        files = self._in_folder.get(folder.removeprefix(self._root), ())
        return {self._root + file: self._originals[file] for file in files}

    def files(self) -> list[str]:
        """Return every file that it holds, by path on this machine."""
        return [self._root + file for file in self._originals]

    def forget(self, file: str) -> None:
        """Drop a file that holds its former value again; what it holds the next time is another original."""
        file = file.removeprefix(self._root)
        if self._originals.pop(file, None) is not None:
            folder = file.rpartition("/")[0]
            self._in_folder[folder].discard(file)
            if not self._in_folder[folder]:
                del self._in_folder[folder]
            self._superfluous += 2
            self._try_to_append(lines({file: None}))

    @property
    def is_cluttered(self) -> bool:
        """Whether so much has come since the last cleaning that most of it may belong to cgroups that are gone."""
        return len(self._originals) > 2 * self._left + CLUTTER

    def forget_gone(self) -> None:
        """Drop what belongs to cgroups that are gone, and write the rest anew; also where little of the file holds.

        On a node where nobody ends a quota that is raised and lowered again is two lines each time.
        """
        kept = {file: was for file, was in self._originals.items() if Path(self._root + file).exists()}
        self._left = len(kept)
        if len(kept) == len(self._originals) and not self._failed and self._superfluous < SUPERFLUOUS:
            return
        self._hold(kept)
        try:
            replace(self._path, kept)
            self._failed, self._superfluous = False, 0
        except OSError as error:
            self._fail(error)

    def _hold(self, originals: dict[str, str]) -> None:
        self._originals, self._in_folder = originals, {}
        for file in originals:
            self._in_folder.setdefault(file.rpartition("/")[0], set()).add(file)

    def _try_to_append(self, line: str) -> None:
        try:
            self._append(line.encode())
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            reason = os.strerror(error.errno or 0)
            self._report(f"cannot write the restore journal {self._path}: {reason}; placing goes on")
        self._failed = True

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = (
                    b"\n" + line
                )  # a crash or a full disk cut the last line off; it must not swallow this one
            if os.write(fd, line) < len(line):  # a disk that fills up takes a part and says nothing
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)


def replace(path: Path, originals: Mapping[str, str]) -> None:
    """Write a journal anew, in one step: whoever is killed in between leaves the old one or the new one."""
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(lines(originals))
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def lines(originals: Mapping[str, str | None]) -> str:
    """Render entries as the journal's text."""
    return "".join(
        json.dumps({"file": f, "was": w}, separators=(",", ":")) + "\n" for f, w in originals.items()
    )


def load(path: str) -> dict[str, str]:
    """Return original values by file; what cannot be read is skipped."""
    try:
        entries = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    originals: dict[str, str] = {}
    for line in entries:
        try:
            entry = json.loads(line)
            file, was = str(entry["file"]), entry["was"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if was is None:
            originals.pop(file, None)
        elif file.startswith("/") and "\0" not in file and _is_path(file):
            originals.setdefault(file, str(was))
    return originals


def _is_path(file: str) -> bool:
    """Whether the system can be told of such a file: JSON can spell what no path can."""
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        return False
    return True
