"""Another program behind the runtime's socket: it talks nonsense, is silent, or never accepts."""

import contextlib
import socket
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Final, Literal, Self

Manner = Literal["garbage", "silent", "deaf"]
MANNERS: Final[tuple[Manner, ...]] = ("garbage", "silent", "deaf")
GARBAGE: Final = b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(range(256)) * 16


class Stranger:
    """Bind the runtime's path in the place of the present socket.

    `visits`: the number of clients that connected.
    """

    def __init__(self, path: Path, manner: Manner) -> None:
        path.unlink(missing_ok=True)
        self.visits = 0
        self._manner = manner
        self._guests: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(0 if manner == "deaf" else 8)
        if manner == "deaf":
            self._fill_up(path)
        else:
            Thread(target=self._receive, name="stranger", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the socket; the path stays, as after a program that was killed."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for guest in self._guests:
            guest.close()

    def _fill_up(self, path: Path) -> None:
        """Fill the queue of connections, so that the next client has to wait."""
        with contextlib.suppress(BlockingIOError):
            while True:
                guest = socket.socket(socket.AF_UNIX)
                self._guests.append(guest)
                guest.setblocking(False)
                guest.connect(str(path))

    def _receive(self) -> None:
        with contextlib.suppress(OSError):  # the client has left
            while True:
                guest, _ = self._listener.accept()
                self._guests.append(guest)
                self.visits += 1
                if self._manner == "garbage":
                    guest.sendall(GARBAGE)
