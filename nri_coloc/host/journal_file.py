"""Read and write the journal's file: one line of JSON for each value, below a header with version and boot.

The line `{"file": …, "was": null}` says that a file has its original value again. Of several lines for a file the first
counts for `was`, and the last one for `ours`. Entries of another boot belong to cgroups that no longer exist. The file
is read as if another program had written it: line by line, within bounds, and only if it is a regular file.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from nri_coloc.core.texts import counted
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, state_file
from nri_coloc.host.originals import Entry

VERSION: Final = 2
"""Version 1 had no header."""

MOST_BYTES: Final = 16 << 20
MOST_ENTRIES: Final = 1 << 16
"""Five times as many as a node of 500 pods has on cgroup v1."""

BOOT: Final = "/proc/sys/kernel/random/boot_id"
"""The kernel's id of this boot (proc_sys_kernel(5)), below the host's root."""

_LONGEST_LINE: Final = 1 << 16
_compact: Final = json.JSONEncoder(separators=(",", ":")).encode
_KEPT: Final = 9
"""The most files that are kept aside."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line.

    boot: the kernel's id of the boot, "" if it could not be read.
    is_whole: False if values of ours may be in force that the journal lacks, because an earlier journal was lost.
    name: the name of the daemon on its marks, "" in a journal of a version that had none.
    """

    boot: str = ""
    is_whole: bool = True
    name: str = ""


@dataclass(slots=True)
class Contents:
    """The contents of a journal.

    entries: original values by file.
    is_there: whether a file, or something else, is at its path.
    is_whole, name: as in `Header`.
    dropped: number of entries of another boot.
    unread: number of lines that are not entries.
    is_torn: whether the last line was cut off, as by a crash; it does not count in `unread`.
    is_foreign: whether another version of the program wrote it; no entry is read then.
    problem: why it could not be read to its end, "" if it was.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    is_there: bool = False
    is_whole: bool = True
    name: str = ""
    dropped: int = 0
    unread: int = 0
    is_torn: bool = False
    is_foreign: bool = False
    problem: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether every line was read."""
        return not (self.unread or self.is_foreign or self.problem)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be missing from the journal."""
        return self.is_there and self.is_sound and not self.is_torn

    @property
    def complaint(self) -> str:
        """Return the file's defect, without the sentence's subject; "" if it has none."""
        if self.is_foreign:
            return f"is of another version than {VERSION}, which this program cannot read"
        unread = f"holds {counted(self.unread, 'line')} without an entry" if self.unread else ""
        return " and ".join(filter(None, (self.problem, unread)))


def read(path: str, boot: str = "", may_name: Callable[[str], bool] = lambda _file: True) -> Contents:
    """Return the contents of a journal for one boot; with `boot` "" entries of any boot count.

    may_name: return whether an entry may name a file; a line that names another file is no entry.
    """
    found = Contents()
    try:
        file = state_file.opened(path)
    except FileNotFoundError:
        return found
    except OSError as error:
        found.is_there, found.problem = True, f"cannot be read: {state_file.reason(error)}"
        return found
    found.is_there = True
    with file:
        try:
            _take(file, boot, found, may_name)
        except OSError as error:
            found.problem = f"cannot be read: {state_file.reason(error)}"
    return found


def _take(file: BinaryIO, boot: str, found: Contents, may_name: Callable[[str], bool]) -> None:
    size, is_of_this_boot = 0, True
    for line in filter(bytes.strip, _lines(file)):
        size += len(line)
        if size > MOST_BYTES or len(found.entries) > MOST_ENTRIES:
            found.problem = "is larger than any journal of this program; the rest was not read"
            return
        entry = _parsed(line)
        if "journal" in entry:
            header = _header(entry)
            found.is_foreign = header is None
            if header is None:
                found.entries.clear()
                return
            is_of_this_boot = not (boot and header.boot) or header.boot == boot
            found.is_whole = header.is_whole or not is_of_this_boot
            found.name = header.name
        elif not _keep(entry, found, may_name, is_of_this_boot=is_of_this_boot):
            found.is_torn = not line.endswith(b"\n")
            found.unread += not found.is_torn


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines. A line that is too long comes in pieces; no piece is an entry."""
    return iter(lambda: file.readline(_LONGEST_LINE), b"")


def _parsed(line: bytes) -> dict[str, Any]:
    """Return a line's entry; an empty one if the line holds none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _header(entry: Mapping[str, Any]) -> Header | None:
    """Return the header; None if it is of another version."""
    if entry["journal"] != VERSION:
        return None
    return Header(str(entry.get("boot", "")), entry.get("whole") is not False, str(entry.get("name", "")))


def _keep(
    entry: Mapping[str, Any], found: Contents, may_name: Callable[[str], bool], *, is_of_this_boot: bool
) -> bool:
    """Add one entry; return False if the line is not an entry."""
    file = entry.get("file")
    if "was" not in entry or not isinstance(file, str) or not _is_path(file) or not may_name(file):
        return False
    was = entry["was"]
    if not is_of_this_boot:
        found.dropped += was is not None
    elif was is None:
        found.entries.pop(file, None)
    else:
        first = found.entries.setdefault(file, Entry(str(was), entry.get("unknown") is not True))
        found.entries[file] = first._replace(ours=_texts(entry.get("ours")))
    return True


def _texts(found: object) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _is_path(file: str) -> bool:
    """Return whether the kernel can take a name: JSON can hold names that no path can have."""
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        return False
    return file.startswith("/") and "\0" not in file


def text(entries: Mapping[str, Entry | None], header: Header | None = None) -> str:
    """Return the text of entries, below a header if there is one.

    None means that a file has its original value again.
    """
    lines = ([_head(header)] if header else []) + [_line(file, entry) for file, entry in entries.items()]
    return "".join(f"{_compact(line)}\n" for line in lines)


def _head(header: Header) -> dict[str, Any]:
    head = {"journal": VERSION, "boot": header.boot, "whole": header.is_whole}
    return head | ({"name": header.name} if header.name else {})


def _line(file: str, entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {"file": file, "was": None}
    line = {"file": file, "was": entry.original} | ({} if entry.is_known else {"unknown": True})
    return line | ({"ours": entry.ours} if entry.ours else {})


def append(path: Path, lines: str, header: Header) -> tuple[os.stat_result, bool]:
    """Append lines to the file, below a header if it is new or empty; raise OSError.

    Returns the file's status and whether all was written: a disk that fills up takes a part without an error.
    """
    content = lines.encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = state_file.checked(os.open(path, flags, 0o600))
    try:
        size = os.fstat(fd).st_size
        if not size:
            content = text({}, header).encode() + content
        elif os.pread(fd, 1, size - 1) != b"\n":
            content = b"\n" + content  # the last line was cut off, and must not swallow the next
        is_written = os.write(fd, content) == len(content)
        return os.fstat(fd), is_written
    finally:
        os.close(fd)


def boot_of(root: str) -> str:
    """Return the kernel's id of this boot, "" if it cannot be read."""
    with suppress(KernelInterfaceError):
        return (files.read(f"{root}{BOOT}") or "").strip()
    return ""


def keep_aside(path: Path) -> Path | None:
    """Rename a file that is not a journal of ours, so that nothing is lost.

    Returns the new path, None if the kernel refuses it or all names are taken.
    """
    for number in range(1, _KEPT + 1):
        kept = path.with_name(f"{path.name}.kept-{number}")
        if kept.exists() or kept.is_symlink():
            continue
        try:
            path.rename(kept)
        except OSError:
            return None
        return kept
    return None
