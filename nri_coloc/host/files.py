"""Read and write one kernel file, once or kept open; each failure is a KernelInterfaceError that names the file.

A file or cgroup that is gone is no failure, because CPUs go offline and containers end between two reads: a read
returns None then, and a write returns False. Raw descriptors are used instead of `open()`: a machine with 768 CPUs has
thousands of these files.

A file that is kept open (`Descriptors`) costs a single pread for each reading. It belongs to the cgroup whose folder it
was opened through: the folder's inode is taken first and the file is opened relative to it, so that a new cgroup under
the same path can never be taken for the old one. The kernel answers ENODEV once a cgroup is removed (fs/kernfs/file.c);
a plain file of a simulated node lives on while it is open, so there its link count is checked now and then. A missing
file and a file that cannot be opened are different results: a cgroup that is gone uses nothing, and the use of a cgroup
whose file cannot be opened is unknown.
"""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import knob_files as knobs
from nri_coloc.host.knob_files import makes_sense

READ_SIZE: Final = 1 << 16
"""Bytes of one read. A cgroup's counter file that fills them counts as unreadable."""

MAX_BYTES: Final = 1 << 20
"""More than any file read here can hold: /proc/<pid>/cgroup has at most a few dozen lines of PATH_MAX."""

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESRCH})
"""No such file, a device that left while it was read, a process that ended while it was read."""


def text(path: str) -> str | None:
    """Return a file's text, or None if there is no such file; bytes that are not UTF-8 are kept escaped."""
    content = _content(path)
    return None if content is None else os.fsdecode(content)


def read(path: str) -> str | None:
    """Return the ASCII text of a cgroup's file without the last newline; None if it is gone."""
    content = _content(path)
    return None if content is None else content.decode("ascii", "replace").rstrip("\n")


def _content(path: str) -> bytes | None:
    try:
        # the kubelet's files are read here too: a pipe in the place of one is not waited for
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _whole(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise KernelInterfaceError(path, "read", os.strerror(error.errno or 0)) from error


def _whole(fd: int) -> bytes:
    """Read to the end: a list of more than a page comes in pieces (fs/seq_file.c, seq_read_iter).

    Of one beyond the limit whole lines: a part of a process's id is another's.
    """
    content = b""
    while piece := os.read(fd, READ_SIZE):
        content += piece
        if len(content) >= MAX_BYTES:
            return content[: content.rfind(b"\n") + 1]
    return content


def shows(path: str, text: str) -> bool:
    """Return whether a file still shows the text that `read` returned; False if it cannot be read.

    One read decides: a value that comes in pieces only looks changed.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(fd, len(text) + 2).rstrip(b"\n") == text.encode()
        finally:
            os.close(fd)
    except OSError:
        return False


def number(path: str) -> int | None:
    """Return a file's whole number, or None if there is no such file."""
    content = text(path)
    if content is None:
        return None
    found = knobs.number(content)
    if found is None:
        raise KernelInterfaceError(path, "read", f"{content.strip()[:80]!r} is not a number")
    return found


def cpu_list(path: str) -> CPUMask | None:
    """Return a file's cpulist, or None if there is no such file; "(null)" is an old kernel's empty list."""
    content = text(path)
    if content is None:
        return None
    return 0 if content.strip() == "(null)" else mask(path, content)


def entries(folder: str, *, links: bool = True) -> dict[str, bool]:
    """Return the names in a folder, and whether each is a folder (`links`: or a link to one); none if it is gone."""
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry.is_dir(follow_symlinks=links) for entry in found}
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise KernelInterfaceError(folder, "list", os.strerror(error.errno or 0)) from error


def children(path: str) -> list[str]:
    """Return the folders directly below a cgroup's folder; none if it is gone."""
    return sorted(f"{path}/{name}" for name, is_folder in entries(path, links=False).items() if is_folder)


def value(path: str) -> str | None:
    """Return the text of a file that holds a value, None if it is gone; raise for a text that no kernel shows there."""
    text = read(path)
    return None if text is None else checked(path, text)


def checked(path: str, text: str) -> str:
    """Return what a file shows, if a kernel may show it."""
    if not makes_sense(path.rpartition("/")[2], text):
        raise KernelInterfaceError(path, "read", f"{text[:80]!r} is no value of such a file")
    return text


def mask(path: str, text: str) -> CPUMask:
    """Return the CPUs, or memory nodes, that a file's text names."""
    try:
        return cpuset.parse(text)
    except ValueError as error:
        raise KernelInterfaceError(path, "read", str(error)) from error


def write(path: str, text: str) -> bool:
    """Write a value in one call, as the kernel wants it; False if the file is gone. Never creates a file.

    A file of the kernel's shows no size, and there is nothing to be cut. A simulated node's file has a size: a longer
    former text is covered with newlines in the same call, so that no reader meets it empty or with the end of its
    former value.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode("ascii").ljust(os.fstat(fd).st_size, b"\n"))
        finally:
            os.close(fd)
    except UnicodeEncodeError as error:  # an original that was read from a file that made no sense
        raise KernelInterfaceError(path, f"write {text[:80]!r} to", "it is not ASCII") from error
    except OSError as error:
        if error.errno in GONE:
            return False
        raise KernelInterfaceError(path, f"write {text!r} to", os.strerror(error.errno or 0)) from error
    return True


def is_folder(path: str) -> bool:
    """Return whether a cgroup's folder is there."""
    return os.path.isdir(path)  # noqa: PTH112 - a Path costs more than the call


def tree(path: str, enters: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Yield a cgroup's folder and all below it, parents first; `enters`: whether to go below a folder, else all.

    A tenant may nest thousands of cgroups, so this is no recursion. One that cannot be listed counts as empty.
    """
    pending = [path]
    while pending:
        folder = pending.pop()
        yield folder
        if enters is None or enters(folder):
            with suppress(KernelInterfaceError):
                pending += reversed(children(folder))


LIMIT: Final = 2048
"""Each open file of a cgroup that was read keeps a page of the kernel's (fs/seq_file.c): 8 MiB in all."""

_SHORT: Final = frozenset({errno.EMFILE, errno.ENFILE})

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
            if error.errno in GONE:
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
            if error.errno in GONE:
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
