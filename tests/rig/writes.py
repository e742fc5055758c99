"""The order of writes: the kernel's own record of writes to files and of opens, by inotify.

There is one queue for all watched files, so its order is the order of events. It shows whether a cgroup was written
*before* another container's first instruction, or not at all.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.rig import RigError

# <sys/inotify.h>
_MODIFY: Final = 0x2
_OPEN: Final = 0x20
_NONBLOCK_CLOEXEC: Final = os.O_NONBLOCK | os.O_CLOEXEC
_HEAD: Final = struct.Struct("iIII")

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Writes:
    """Watch from now on; `seen` may be called any number of times."""

    def __init__(self, written: Iterable[Path] = (), opened: Iterable[Path] = ()) -> None:
        self._fd = _libc.inotify_init1(_NONBLOCK_CLOEXEC)
        self._paths: dict[int, Path] = {}
        self._seen: list[Path] = []
        for path in written:
            self.watch(path)
        for path in opened:
            self.watch(path, _OPEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def watch(self, path: Path, events: int = _MODIFY) -> None:
        """Watch one more file, for writes by default."""
        number = _libc.inotify_add_watch(self._fd, os.fsencode(path), events)
        if number < 0:
            raise RigError(f"cannot watch {path}: {os.strerror(ctypes.get_errno())}")
        self._paths[number] = path

    def watch_open(self, path: Path) -> None:
        """Watch for the opening of a file, such as the fifo on which a created container waits."""
        self.watch(path, _OPEN)

    def seen(self) -> list[Path]:
        """Return everything that happened so far, oldest first."""
        while data := self._read():
            offset = 0
            while offset < len(data):
                number, _, _, length = _HEAD.unpack_from(data, offset)
                offset += _HEAD.size + length
                if number in self._paths:
                    self._seen.append(self._paths[number])
        return list(self._seen)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return b""
