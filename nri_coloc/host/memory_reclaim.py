"""Take memory back from one cgroup by `memory.reclaim`, and read the amounts that bound it.

The file exists on cgroup v2 since Linux 5.19. Since 6.10 `swappiness=0` takes page cache alone (mm/memcontrol.c,
memory_reclaim). It sets no limit and has no value to restore. Paths are below the hierarchy's root; ValueError for one
that leads out of it.
"""

import errno
import os
from typing import Final, NamedTuple

from nri_coloc.core.knobs import UNLIMITED_BYTES
from nri_coloc.core.readings import MemoryReading
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, counters, files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.knob_files import number
from nri_coloc.host.readings import CgroupReader, content

NAME: Final = "memory.reclaim"
_NO_SWAP: Final = "swappiness=0"
_OF_NOTHING: Final = f"0 {_NO_SWAP}"
_PASSES: Final = (errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.EINTR, errno.EAGAIN)
"""Errors that say nothing about the kernel's ways."""

"""A write that takes nothing: it shows whether the kernel knows the argument."""


class Ways(NamedTuple):
    """The ways of the kernel: to take memory back at all, and page cache alone."""

    reclaims: bool = False
    only_cache: bool = False


class HeldMemory(NamedTuple):
    """The memory of a cgroup.

    kept: memory.min or memory.low, whichever is more, bytes.
    stall: part of the last ten seconds in which it waited for memory, 0 to 1; None if unknown.
    """

    memory: MemoryReading
    kept: int
    stall: float | None


class MemoryReclaim:
    """Reads and writes cgroups of one layout. `host_root` is where /proc is found."""

    def __init__(self, layout: CgroupLayout, host_root: str = "/") -> None:
        self._layout = layout
        self._meminfo = f"{host_root.rstrip('/')}/proc/meminfo"
        self._cgroups = CgroupReader(layout, host_root)

    def ways(self, path: str) -> Ways | None:
        """Return the ways of the kernel; none if the file cannot be written, None if another try may know more."""
        file = self._file(path, NAME)
        if self._layout.version == 1 or file is None:
            return Ways()
        if not os.path.exists(file):  # noqa: PTH110 - never raises
            return Ways() if files.is_folder(os.path.dirname(file)) else None  # noqa: PTH120 - a text, as all here
        try:
            return Ways(reclaims=True, only_cache=True) if files.write(file, _OF_NOTHING) else None
        except KernelInterfaceError as error:
            number = _number(error)
            return None if number in _PASSES else Ways(reclaims=number == errno.EINVAL)

    def held(self, path: str, at: float) -> HeldMemory | None:
        """Read a cgroup's memory; None if it cannot be read."""
        found = self._cgroups.amounts(path, at)
        if found is None or found.memory is None:
            return None
        kept = max(self._protection(path, name) for name in ("memory.min", "memory.low"))
        return HeldMemory(found.memory, kept, counters.some_avg10(self._content(path, "memory.pressure")))

    def swap_free(self) -> int:
        """Read the free swap of the machine, bytes; 0 if it cannot be read."""
        return counters.swap_free(content(self._meminfo))

    def reclaim(self, path: str, amount: int, *, only_cache: bool) -> bool:
        """Take bytes back; return whether the kernel took all of them. It blocks until then.

        False also if the cgroup is gone. KernelInterfaceError if the kernel refuses.
        """
        file = self._file(path, NAME)
        if file is None:
            return False
        try:
            return files.write(file, f"{amount} {_NO_SWAP}" if only_cache else str(amount))
        except KernelInterfaceError as error:
            if _number(error) == errno.EAGAIN:
                return False
            raise

    def _protection(self, path: str, name: str) -> int:
        """Read a protection; one that cannot be read protects everything."""
        text = (self._content(path, name) or b"").decode("ascii", "replace").strip()
        found = number(text)
        return UNLIMITED_BYTES if found is None else found

    def _content(self, path: str, name: str) -> bytes | None:
        file = self._file(path, name)
        return None if file is None else content(file)

    def _file(self, path: str, name: str) -> str | None:
        root = self._layout.memory
        return None if root is None else f"{root}/{cgroup_layout.below_root(path)}/{name}"


def _number(error: KernelInterfaceError) -> int | None:
    return error.__cause__.errno if isinstance(error.__cause__, OSError) else None
