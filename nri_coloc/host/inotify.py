"""Which files programs write, as the kernel reports it: inotify(7) watches, and one thread that waits for them.

Writes of programs are reported. Changes by the kernel itself (CPUs that go, on cgroup v1, or a parent's set, on v2) are
not. Events name the file, not the writer; equal ones in a row are one; a refused write is one too where the file was
opened with O_TRUNC. The removal of a cgroup is not reported, and its watches stay until they are removed: they keep the
inodes of kernfs (seen on Linux 6.18, v1 and v2). Adding a watch again finds a new file at the same path.
"""

import ctypes
import errno
import os
import select
import struct
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

_MODIFY: Final = 0x2
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
"""<sys/inotify.h>; the last comes where a file is really deleted, which cgroups' never are."""

_HEAD: Final = struct.Struct("iIII")
"""struct inotify_event without its name, which events of a watched file have none of."""

_AT_ONCE: Final = 1 << 16
"""Bytes of a read: 4096 events, a quarter of the kernel's default queue."""

_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Touched(NamedTuple):
    """Which files were written; `deleted` are not watched any more, and with `lost` any other may have been written."""

    written: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    lost: bool = False


class Watches:
    """Belongs to one thread, but for `ring`. Closed until `open`."""

    def __init__(self) -> None:
        self._fd = self._bell = -1
        self._poll = select.poll()
        self._numbers: dict[str, int] = {}
        self._files: dict[int, str] = {}
        self._closed = True
        self._turn = Lock()

    def open(self) -> None:
        """Ask the kernel for an instance; raise OSError if it grants none."""
        self._fd = _granted(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            os.close(self._fd)
            raise
        for fd in (self._fd, self._bell):
            self._poll.register(fd, select.POLLIN)
        self._closed = False

    @property
    def files(self) -> frozenset[str]:
        """All that are watched."""
        return frozenset(self._numbers)

    def add(self, file: str) -> bool:
        """Watch a file, or a new file at its path; False if there is none. Raises OSError (ENOSPC: no more)."""
        try:
            number = _granted(_libc.inotify_add_watch(self._fd, os.fsencode(file), _MODIFY))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            self.remove(file)
            return False
        if self._numbers.get(file) != number:
            self.remove(file)
            self._numbers[file], self._files[number] = number, file
        return True

    def remove(self, file: str) -> None:
        """Watch a file no longer, if it was."""
        number = self._numbers.pop(file, None)
        if number is not None:
            del self._files[number]
            _libc.inotify_rm_watch(self._fd, number)

    def wait(self, seconds: float) -> bool:
        """Wait for a write or a ring, so long at most; whether there was a write."""
        ready = {fd for fd, _ in self._poll.poll(max(0.0, seconds) * 1000)}
        if self._bell in ready:
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        return self._fd in ready

    def read(self) -> Touched:
        """Return what was written since the last time, or of a flood the first part: the rest ends the next wait."""
        written: set[str] = set()
        deleted: set[str] = set()
        lost = False
        for number, what in _events(self._data()):
            lost = lost or bool(what & _OVERFLOW)
            file = self._files.get(number)
            if file is None:
                continue  # was watched until a moment ago
            written.add(file)
            if what & _IGNORED:
                deleted.add(file)
                del self._numbers[file], self._files[number]
        return Touched(frozenset(written), frozenset(deleted), lost)

    def ring(self) -> None:
        """End the wait at hand, or the next one; for any thread."""
        with self._turn:
            if not self._closed:
                os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Give up all of them."""
        with self._turn:
            if not self._closed:
                self._closed = True
                os.close(self._fd)
                os.close(self._bell)

    def _data(self) -> bytes:
        try:
            return os.read(self._fd, _AT_ONCE)
        except BlockingIOError:
            return b""


def _events(data: bytes) -> list[tuple[int, int]]:
    found, offset = [], 0
    while offset < len(data):
        number, what, _, length = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size + length
        found.append((number, what))
    return found


def _granted(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
