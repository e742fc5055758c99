"""What was there before us, so that `restore` can put it back (DESIGN invariant 9).

One line of JSON per file, appended before the first write to it; the first value recorded for a file is the
original, later ones are ours. A line that is cut off (a crash, a full disk) is skipped when read. A journal
that cannot be written costs restore, never placement: the failure is reported once and the value is written.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

Report = Callable[[str], None]


class Journal:
    """Append-only; knows which files it holds already. One writer at a time: the caller serialises."""

    def __init__(self, path: str, report: Report) -> None:
        self._path = Path(path)
        self._report = report
        self._originals = load(path)
        self._failed = False

    def note(self, file: str, original: str) -> None:
        """Record a file's value before our first write to it."""
        if file in self._originals:
            return
        self._originals[file] = original
        line = json.dumps({"file": file, "was": original}, separators=(",", ":")) + "\n"
        try:
            self._append(line.encode())
            self._failed = False
        except OSError as error:
            if not self._failed:
                reason = os.strerror(error.errno or 0)
                self._report(f"cannot write the restore journal {self._path}: {reason}; placing goes on")
            self._failed = True

    def forget_gone(self) -> None:
        """Drop what belongs to cgroups that are gone, and write the rest anew."""
        kept = {file: was for file, was in self._originals.items() if Path(file).exists()}
        if len(kept) == len(self._originals):
            return
        self._originals = kept
        text = "".join(
            json.dumps({"file": f, "was": w}, separators=(",", ":")) + "\n" for f, w in kept.items()
        )
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(text)
            fresh.replace(self._path)
        except OSError as error:
            self._report(f"cannot shorten the restore journal {self._path}: {os.strerror(error.errno or 0)}")

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(fd, line)
            if written != len(line):
                # the rest of the line could not be had; end it, so that the next one is whole
                os.write(fd, b"\n")
        finally:
            os.close(fd)


def load(path: str) -> dict[str, str]:
    """Return original values by file; what cannot be read is skipped."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    originals: dict[str, str] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            originals.setdefault(str(entry["file"]), str(entry["was"]))
        except (ValueError, KeyError, TypeError):
            continue
    return originals
