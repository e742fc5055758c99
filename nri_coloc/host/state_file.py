"""Read and replace a file of the state folder, which may be anything by now: a pipe, a link, a folder.

A pipe blocks its reader and its writer until another process opens the other end, and a link leads to a file of another
program. So only a regular file is read, and a new file is written beside it and renamed.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting for the other end of a pipe."""


def opened(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, without waiting; raise OSError for anything else (`reason`)."""
    return os.fdopen(checked(os.open(path, _READ | os.O_NOFOLLOW)), "rb")


def try_to_read(path: str | Path) -> None:
    """Read a byte of any file, without waiting; raise OSError if that is refused."""
    fd = os.open(path, _READ)
    try:
        os.read(fd, 1)
    finally:
        os.close(fd)


def text(path: str | Path, most: int) -> str:
    """Return a file's text, of a longer one the first `most` + 1 bytes; raise OSError as `opened`.

    Bytes that are not UTF-8 are replaced.
    """
    with opened(path) as file:
        return file.read(most + 1).decode(errors="replace")


def replace(path: Path, content: str, *, durably: bool = False) -> None:
    """Replace the whole file at once; after a kill the old or the new file is there. Raise OSError if that fails.

    durably: wait until the disk has the content.
    """
    fresh = path.with_suffix(".new")
    try:
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(content)
            file.flush()
            if durably:
                os.fsync(fd)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):  # where nothing can be removed either; the next try does it
            fresh.unlink(missing_ok=True)
        raise


def checked(fd: int) -> int:
    """Return the descriptor of a regular file. Raise OSError for anything else, and close it."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file")
    return fd


def reason(error: OSError) -> str:
    """Return in words why a file cannot be opened or read."""
    return "it is a symbolic link" if error.errno == errno.ELOOP else str(error.strerror)
