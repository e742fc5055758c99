"""Plain files that two programs write at any moment and that are to be like a kernel's: read whole, or not there.

A kernel's file is never half of two values, and never empty while it is written. A plain one is both to whoever looks
between a cut and what follows it. So nothing of ours cuts: a value is put in place by one write, and what was longer
ends in newlines, which every reader of such files passes over. All have the same room from the start, or the longer
of two values that are written at once would show its end behind the shorter one. Strangers may still cut: a reader
waits for what follows.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOM: Final = 256
"""Bytes; a longer value is written whole too, but for two of different length at one moment."""

_READ_SIZE: Final = 1 << 16
_CUT_FOR_S: Final = 30.0
"""How long a file may be truncated: its writer may wait for a CPU, or the whole machine may stand still."""

_LOOK_AGAIN_S: Final = 0.001


def put(file: Path | str, text: str, create: int = os.O_CREAT) -> None:
    """Show a value, in one step; with `create` 0 FileNotFoundError where there is no such file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC | create, 0o644)
    try:
        show(descriptor, text)
    finally:
        os.close(descriptor)


def show(descriptor: int, text: str) -> None:
    """Show a value in a file that is open for writing."""
    size = max(ROOM, os.fstat(descriptor).st_size)
    os.pwrite(descriptor, f"{text}\n".encode().ljust(size, b"\n"), 0)


def read(file: Path | str) -> str | None:
    """Return what a file shows, without newlines at its end; None where there is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return next(filter(None, _looks(descriptor)), b"").decode().rstrip("\n")
    finally:
        os.close(descriptor)


def _looks(descriptor: int) -> Iterator[bytes]:
    """Read again and again, until the file has gone or lies cut for good."""
    yield os.pread(descriptor, _READ_SIZE, 0)
    end = time.monotonic() + _CUT_FOR_S
    while os.fstat(descriptor).st_nlink and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_S)
        yield os.pread(descriptor, _READ_SIZE, 0)
