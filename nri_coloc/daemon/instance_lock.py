"""One daemon acts on a node; a second copy (a rolling update, a mistake) waits here until the first has gone.

An advisory lock on a file in the state folder: the kernel drops it with the process, however that ends.
"""

import errno
import fcntl
import os
from pathlib import Path

from nri_coloc.errors import SettingsError


class InstanceLock:
    """`take` never waits; the caller tries again while it shows itself as not ready.

    `may_be_read_only`: the caller has something to do also where nothing can be written any more.
    """

    def __init__(self, state_dir: str, *, may_be_read_only: bool = False) -> None:
        self._path = Path(state_dir) / "lock"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = self._opened(may_be_read_only=may_be_read_only)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise SettingsError(
                f"cannot use the state folder {state_dir}: {reason}; choose another with --state-dir"
            ) from error

    def _opened(self, *, may_be_read_only: bool) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS or not may_be_read_only:
                raise
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)  # flock(2) asks for no more

    def take(self) -> bool:
        """Take the lock if nobody has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let somebody else have it, for whoever needs it only for a while; it cannot be taken again."""
        os.close(self._fd)
