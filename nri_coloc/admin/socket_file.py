"""The admin socket's place in the file system: a folder that is ours alone, one holder of it, no file of the dead.

The folder keeps others out (0700), the socket's own mode does so once more (0600), and whoever connects is still asked
for credentials (`gate`). A folder that others can enter is closed to them if there is nothing else in it, as the
kubelet makes hostPath folders 0755; one with anything else in it, /run for one, is not ours to close.

The holder has an advisory lock on the folder, which the kernel drops with the process: so of two daemons one has the
socket, and a file without a listener is known to be stale. All the same it is replaced only after a
connection to it was refused.
"""

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

from nri_coloc.errors import ColocError

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
BACKLOG: Final = 8


class NoAdminSocket(ColocError):
    """The socket cannot be had now; the text says why and what helps."""


class SocketFile:
    """`listen` makes the socket, `is_there` tells whether others still reach it, `close` takes it away."""

    def __init__(self, path: str) -> None:
        self.path = os.fspath(Path(path).absolute())
        self._folder = -1
        self._identity: tuple[int, int] | None = None

    @property
    def inner_path(self) -> str:
        """A place beside it for a second socket that only this process is to reach."""
        return f"{self.path}~"

    def listen(self) -> socket.socket:
        """Return the listening socket; NoAdminSocket if it cannot be had."""
        try:
            self._take_folder()
            self._remove_stale(self.path)
            return self._bind()
        except OSError as error:
            self.close()
            raise NoAdminSocket(f"no admin socket at {self.path}: {error.strerror or error}") from error
        except NoAdminSocket:
            self.close()
            raise

    @property
    def is_there(self) -> bool:
        """Whether the socket is still what its path leads to."""
        return self._identity is not None and _identity(self.path) == self._identity

    def close(self) -> None:
        """Remove the socket, if it is still ours, and let somebody else have the folder."""
        if self.is_there:
            with contextlib.suppress(OSError):
                Path(self.path).unlink()
        self._identity = None
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = -1

    def _take_folder(self) -> None:
        folder = Path(self.path).parent
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self._folder)
        if status.st_uid != os.geteuid():
            raise NoAdminSocket(f"no admin socket: {folder} belongs to uid {status.st_uid}{_MEND}")
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NoAdminSocket(
                f"no admin socket: another nri-coloc has its own in {folder}{_MEND}"
            ) from error
        if status.st_mode & 0o077:
            self._close_to_others(folder)

    def _close_to_others(self, folder: Path) -> None:
        ours = {Path(self.path).name, Path(self.inner_path).name}
        if set(os.listdir(self._folder)) - ours:  # noqa: PTH208 - by descriptor: the folder that was locked
            raise NoAdminSocket(
                f"no admin socket: others can enter {folder}, and there is more in it than the socket{_MEND}"
            )
        os.fchmod(self._folder, PRIVATE_FOLDER)

    def _remove_stale(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise NoAdminSocket(f"no admin socket: {path} is there already and is no socket")
        if _somebody_listens(path):
            raise NoAdminSocket(f"no admin socket: somebody listens at {path} already{_MEND}")
        Path(path).unlink()

    def _bind(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux makes the file with the mode of the descriptor: it is never there with another
            os.fchmod(made.fileno(), PRIVATE_FILE)
            made.bind(self.path)
            Path(self.path).chmod(PRIVATE_FILE)
            made.listen(BACKLOG)
        except OSError:
            made.close()
            raise
        self._identity = _identity(self.path)
        return made


_MEND: Final = "; name another folder with --admin-socket"


def _somebody_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its queue is full: it lives
            return True
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
