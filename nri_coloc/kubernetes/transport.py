"""Carry requests to the API server over connections that have a deadline, and that another thread can end.

A time limit of httpx counts from byte to byte, so that a server that sends a byte from time to time holds a call
without end. Here all waits of a call share one deadline. `close` of httpx frees a socket, and does not wake a thread
that reads from it; `end` shuts the socket down, which does.

`api.connect` alone imports this module, because it loads httpx.
"""

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from threading import Lock, local
from typing import Any, Final

import httpcore2
import httpx2

KEPT: Final = 20
"""Idle connections that are kept for further requests."""

IDLE_S: Final = 5.0
"""Seconds after which an idle connection is closed."""

_SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class _Deadline(local):
    """The deadline of the call that this thread makes.

    at_s: monotonic time, seconds.
    whole_s: the time limit of the whole call, seconds.
    """

    at_s = inf
    whole_s = inf


class Links(httpcore2.NetworkBackend):
    """The connections of one client. A call belongs to the thread that makes it; any thread may call `end`."""

    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()
        self._deadline = _Deadline()
        self._lock = Lock()
        self._open: set[Link] = set()
        self._is_ended = False

    @contextmanager
    def within(self, whole_s: float) -> Iterator[None]:
        """Limit the waits of this thread's block to so many seconds in all."""
        deadline = self._deadline
        before = deadline.at_s, deadline.whole_s
        deadline.at_s, deadline.whole_s = time.monotonic() + whole_s, whole_s
        try:
            yield
        finally:
            deadline.at_s, deadline.whole_s = before

    def end(self) -> None:
        """End all connections, and refuse further ones; threads that wait for an answer get an error."""
        with self._lock:
            self._is_ended = True
            links = tuple(self._open)
        for each in links:
            each.shut_down()

    def left_s(self, timeout_s: float | None) -> float:
        """Return the seconds that a wait may take; raise ReadTimeout after the deadline."""
        left_s = self._deadline.at_s - time.monotonic()
        if left_s <= 0:
            raise httpcore2.ReadTimeout(f"not complete after {self._deadline.whole_s:g} s")
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
            return self._stream.read(max_bytes, self._links.left_s(timeout))
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
        found = self.get_extra_info("socket")
        with suppress(OSError):  # the server, or its own thread, closed it meanwhile
            # not the method of SSLSocket, which also drops the TLS state that the reading thread uses
            socket.socket.shutdown(found, socket.SHUT_RDWR)


class Transport(httpx2.HTTPTransport):
    """httpx's transport over these connections."""

    def __init__(self, context: ssl.SSLContext, links: Links) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context,
            max_keepalive_connections=KEPT,
            keepalive_expiry=IDLE_S,
            network_backend=links,
        )
