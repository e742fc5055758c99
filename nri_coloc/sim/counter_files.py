"""Write the counter files of a simulated kernel. They are written often and read through open descriptors.

Up to a limit the files stay open for writing. That is cheaper, and closing a file would wake the inotify watch on its
folder. A write is one step and never shortens a file, so a reader never sees parts of two values.
"""

import os
import weakref
from typing import Final

from nri_coloc.sim import shared_files
from nri_coloc.sim.cgroup_tree import CgroupTree

KEPT: Final = 256


class CounterFiles:
    """Writes texts into existing files of a tree; missing files are skipped."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._kept: dict[tuple[str, str], int] = {}
        self._shown: dict[tuple[str, str], str] = {}
        weakref.finalize(self, _close_all, self._kept)

    def put(self, path: str, name: str, text: str) -> None:
        """Write a text. An unchanged text costs no write."""
        key = (path, name)
        if self._shown.get(key) == text:
            return
        descriptor = self._kept.get(key)
        if descriptor is not None:
            shared_files.show(descriptor, text)
        elif not self._open(key, text):
            return
        self._shown[key] = text

    def forget(self, path: str) -> None:
        """Close the files of a cgroup that was removed."""
        for key in [key for key in self._shown if key[0] == path]:
            del self._shown[key]
            if key in self._kept:
                os.close(self._kept.pop(key))

    def close(self) -> None:
        """Close every open file. A later `put` opens its file again."""
        _close_all(self._kept)

    def _open(self, key: tuple[str, str], text: str) -> bool:
        path, name = key
        try:
            descriptor = os.open(self._tree.folder(name, path) / name, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        shared_files.show(descriptor, text)
        if len(self._kept) < KEPT:
            self._kept[key] = descriptor
        else:
            os.close(descriptor)
        return True


def _close_all(kept: dict[tuple[str, str], int]) -> None:
    while kept:
        os.close(kept.popitem()[1])
