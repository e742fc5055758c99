"""Guard the admin socket: ask the kernel for the peer's credentials, and pass root's bytes on to gRPC.

The socket's folder (0700) and the socket (0600) are closed to other users. Each peer's credentials are checked all the
same. The kubelet creates hostPath folders with mode 0755. So a folder that other users can enter is closed to them,
but only if it holds no other file: a folder such as /run is not changed.

The daemon holds an advisory lock on a file beside the socket, which the kernel releases with the process. So only one
of two daemons has the socket, and a socket file without a listener is known to be stale. It is replaced only after a
connection to it was refused. The lock is not on the folder: a process that can read the folder could hold it.
"""

import fcntl
import os
import secrets
import select
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Protocol

from nri_coloc.errors import ColocError
from nri_coloc.host import sockets
from nri_coloc.service.orders import Caller

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
BACKLOG: Final = 8


class NoAdminSocket(ColocError):
    """The socket cannot be created now; the text has the reason and the remedy."""


class SocketFile:
    """The file of the admin socket: created by `listen`, checked by `is_there`, removed by `close`."""

    def __init__(self, path: str) -> None:
        self.path = os.fspath(Path(path).absolute())
        self._locked = -1
        self._identity: tuple[int, int] | None = None

    @property
    def lock_path(self) -> str:
        """Return the path of the file beside it that one daemon locks; only its user can open it."""
        return f"{self.path}.lock"

    @property
    def inner_path(self) -> str:
        """Return a path beside it for a second socket, for this process only."""
        return f"{self.path}~"

    def listen(self) -> socket.socket:
        """Return the listening socket; raise NoAdminSocket if it cannot be created."""
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
        """Return whether the path still leads to this socket."""
        return self._identity is not None and _identity(self.path) == self._identity

    def close(self) -> None:
        """Remove the socket if it is still ours, and release the lock for another daemon."""
        if self.is_there:
            with suppress(OSError):
                Path(self.path).unlink()
        self._identity = None
        if self._locked >= 0:
            with suppress(OSError):
                Path(self.lock_path).unlink()
            os.close(self._locked)
        self._locked = -1

    def _take_folder(self) -> None:
        folder = Path(self.path).parent
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise NoAdminSocket(f"no admin socket: {folder} belongs to uid {status.st_uid}{_MEND}")
            if status.st_mode & 0o077:
                self._close_to_others(folder, descriptor)
        finally:
            os.close(descriptor)
        self._lock(folder)

    def _lock(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        locked = os.open(self.lock_path, flags, PRIVATE_FILE)
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(locked)
            if _identity(self.lock_path) != (status.st_dev, status.st_ino):
                raise BlockingIOError  # its owner has just removed it
        except OSError as error:
            os.close(locked)
            raise NoAdminSocket(
                f"no admin socket: another nri-coloc has its socket in {folder}{_MEND}"
            ) from error
        self._locked = locked

    def _close_to_others(self, folder: Path, descriptor: int) -> None:
        ours = {Path(each).name for each in (self.path, self.inner_path, self.lock_path)}
        if set(os.listdir(descriptor)) - ours:
            raise NoAdminSocket(
                f"no admin socket: other users can enter {folder}, and it contains other files{_MEND}"
            )
        os.fchmod(descriptor, PRIVATE_FOLDER)

    def _remove_stale(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise NoAdminSocket(f"no admin socket: {path} exists and is no socket")
        if _has_listener(path):
            raise NoAdminSocket(f"no admin socket: another process listens at {path}{_MEND}")
        Path(path).unlink()

    def _bind(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux creates the file with the descriptor's mode, so it never exists with another mode
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


def _has_listener(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its queue is full: a process listens
            return True
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


MAX_CONNECTIONS: Final = 8
"""Enough for an operator and scripts; each connection costs two threads."""

IDLE_S: Final = 60.0
"""A connection on which nothing moves for so long is closed; no call takes as long."""

SEND_S: Final = 5.0
PIECE: Final = 16 * 1024
CREDENTIALS: Final = struct.Struct("iII")  # struct ucred: pid, uid, gid

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every HTTP/2 client (RFC 9113, 3.4); other clients cost no gRPC server."""

PEER_SCHEME: Final = "unix-abstract:"
"""gRPC's prefix of a peer's name in the abstract namespace."""


class Server(Protocol):
    """The gRPC server behind the gate."""

    def stop(self) -> None:
        """Stop at once, and remove its socket."""


MakeServer = Callable[[str, Callable[[str], Caller | None]], Server]
"""Start a server at a path. It knows its callers by the names of their sockets."""


class Gate:
    """The guarded admin socket. `look` creates it, again if it was removed; `close` ends it. Both are for one thread.

    refused: called with each caller that has no right to connect.
    report: called with a sentence for the operator's log.
    problem: the reason why there is no socket, "" while there is one.
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
        """Create the socket if it is missing. A failure is reported once; the next call tries again."""
        if self._listening is not None:
            if self._file.is_there:
                return
            self._report(f"the admin socket {self._file.path} was removed; creating it again")
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
        """Stop listening, end all connections, remove the socket."""
        self._closing.set()
        self._stop_listening()
        with self._turn:
            carried, server, self._server = [*self._carried], self._server, None
        for connection in carried:
            sockets.shut_down(connection)
        if server is not None:
            server.stop()

    def caller(self, peer: str) -> Caller | None:
        """Return the caller behind a gRPC peer; None for a peer that did not connect through this gate."""
        return self._callers.get(peer.removeprefix(PEER_SCHEME)) if peer.startswith(PEER_SCHEME) else None

    def _stop_listening(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            sockets.shut_down(listening)  # wakes the accepting thread
        self._file.close()

    def _accept(self, listening: socket.socket) -> None:
        with listening:
            while listening is self._listening:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    self._closing.wait(0.05)  # shut down, or no descriptors: some become free later
                    continue
                self._receive(connection)

    def _receive(self, connection: socket.socket) -> None:
        caller = credentials(connection)
        if caller.uid not in self.admitted:
            with connection:
                self._refused(caller)  # first: a client that sees the connection's end finds the reason
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
        except RuntimeError:  # no thread can be started
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
            pass  # one side closed the connection, or reads too slowly
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
    """Return the peer of a Unix connection, as of the connect."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(raw)
    return Caller(uid, pid)


def _speaks_http2(connection: socket.socket) -> bool:
    """Return whether the first bytes are an HTTP/2 client's; the bytes stay unread."""
    begun = connection.recv(len(PREFACE), socket.MSG_PEEK)
    return bool(begun) and PREFACE.startswith(begun)


def _exchange(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes in both directions until one side closes or no byte arrives for `IDLE_S` seconds."""
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
