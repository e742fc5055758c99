"""Let only one daemon serve a runtime, also if two do not share a state folder.

Two plugins that set the same annotation make every creation fail (nri-protocol §7). So a second copy with another state
folder would stop the node. It may run by mistake, or because the runtime launched one beside the DaemonSet. Each
runtime's socket has an identity (device and inode). An abstract socket of that name can be bound once in a network
namespace. The kernel frees it with the process. Daemons in different network namespaces do not see each other; the
DaemonSet's is the host's. Any process may bind such a name, so a holder counts only if it runs as our own user.
"""

import errno
import os
import socket
import struct
from pathlib import Path
from typing import Final

_CREDENTIALS: Final = struct.Struct("iII")
"""struct ucred of unix(7): process, user, group."""


class RuntimeClaim:
    """Holds the claim to one runtime's socket at a time."""

    def __init__(self) -> None:
        self._name = b""
        self._held: socket.socket | None = None

    def take(self, path: str) -> None:
        """Claim the runtime behind a socket; raise OSError if it is not there or another daemon has it."""
        name = _name_of(path)
        if self._held is not None and name == self._name:
            return
        self.release()
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(name)
            claim.listen()
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            if _is_held_by_us(name):
                raise OSError(
                    error.errno, "another nri-coloc serves this runtime", os.fspath(path)
                ) from error
        self._name, self._held = name, claim

    def superseded(self, path: str) -> bool:
        """Return whether the path now has another socket than the claimed one; False if it has none."""
        try:
            return bool(self._name) and _name_of(path) != self._name
        except OSError:
            return False

    def release(self) -> None:
        """Give the claim up."""
        if self._held is not None:
            self._held.close()
        self._name, self._held = b"", None


def _is_held_by_us(name: bytes) -> bool:
    """Return whether a process of our own user listens at an abstract name; other users' processes are not trusted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        try:
            asking.connect(name)
            told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return False
    _, user, _ = _CREDENTIALS.unpack(told)
    return bool(user == os.geteuid())


def _name_of(path: str) -> bytes:
    status = Path(path).stat()
    return b"\0nri-coloc/%d/%d" % (status.st_dev, status.st_ino)
