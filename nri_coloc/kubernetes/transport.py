"""Carry requests to the API server over connections with a deadline and a bound, which another thread can end.

A time limit of httpx counts from byte to byte, so that a server that sends a byte from time to time holds a call
without end. Here all waits of a call share one deadline, and all that it receives has one bound in bytes, also an
answer that httpx reads to its end by itself, such as one with status 401.

`close` of httpx frees a socket, and does not wake a thread that reads from it; `end` shuts the socket down, which does.

`api.connect` alone imports this module, because it loads httpx.
"""

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Lock, local
from typing import Any, Final

import httpcore2
import httpx2

from nri_coloc.host import sockets

KEPT: Final = 20
"""Idle connections that are kept for further requests."""

IDLE_S: Final = 5.0
"""Seconds after which an idle connection is closed."""

ANSWER_BYTES: Final = 12 << 20
"""The most bytes of one answer, or of one change of a watch. etcd takes 1.5 MiB of an object, and JSON has six bytes
for one of these at most (`<`)."""

_ERRORS: Final = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)

_SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class _Limits(local):
    """The limits of the call that this thread makes.

    at_s: its deadline, monotonic time, seconds.
    whole_s: the time limit of the whole call, seconds.
    left_bytes: number of bytes that it may still receive.
    """

    at_s = inf
    whole_s = inf
    left_bytes = ANSWER_BYTES


class Links(httpcore2.NetworkBackend):
    """The connections of one client. A call belongs to the thread that makes it; any thread may call `end`."""

    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()
        self._limits = _Limits()
        self._lock = Lock()
        self._open: set[Link] = set()
        self._is_ended = False

    @contextmanager
    def within(self, whole_s: float) -> Iterator[None]:
        """Limit the waits of this thread's block to so many seconds in all, and its answer to `ANSWER_BYTES`."""
        limits = self._limits
        before = limits.at_s, limits.whole_s, limits.left_bytes
        limits.at_s, limits.whole_s, limits.left_bytes = time.monotonic() + whole_s, whole_s, ANSWER_BYTES
        try:
            yield
        finally:
            limits.at_s, limits.whole_s, limits.left_bytes = before

    def begin_part(self) -> None:
        """Let the part of an answer that follows have `ANSWER_BYTES` again, such as the next change of a watch."""
        self._limits.left_bytes = ANSWER_BYTES

    def received(self, piece: bytes) -> bytes:
        """Return a piece that was received; raise ReadError if the answer has more bytes than it may have."""
        self._limits.left_bytes -= len(piece)
        if self._limits.left_bytes < 0:
            raise httpcore2.ReadError(f"the API server sent more than {ANSWER_BYTES} bytes")
        return piece

    def end(self) -> None:
        """End all connections, and refuse further ones; threads that wait for an answer get an error."""
        with self._lock:
            self._is_ended = True
            links = tuple(self._open)
        for each in links:
            each.shut_down()

    def left_s(self, timeout_s: float | None) -> float:
        """Return the seconds that a wait may take; raise ReadTimeout after the deadline."""
        left_s = self._limits.at_s - time.monotonic()
        if left_s <= 0:
            raise httpcore2.ReadTimeout(f"not complete after {self._limits.whole_s:g} s")
        return left_s if timeout_s is None else min(left_s, timeout_s)

    def opened(self, stream: httpcore2.NetworkStream) -> "Link":
        """Return a new connection; raise ConnectError after `end`."""
        link = Link(stream, self)
        with self._lock:
            if not self._is_ended:
                self._open.add(link)
                return link
        stream.close()
        raise httpcore2.ConnectError("closed")

    def closed(self, link: "Link") -> None:
        """Forget a connection that was closed, or that became one with TLS."""
        with self._lock:
            self._open.discard(link)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[_SocketOption] | None = None,
    ) -> "Link":
        """Open a connection."""
        return self.opened(
            self._inner.connect_tcp(host, port, self.left_s(timeout), local_address, socket_options)
        )


class Link(httpcore2.NetworkStream):
    """One connection. `read` and `write` belong to the thread of the call."""

    def __init__(self, stream: httpcore2.NetworkStream, links: Links) -> None:
        self._stream = stream
        self._links = links

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; none at the end of the connection."""
        try:
            return self._links.received(self._stream.read(max_bytes, self._links.left_s(timeout)))
        except httpcore2.ReadTimeout:
            self._links.left_s(None)  # says so if the deadline was the reason
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        self._stream.write(buffer, self._links.left_s(timeout))

    def close(self) -> None:
        """Free the connection."""
        self._links.closed(self)
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "Link":
        """Return the connection with TLS."""
        self._links.closed(self)
        return self._links.opened(
            self._stream.start_tls(ssl_context, server_hostname, self._links.left_s(timeout))
        )

    def get_extra_info(self, info: str) -> Any:
        """Return a fact about the connection, such as its socket."""
        return self._stream.get_extra_info(info)

    def shut_down(self) -> None:
        """End the connection for both sides; a thread that reads from it wakes."""
        sockets.shut_down(self.get_extra_info("socket"))


class _Body(httpx2.SyncByteStream):
    """The body of an answer, with the errors of httpx."""

    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._stream

    def close(self) -> None:
        """Free the connection for the next request, or close it if the body was not read to its end."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


class Transport(httpx2.BaseTransport):
    """Carry httpx's requests over these connections."""

    def __init__(self, context: ssl.SSLContext, links: Links) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context,
            max_keepalive_connections=KEPT,
            keepalive_expiry=IDLE_S,
            network_backend=links,
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return an answer, whose body is read later; raise TransportError without one, or if it is compressed.

        A compressed answer has a thousand times its bytes, and none was asked for.
        """
        sent = httpcore2.Request(
            request.method,
            httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            found = self._pool.handle_request(sent)
        assert isinstance(found.stream, Iterable)
        body = _Body(found.stream)
        answer = httpx2.Response(
            found.status, headers=found.headers, stream=body, extensions=found.extensions
        )
        if "Content-Encoding" in answer.headers:
            body.close()
            raise httpx2.TransportError("the API server compressed its answer, although it was not asked to")
        return answer

    def close(self) -> None:
        """Close all connections that no call uses."""
        self._pool.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the errors of connections as TransportError."""
    try:
        yield
    except _ERRORS as error:
        raise httpx2.TransportError(str(error) or type(error).__name__) from error
