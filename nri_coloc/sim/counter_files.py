"""The files in which a simulated kernel shows its counters: written often, read by whoever holds them open.

They stay open for writing, up to a bound: it is cheaper, and closing one would wake whoever watches the folder for
changed settings. A write is one step and never shortens a file, so that no reader meets half of two values.
"""

import os
import weakref
from typing import Final

from nri_coloc.sim import shared_files
from nri_coloc.sim.cgroup_tree import CgroupTree

KEPT: Final = 256


class CounterFiles:
    """Puts texts into files of a tree; one that is not there is left out."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._kept: dict[tuple[str, str], int] = {}
        self._shown: dict[tuple[str, str], str] = {}
        weakref.finalize(self, _close_all, self._kept)

    def put(self, path: str, name: str, text: str) -> None:
        """Show a text; one that is shown already costs nothing."""
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
        """Let go of a cgroup that has ended."""
        for key in [key for key in self._shown if key[0] == path]:
            del self._shown[key]
            if key in self._kept:
                os.close(self._kept.pop(key))

    def close(self) -> None:
        """Close every file; writing goes on, file by file."""
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
