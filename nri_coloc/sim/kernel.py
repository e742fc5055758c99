"""Simulate the kernel's reaction to a written cpuset file: update the effective sets.

A thread waits on inotify(7) for writes to cpuset files and calls the tree's `settle`. Python's library has no
inotify, so libc is called. Only cgroup v2 needs it, because there the first write ends inheritance. For some tenths
of a millisecond after a write, a reader may still see the inherited set.
"""

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Final

from nri_coloc.sim import cgroup_files
from nri_coloc.sim.cgroup_tree import CgroupTree

_CLOSE_WRITE: Final = 0x0008  # linux/inotify.h
_HEADER: Final = struct.Struct("iIII")  # struct inotify_event without the name
_READ_SIZE: Final = 65536


class Kernel:
    """Watches each cgroup that is created after this object."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._checked(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self._paths: dict[int, str] = {}
        self._wake, self._stop = os.pipe()
        self._thread = Thread(target=self._run, name="sim-kernel", daemon=True)
        tree.watcher = self.watch

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        os.close(self._stop)
        self._thread.join()
        os.close(self._wake)
        os.close(self._inotify)

    def watch(self, path: str, folder: Path) -> None:
        """Watch one cgroup. The real kernel removes the watch together with the folder."""
        name = os.fsencode(folder)
        watch = self._checked(self._libc.inotify_add_watch(self._inotify, name, _CLOSE_WRITE))
        self._paths[watch] = path

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._inotify, self._wake], [], [])
            if self._wake in ready:
                return
            for path in self._written():
                if self._tree.exists(path):
                    self._tree.settle(path)

    def _written(self) -> set[str]:
        own = {name.encode() for name in cgroup_files.EFFECTIVE[2]}
        events = _events(os.read(self._inotify, _READ_SIZE))
        return {self._paths[watch] for watch, name in events if name in own and watch in self._paths}

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {os.strerror(ctypes.get_errno())}")
        return result


def _events(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        watch, _mask, _cookie, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield watch, data[at : at + length].rstrip(b"\0")
        at += length
