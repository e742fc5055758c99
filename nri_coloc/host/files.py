"""Reading and writing one kernel file, with the kernel's refusals as values of ours.

Nothing here decides. A file or cgroup that is gone reads as None and is written as False: containers end at any moment.
Every other failure, also a text that makes no sense, is a KernelInterfaceError that names the file. So a caller with a
hundred cgroups has one kind of refusal to handle.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.knob_files import makes_sense

_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ESRCH)
_AT_ONCE = 1 << 16
_READ_LIMIT = 1 << 20


class Correction(NamedTuple):
    """A file that was written: its name, what it showed, what it was given."""

    name: str
    was: str
    now: str


def read(path: str) -> str | None:
    """Return a small file's text without the last newline; None if it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _whole(fd).decode("ascii", "replace").rstrip("\n")
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise KernelInterfaceError(path, "read", os.strerror(error.errno or 0)) from error


def value(path: str) -> str | None:
    """Read a file that holds a value, None if it is gone; a text that no kernel shows there is refused."""
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


def _whole(fd: int) -> bytes:
    """Read to the end: a list of more than a page comes in pieces (fs/seq_file.c, seq_read_iter).

    Of one beyond the limit whole lines: a part of a process's id is another's.
    """
    content = b""
    while piece := os.read(fd, _AT_ONCE):
        content += piece
        if len(content) >= _READ_LIMIT:
            return content[: content.rfind(b"\n") + 1]
    return content


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
        if error.errno in _GONE:
            return False
        raise KernelInterfaceError(path, f"write {text!r} to", os.strerror(error.errno or 0)) from error
    return True


def is_folder(path: str) -> bool:
    """Whether a cgroup's folder is there."""
    return os.path.isdir(path)  # noqa: PTH112 - a Path costs more than the call


def children(path: str) -> list[str]:
    """Return the folders directly below a cgroup's folder; none if it is gone."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise KernelInterfaceError(path, "list", os.strerror(error.errno or 0)) from error


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
