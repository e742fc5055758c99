"""Read the kernel's small text files; raise `KernelInterfaceError` if that fails.

A file that is gone reads as `None`, because a CPU can go offline and a process can end between two reads. A file that
cannot be read or parsed raises an error that names it. This module does not know the meaning of a file. Raw descriptors
instead of `open()`: a machine with 768 CPUs has thousands of these files.
"""

import errno
import os
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import knob_files as knobs

MAX_BYTES: Final = 1 << 20
"""More than any file read here can hold: /proc/<pid>/cgroup has at most a few dozen lines of PATH_MAX."""

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESRCH})
"""No such file, a device that left while it was read, a process that ended while it was read."""


def text(path: str) -> str | None:
    """Return a file's text, or None if there is no such file; bytes that are not UTF-8 are kept escaped."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.fsdecode(_content(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise KernelInterfaceError(path, "read", error.strerror or str(error)) from error


def _content(descriptor: int) -> bytes:
    content = b""
    while len(content) < MAX_BYTES and (chunk := os.read(descriptor, 65536)):
        content += chunk
    return content


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
    if content.strip() == "(null)":
        return 0
    try:
        return cpuset.parse(content)
    except ValueError as error:
        raise KernelInterfaceError(path, "read", str(error)) from error


def entries(folder: str) -> dict[str, bool]:
    """Return the names in a folder, and whether each is a folder; one that is not there holds nothing."""
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry.is_dir() for entry in found}
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise KernelInterfaceError(folder, "list", error.strerror or str(error)) from error
