"""One daemon acts on a node; a second copy (a rolling update, a mistake) waits here until the first has ended.

An advisory lock on a file in the state folder: the kernel drops it with the process, however that ends. If the disk
fails, or the file is a link, the daemon works without a lock. The claim to the runtime then keeps a second copy off.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from nri_coloc.errors import SettingsError
from nri_coloc.host import state_file

TROUBLE: Final = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors of a disk that are not the operator's mistake."""


class InstanceLock:
    """`take` never waits; the caller tries again while it shows itself as not ready.

    problem: why there is no lock, "" if there is one.
    """

    def __init__(self, state_dir: str) -> None:
        self.problem = ""
        self._path = Path(state_dir) / "lock"
        self._fd: int | None = None
        try:
            self._fd = self._opened()
        except OSError as error:
            self.problem = self._unusable(error)
            if error.errno not in TROUBLE | {errno.ELOOP}:
                raise SettingsError(f"{self.problem}; choose another with --state-dir") from error

    def take(self) -> bool:
        """Take the lock if no other process has it; return True also if a failing disk has no place for it."""
        if self._fd is None:
            return True
        if not _taken(self._fd):
            return False
        if self.is_in_place():
            return True
        self.renew()  # the folder was deleted, and its owner may have made it again
        return not self.problem

    def is_in_place(self) -> bool:
        """Return whether the locked file is the one in the state folder."""
        try:
            now, ours = self._path.lstat(), os.fstat(-1 if self._fd is None else self._fd)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino)

    def renew(self) -> None:
        """Make the folder and the file again, and lock that file; `problem` says why it cannot be done."""
        try:
            fd = self._opened()
        except OSError as error:
            self.problem = self._unusable(error)
            return
        if _taken(fd):
            former, self._fd, self.problem = self._fd, fd, ""
        else:
            former, folder = fd, self._path.parent
            self.problem = f"another process holds the lock in the state folder {folder}"
        if former is not None:
            os.close(former)

    def release(self) -> None:
        """Release the lock for other processes; it cannot be taken again."""
        if self._fd is not None:
            os.close(self._fd)

    def _unusable(self, error: OSError) -> str:
        if error.errno == errno.ELOOP:
            return f"cannot lock {self._path}: {state_file.reason(error)}; remove it"
        return f"cannot use the state folder {self._path.parent}: {os.strerror(error.errno or 0)}"

    def _opened(self) -> int:
        """Return a descriptor of the file; on a disk that became read-only, of the present file.

        flock(2) needs no more than that. A link is not followed: it leads to a file of another program.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in TROUBLE or not self._path.exists():
                raise
        return os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
