"""The companion's end of the second socket: one call at a time over ttrpc."""

import errno
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nri_coloc.errors import ColocError
from nri_coloc.host import sockets
from nri_coloc.kubernetes import messages
from nri_coloc.ttrpc.connection import Connection, Response, Role
from nri_coloc.ttrpc.errors import TtrpcError
from nri_coloc.ttrpc.status import Code

PIECE = 64 * 1024
TURN_S = 1.0
"""Seconds between two calls of `meanwhile`."""

_NO_DAEMON = (
    "; does this node's daemon run with kubernetes.report: status, and with this path as --cluster-socket?"
)
_REMEDIES = {
    errno.ENOENT: _NO_DAEMON,
    errno.ECONNREFUSED: _NO_DAEMON,
    errno.EACCES: "; let the companion's process be in the group kubernetes.companionGid",
}

_Answer = TypeVar("_Answer", bound=Message)


class DaemonAwayError(ColocError):
    """The daemon cannot be reached, or ended the connection."""


class DaemonRefusedError(ColocError):
    """The daemon answered a call with an error. `code` is its status."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class DaemonLink:
    """A connection to the daemon; it belongs to one thread, except for `shut_down`.

    An error of a call other than a refusal ends it.
    """

    def __init__(self, path: str, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wire = Connection(
            Role.CLIENT, receive_limit=messages.MESSAGE_LIMIT, send_limit=messages.MESSAGE_LIMIT
        )
        self._answers: dict[int, Response] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            remedy = _REMEDIES.get(error.errno or 0, "")
            raise DaemonAwayError(f"{path}: {error.strerror or error}{remedy}") from error

    def call(
        self,
        method: str,
        message: Message,
        answer: type[_Answer],
        timeout_s: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> _Answer:
        """Return the answer of a call. `meanwhile`: called each second until it comes; it may make other calls."""
        try:
            stream, sent = self._wire.send_request(messages.SERVICE, method, message.SerializeToString())
            self._socket.settimeout(timeout_s)
            self._socket.sendall(sent)
            found = self._answer(stream, self._clock() + timeout_s, meanwhile)
            if found.code == Code.OK:
                return answer.FromString(found.payload)
        except (OSError, TtrpcError, DecodeError) as error:
            self.close()
            raise DaemonAwayError(f"{method}: {str(error) or type(error).__name__}") from error
        raise DaemonRefusedError(f"{method}: {found.message}", found.code)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def shut_down(self) -> None:
        """End the connection from any thread; a call that waits for an answer fails at once."""
        sockets.shut_down(self._socket)

    def _answer(self, stream: int, end_s: float, meanwhile: Callable[[], None] | None) -> Response:
        while stream not in self._answers:
            left_s = end_s - self._clock()
            if left_s <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(min(left_s, left_s if meanwhile is None else TURN_S))
            try:
                self._receive()
            except TimeoutError:
                if meanwhile is not None:
                    meanwhile()
        return self._answers.pop(stream)

    def _receive(self) -> None:
        """Keep the answers that the next bytes bring, also the answers of other calls."""
        data = self._socket.recv(PIECE)
        if not data:
            raise ConnectionError("the daemon ended the connection")
        for event in self._wire.receive_data(data):
            if isinstance(event, Response):
                self._answers[event.stream] = event
