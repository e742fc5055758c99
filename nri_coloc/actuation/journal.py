"""What was there before us, so that `restore` can put it back (DESIGN invariant 9).

One line of JSON per file, appended before the first write to it; the first value recorded for a file is the
original, later ones are ours. A line that is cut off (a crash, a full disk) is skipped when read. A journal
that cannot be written costs restore, never placement: the failure is reported once and the value is written.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

Report = Callable[[str], None]


class Journal:
    """Append-only; knows which files it holds already. One writer at a time: the caller serialises."""

    def __init__(self, path: str, report: Report, host_root: str = "/") -> None:
        self._path = Path(path)
        self._root = host_root.rstrip("/")
        self._report = report
        self._originals = load(path)
        self._failed = False

    def note(self, file: str, original: str) -> None:
        """Record a file's value before our first write to it; kept as the host names it."""
        file = file.removeprefix(self._root)
        if file in self._originals:
            return
        self._originals[file] = original
        line = lines({file: original})
        try:
            self._append(line.encode())
            self._failed = False
        except OSError as error:
            if not self._failed:
                reason = os.strerror(error.errno or 0)
                self._report(f"cannot write the restore journal {self._path}: {reason}; placing goes on")
            self._failed = True

    def original(self, file: str) -> str | None:
        """Return what a file held before us, None if we never wrote it."""
        return self._originals.get(file.removeprefix(self._root))

    def below(self, folder: str) -> dict[str, str]:
        """Return what the files of one folder held before us, by path on this machine."""
        prefix = folder.removeprefix(self._root) + "/"
        return {
            self._root + f: was for f, was in self._originals.items() if f.rpartition("/")[0] + "/" == prefix
        }

    def forget(self, file: str) -> None:
        """Drop a file that holds its former value again; the line goes when the journal is next shortened."""
        self._originals.pop(file.removeprefix(self._root), None)

    def forget_gone(self) -> None:
        """Drop what belongs to cgroups that are gone, and write the rest anew."""
        kept = {file: was for file, was in self._originals.items() if Path(self._root + file).exists()}
        if len(kept) == len(self._originals):
            return
        self._originals = kept
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(lines(kept))
            fresh.replace(self._path)
        except OSError as error:
            self._report(f"cannot shorten the restore journal {self._path}: {os.strerror(error.errno or 0)}")

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = (
                    b"\n" + line
                )  # a crash or a full disk cut the last line off; it must not swallow this one
            os.write(fd, line)
        finally:
            os.close(fd)


def lines(originals: Mapping[str, str]) -> str:
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
            originals.setdefault(str(entry["file"]), str(entry["was"]))
        except (ValueError, KeyError, TypeError):
            continue
    return originals
