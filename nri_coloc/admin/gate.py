"""The admin socket's gate: asks the kernel who is there, and lets root's bytes through to gRPC.

grpcio tells a handler nothing of a Unix peer but the name that its socket is bound to, and cannot be given an accepted
connection. So the listening socket is ours, and SO_PEERCRED is asked of the very connection before a byte of it is
read. What may pass is carried to a gRPC server on a second socket in the same closed folder. Our end of each carried
connection is bound to a fresh abstract name; the kernel gives a name once, so a handler knows by its peer's name
through which connection, and from whom, a call came, and whoever else reaches the second socket is nobody
(docs/decisions/0027). The gRPC server lives while a connection does: at rest there is one thread that sleeps.
"""

import os
import secrets
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final, Protocol

from nri_coloc.admin.orders import Caller
from nri_coloc.admin.socket_file import NoAdminSocket, SocketFile

MAX_CONNECTIONS: Final = 8
"""An operator and his scripts; each costs two threads."""

IDLE_S: Final = 60.0
"""A connection on which nothing moves for so long is closed; no call takes as long."""

SEND_S: Final = 5.0
PIECE: Final = 16 * 1024
CLOSE_S: Final = 0.5
CREDENTIALS: Final = struct.Struct("iII")  # struct ucred: pid, uid, gid

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What every HTTP/2 client says first (RFC 9113, 3.4); who says anything else costs no gRPC server."""

PEER_SCHEME: Final = "unix-abstract:"
"""What gRPC puts before the name of a peer in the abstract namespace."""


class Server(Protocol):
    """The gRPC server behind the gate."""

    def stop(self) -> None:
        """End at once, and take its socket away."""


MakeServer = Callable[[str, Callable[[str], Caller | None]], Server]
"""Starts a server at a path, which knows its callers by the names of their sockets."""


class Gate:
    """`look` opens it, and again when the socket was taken away; `close` ends it. Both are for one thread.

    `refused` is told of whoever may not enter, `report` a sentence for the operator's log. `problem`: why there is no
    socket, "" while there is one.
    """

    def __init__(
        self, path: str, make: MakeServer, refused: Callable[[Caller], None], report: Callable[[str], None]
    ) -> None:
        self.problem = ""
        self.admitted = frozenset({0, os.geteuid()})
        self._file = SocketFile(path)
        self._make = make
        self._refused = refused
        self._report = report
        self._listening: socket.socket | None = None
        self._callers: dict[str, Caller] = {}
        self._carried: set[socket.socket] = set()
        self._server: Server | None = None
        self._turn = Lock()
        self._closing = Event()

    def look(self) -> None:
        """Make the socket if it is not there; an obstacle is reported once and tried again at the next look."""
        if self._listening is not None:
            if self._file.is_there:
                return
            self._report(f"the admin socket {self._file.path} was taken away; making it anew")
            self._stop_listening()
        try:
            self._listening = self._file.listen()
        except NoAdminSocket as error:
            if str(error) != self.problem:
                self.problem = str(error)
                self._report(self.problem)
            return
        self.problem = ""
        Thread(target=self._accept, args=(self._listening,), name="admin", daemon=True).start()

    def close(self) -> None:
        """Stop listening, end what is carried, remove the socket."""
        self._closing.set()
        self._stop_listening()
        with self._turn:
            carried, server, self._server = [*self._carried], self._server, None
        for connection in carried:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if server is not None:
            server.stop()

    def caller(self, peer: str) -> Caller | None:
        """Return who a gRPC peer is; None for one that did not come through the gate."""
        return self._callers.get(peer.removeprefix(PEER_SCHEME)) if peer.startswith(PEER_SCHEME) else None

    def _stop_listening(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._file.close()

    def _accept(self, listening: socket.socket) -> None:
        with listening:
            while listening is self._listening:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    self._closing.wait(0.05)  # shut down, or no descriptors: those come back
                    continue
                self._receive(connection)

    def _receive(self, connection: socket.socket) -> None:
        caller = credentials(connection)
        if caller.uid not in self.admitted:
            with connection:
                self._refused(caller)  # first: who sees the connection's end finds told why
            return
        with self._turn:
            full = len(self._carried) >= MAX_CONNECTIONS
            if not full:
                self._carried.add(connection)
        if full:
            connection.close()
            return
        try:
            Thread(
                target=self._carry, args=(connection, caller), name="admin-connection", daemon=True
            ).start()
        except RuntimeError:  # no thread to be had
            self._forget(connection, "")

    def _carry(self, connection: socket.socket, caller: Caller) -> None:
        name = f"nri-coloc-admin-{secrets.token_hex(16)}"
        try:
            connection.settimeout(SEND_S)
            if not _speaks_http2(connection):
                return
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as inner:
                inner.bind(f"\0{name}")
                self._callers[name] = caller
                self._start_server()
                inner.settimeout(SEND_S)
                inner.connect(self._file.inner_path)
                _exchange(connection, inner)
        except OSError:
            pass  # one of the two has left, or reads too slowly
        except Exception as error:  # noqa: BLE001 - one connection, and a thread that ends anyway
            self._report(f"an admin connection failed: {type(error).__name__}: {error}")
        finally:
            self._forget(connection, name)

    def _start_server(self) -> None:
        with self._turn:
            if self._server is None and not self._closing.is_set():
                self._server = self._make(self._file.inner_path, self.caller)

    def _forget(self, connection: socket.socket, name: str) -> None:
        connection.close()
        with self._turn:
            self._callers.pop(name, None)
            self._carried.discard(connection)
            if not self._carried and self._server is not None:
                self._server.stop()
                self._server = None


def credentials(connection: socket.socket) -> Caller:
    """Return who was at the other end of a Unix connection when it was made."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(raw)
    return Caller(uid, pid)


def _speaks_http2(connection: socket.socket) -> bool:
    """Look at the first bytes, and leave them there."""
    begun = connection.recv(len(PREFACE), socket.MSG_PEEK)
    return bool(begun) and PREFACE.startswith(begun)


def _exchange(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until one side ends or nothing moves."""
    ends = {one.fileno(): (one, other), other.fileno(): (other, one)}
    waiting = select.poll()
    for end in (one, other):
        end.settimeout(SEND_S)
        waiting.register(end, select.POLLIN)
    while ready := waiting.poll(IDLE_S * 1000):
        for number, _ in ready:
            source, sink = ends[number]
            piece = source.recv(PIECE)
            if not piece:
                return
            sink.sendall(piece)
