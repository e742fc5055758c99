"""Kernel files kept open, so that reading one again costs a single pread.

A file belongs to the cgroup whose folder it was opened through: the folder's inode is taken first and the file is
opened relative to it, so that a new cgroup under the same path can never be taken for the old one. The kernel answers
ENODEV once a cgroup is removed (fs/kernfs/file.c); a plain file of a simulated node lives on while it is open, so there
the number of its names is looked at, now and then.

A missing file and a file that cannot be opened are different results: a cgroup that is gone uses nothing, the use of
the other is unknown.
"""

import errno
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from nri_coloc.host import kernel_files

LIMIT: Final = 2048
"""Each open file of a cgroup that was read keeps a page of the kernel's (fs/seq_file.c): 8 MiB in all."""

_SHORT: Final = frozenset({errno.EMFILE, errno.ENFILE})

READ_SIZE: Final = 1 << 16
"""Bytes of a reading. A file that fills them is no counter file, and counts as unreadable."""

MACHINE_SIZE: Final = 1 << 22
"""As `READ_SIZE`, of the machine's own files, which have lines for each CPU: /proc/zoneinfo some 150 bytes for each CPU
and zone (mm/vmstat.c, zoneinfo_show_print), so that 256 CPUs on eight nodes make half a megabyte; /proc/stat 80."""

COUNTERS_SIZE: Final = 1 << 12
"""A page: four times the longest of a cgroup's counter files. A buffer is made for so many bytes at each read."""

NAMES_EVERY: Final = 8
"""Of so many reads in a row that show a plain file as it was, one looks whether it still has a name: a call more, which
the kernel's own files do not need. One that is empty is looked at each time: so a simulated cgroup ends."""

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC


class Vanished(Exception):
    """The cgroup was removed since its file was opened."""


class Refused(Exception):
    """The file exists, as far as is known, and cannot be opened or read."""


def raise_soft_limit() -> None:
    """Let this process open as many files as its hard limit grants. A refusal is no failure: there are fewer then."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Descriptors:
    """A bounded number of open files: half of the process's limit, `limit` at most.

    `was_short`: whether a file was refused because that, or the process's or the machine's own bound, was reached.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = limit if soft == resource.RLIM_INFINITY else min(limit, soft // 2)
        self.count = 0
        self.was_short = False

    @property
    def limit(self) -> int:
        """How many files may be open."""
        return self._limit

    def open(self, folder: str, name: str) -> "OpenFile | None":
        """Open a file of a folder; None if it is not there. Raise Refused if it cannot be opened or read.

        Where PSI is switched off, pressure files may be there, and refuse (kernel/sched/psi.c, psi_show: EOPNOTSUPP).
        """
        try:
            opened = self._opened(folder, name)
        except OSError as error:
            if error.errno in kernel_files.GONE:
                return None
            self.was_short = self.was_short or error.errno in _SHORT
            raise Refused(f"{folder}/{name}: {error.strerror}") from error
        self.count += 1
        return opened

    def open_readable(self, folder: str, name: str) -> "OpenFile | None":
        """Open a file of a folder; None if it is not there, or cannot be opened or read."""
        try:
            return self.open(folder, name)
        except Refused:
            return None

    def _opened(self, folder: str, name: str) -> "OpenFile":
        if self.count >= self._limit:
            raise OSError(errno.EMFILE, "the limit of open files is reached")
        within = os.open(folder, _FOLDER)
        try:
            return OpenFile(self, _readable(name, within), os.fstat(within).st_ino)
        finally:
            os.close(within)


def _readable(name: str, within: int) -> int:
    descriptor = os.open(name, _FILE, dir_fd=within)
    try:
        os.pread(descriptor, 1, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class OpenFile:
    """One open file. `inode` is that of the folder it was opened through."""

    __slots__ = ("_alike", "_bank", "_descriptor", "_former", "_is_plain", "inode")

    def __init__(self, bank: Descriptors, descriptor: int, inode: int) -> None:
        self.inode = inode
        self._bank = bank
        self._descriptor = descriptor
        self._former: bytes | None = None
        self._alike = 0
        # the kernel shows its own files with a size of 0, and with one name for as long as they are open
        self._is_plain = os.fstat(descriptor).st_size > 0

    def read(self, most: int = COUNTERS_SIZE) -> bytes | None:
        """Return the content, None where the kernel refuses it or it is longer; Vanished if the cgroup is gone."""
        try:
            content = os.pread(self._descriptor, most, 0)
        except OSError as error:
            if error.errno in kernel_files.GONE:
                raise Vanished from error
            return None
        if self._is_plain and self._is_gone(content):
            raise Vanished
        return content if len(content) < most else None

    @property
    def content(self) -> Callable[[], bytes | None]:
        """The function that reads it in the fewest steps; for the kernel's own files it raises OSError."""
        return self.read if self._is_plain else partial(os.pread, self._descriptor, COUNTERS_SIZE, 0)

    def _is_gone(self, content: bytes) -> bool:
        """Whether a plain file's last name is gone. What still changes has one; all else is asked now and then."""
        former, self._former = self._former, content
        self._alike = self._alike + 1 if former in (None, content) else 0
        is_doubtful = not content or self._alike % NAMES_EVERY == 1
        return is_doubtful and not os.fstat(self._descriptor).st_nlink

    def close(self) -> None:
        """Close it, once."""
        os.close(self._descriptor)
        self._bank.count -= 1


def inode(folder: str) -> int | None:
    """Return a folder's inode, None if it is not there."""
    try:
        return os.stat(folder).st_ino  # noqa: PTH116 - a Path costs more than the call
    except OSError:
        return None
