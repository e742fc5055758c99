"""Write and read plain files like kernel files: a reader gets a whole value although two programs write at any time.

A kernel file never shows parts of two values, and is never empty during a write. A plain file can be both, between its
truncation and the next write. So this module never truncates: one write replaces the value, and newlines fill the rest,
which readers of such files ignore. All files have the same size from the start. Otherwise, of two values written at the
same time, the end of the longer one could follow the shorter one. Other programs may truncate a file: then a reader
waits for their write.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOM: Final = 256
"""Size of a file in bytes. Longer values are written whole too, unless two of them are written at the same time."""

_READ_SIZE: Final = 1 << 16
_CUT_FOR_S: Final = 30.0
"""Seconds that a file may stay truncated: the writer may wait for a CPU, or the whole machine may stop."""

_LOOK_AGAIN_S: Final = 0.001


def put(file: Path | str, text: str, create: int = os.O_CREAT) -> None:
    """Write a value in one step; with `create` 0, raise FileNotFoundError if there is no such file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC | create, 0o644)
    try:
        show(descriptor, text)
    finally:
        os.close(descriptor)


def show(descriptor: int, text: str) -> None:
    """Write a value into a file that is open for writing."""
    size = max(ROOM, os.fstat(descriptor).st_size)
    os.pwrite(descriptor, f"{text}\n".encode().ljust(size, b"\n"), 0)


def read(file: Path | str) -> str | None:
    """Return a file's text without newlines at its end; None if there is no file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return next(filter(None, _looks(descriptor)), b"").decode().rstrip("\n")
    finally:
        os.close(descriptor)


def _looks(descriptor: int) -> Iterator[bytes]:
    """Yield the file's bytes repeatedly, until the file is removed or has been truncated for too long."""
    yield os.pread(descriptor, _READ_SIZE, 0)
    end = time.monotonic() + _CUT_FOR_S
    while os.fstat(descriptor).st_nlink and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_S)
        yield os.pread(descriptor, _READ_SIZE, 0)
