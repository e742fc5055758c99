"""Serve the companion on the second socket: its folder, its file, the peer's credentials, and one thread.

The folder has mode 0750 and the socket 0660, both of root and the companion's group. The kernel shows the peer's user
(SO_PEERCRED), and only the companion's may connect. One connection is served at a time; another is closed at once.
All connections have the same facts and rates of calls, so that a peer that connects again and again costs no more than
one that stays.
"""

import os
import secrets
import select
import socket
import stat
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final, Protocol

from nri_coloc.core.pod_facts import PodFacts
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.core.texts import PlainLog
from nri_coloc.core.token_bucket import Rate
from nri_coloc.errors import ColocError
from nri_coloc.kubernetes.kept_facts import KeptFacts
from nri_coloc.kubernetes.log_limit import BoundedLog
from nri_coloc.kubernetes.publication import Published, State, publish
from nri_coloc.kubernetes.session import Calls, Events, Lasting, Orders, Session

FOLDER_MODE: Final = 0o750
SOCKET_MODE: Final = 0o660
PIECE: Final = 64 * 1024
TURN_S: Final = 1.0
LOOK_S: Final = 0.5
"""Seconds between two looks at the state while a call waits for a change."""

PACE_S: Final = 0.01
"""Pause after each reading, so that a peer that sends single bytes costs little."""

PAUSE_S: Final = 1.0
"""Pause after each connection, however it ended."""

LINES: Final = Rate(burst=10, every_s=6.0)
"""Log lines about connections. A companion that restarts causes two."""

REFUSAL_LINES: Final = Rate(burst=1, every_s=60.0)
"""Log lines about refused peers."""

_CREDENTIALS: Final = struct.Struct("iII")  # struct ucred: pid, uid, gid


class Side(Protocol):
    """The node, as the companion sees and informs it."""

    def state(self) -> State:
        """Return the node's state now."""

    def told(self, facts: PodFacts) -> None:
        """Take all facts about pods, after each change of them."""


class Ordering(Orders, Protocol):
    """The eviction orders of the daemon, which are possible while a companion is connected."""

    def greeted(self) -> None:
        """Note that a companion is connected."""

    def left(self) -> None:
        """Note that no companion is connected."""


class NoSocketError(ColocError):
    """The socket cannot be created; the text has the reason and the remedy."""


class CompanionServer:
    """The second socket. `look` and `close` belong to one thread; the connection has another.

    side, orders, events: called on the thread of the connection.
    problem: the reason why there is no socket although there should be one, "" otherwise.
    """

    def __init__(
        self, path: str, side: Side, *, orders: Ordering, events: Events, version: str, log: PlainLog
    ) -> None:
        self.problem = ""
        self._path = path
        self._side = side
        self._kept = KeptFacts()
        self._calls = Calls()
        self._orders = orders
        self._events = events
        self._version = version
        self._log = log
        self._connections = BoundedLog(log, LINES)
        self._refusals = BoundedLog(log, REFUSAL_LINES)
        self._listening: _Listening | None = None

    def look(self, settings: KubernetesSettings) -> None:
        """Create the socket if it should be there, again if it was removed or its settings changed.

        A failure is logged once; the next call tries again.
        """
        listening = self._listening
        if listening is not None and not (settings == listening.settings and listening.is_there):
            self.close()
        if self._listening is not None or not settings.report:
            self.problem = self.problem if settings.report else ""
            return
        try:
            self._listening = _Listening(self._path, settings, self)
        except (OSError, NoSocketError) as error:
            self._failed(f"no socket for the companion at {self._path}: {error}")
            return
        self.problem = ""
        self._log.info("waiting for the companion", socket=self._path, uid=settings.companion_uid)

    def close(self) -> None:
        """Remove the socket and end the connection."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._log.warning(problem)

    def serve(self, listening: "_Listening") -> None:
        """Accept and serve one connection after the other, until the socket is closed."""
        publisher = _Publisher(self._side.state)
        while not listening.closing.is_set():
            peer = listening.accept()
            if peer is None:
                continue
            with peer:
                uid = _uid_of(peer)
                is_companion = uid == listening.settings.companion_uid
                if is_companion:
                    self._carry(peer, listening, publisher)
            if not is_companion:
                wanted = listening.settings.companion_uid
                self._refusals.warning("not the companion: connection refused", uid=uid, companionUid=wanted)
            listening.closing.wait(PAUSE_S)

    def _carry(self, peer: socket.socket, listening: "_Listening", publisher: "_Publisher") -> None:
        """Serve one connection to its end."""
        session = Session(
            listening.settings,
            self._version,
            time.monotonic(),
            orders=self._orders,
            events=self._events,
            lasting=Lasting(self._kept, self._calls),
        )
        with ExitStack() as end:
            self._exchange(session, _Link(peer, listening.waker), listening, publisher, end=end)

    def _exchange(
        self,
        session: Session,
        link: "_Link",
        listening: "_Listening",
        publisher: "_Publisher",
        *,
        end: ExitStack,
    ) -> None:
        """Exchange messages until the connection ends. `end`: called back at the end of a greeted connection."""
        is_greeted = False
        while not (session.ended or link.is_over or listening.closing.is_set()):
            data = link.wait()
            now_s, before = time.monotonic(), self._kept.newest
            answers = session.receive(data, now_s) if data else []
            if self._kept.newest is not before:
                self._side.told(self._kept.newest)
            link.send([*answers, *session.turn(publisher.newest(now_s, session), now_s)])
            listening.turn_away()
            if session.companion and not is_greeted:
                is_greeted = True
                self._orders.greeted()
                end.callback(self._orders.left)
                self._connections.info("the companion is connected", companion=session.companion)
            if data:
                listening.closing.wait(PACE_S)
        if session.ended:
            self._connections.warning("the companion was disconnected", because=session.ended)
        elif is_greeted and not listening.closing.is_set():
            self._connections.info("the companion has gone", companion=session.companion)


class _Publisher:
    """The state under its generation, read again every half second while a call waits for it."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._first = secrets.randbits(64) or 1
        self._published: Published | None = None
        self._looked_s = -LOOK_S

    def newest(self, now_s: float, session: Session) -> Published:
        """Return the newest state."""
        if self._published is None or (session.is_waiting and now_s - self._looked_s >= LOOK_S):
            self._looked_s = now_s
            self._published = publish(self._published, self._state(), now_s, first=self._first)
        return self._published


class _Link:
    """The bytes of one connection. A peer that does not read its answers has a bounded backlog, then it is dropped."""

    def __init__(self, peer: socket.socket, waker: int) -> None:
        self.is_over = False
        peer.setblocking(False)
        self._peer = peer
        self._unsent = bytearray()
        self._poll = select.poll()
        self._poll.register(peer, select.POLLIN)
        self._poll.register(waker, select.POLLIN)

    def wait(self) -> bytes:
        """Return bytes of the peer; empty if none came within a turn, or after its end."""
        self._flush()
        if not self._poll.poll((0.05 if self._unsent else LOOK_S) * 1000):
            return b""
        try:
            data = self._peer.recv(PIECE)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.is_over = self.is_over or not data
        return data

    def send(self, messages: list[bytes]) -> None:
        """Send messages; what the peer does not take now is kept, up to a bound."""
        for message in messages:
            self._unsent += message
        if len(self._unsent) > 2 * PIECE:
            self.is_over = True
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._peer.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True


class _Listening:
    """The listening socket, its file and its thread."""

    def __init__(self, path: str, settings: KubernetesSettings, server: CompanionServer) -> None:
        self.settings = settings
        self.closing = Event()
        self.waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._path = Path(path)
        _prepare_folder(self._path.parent, settings.companion_gid)
        _remove_stale(self._path)
        self._socket = _bind(self._path, settings.companion_gid)
        self._identity = _identity(self._path)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self.waker, select.POLLIN)
        self._thread = Thread(target=server.serve, args=(self,), name="companion", daemon=True)
        self._thread.start()

    @property
    def is_there(self) -> bool:
        """Return whether the path still leads to this socket, and its thread lives."""
        return _identity(self._path) == self._identity and self._thread.is_alive()

    def accept(self) -> socket.socket | None:
        """Return a connection; None if none came within a turn."""
        if not self._poll.poll(TURN_S * 1000) or self.closing.is_set():
            return None
        try:
            return self._socket.accept()[0]
        except OSError:
            self.closing.wait(PACE_S)  # gone already, or no descriptors: some become free later
            return None

    def turn_away(self) -> None:
        """Close connections that come while one is served, a few at a time."""
        for _ in range(8):
            try:
                self._socket.accept()[0].close()
            except OSError:
                return

    def close(self) -> None:
        """Stop listening, remove the file, end the thread."""
        self.closing.set()
        os.eventfd_write(self.waker, 1)
        if _identity(self._path) == self._identity:
            with suppress(OSError):
                self._path.unlink()
        self._thread.join(TURN_S)
        self._socket.close()
        if not self._thread.is_alive():
            os.close(self.waker)


def _prepare_folder(folder: Path, gid: int) -> None:
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise NoSocketError(f"{folder} belongs to user {status.st_uid}; remove it")
        if status.st_gid != gid:
            _give(lambda: os.fchown(descriptor, -1, gid), folder, gid)
        os.fchmod(descriptor, FOLDER_MODE)
    finally:
        os.close(descriptor)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise NoSocketError(f"{path} exists and is no socket; remove it")
    path.unlink()  # of the previous process: only root can write in the folder


def _bind(path: Path, gid: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(made.fileno(), 0o600)  # Linux creates the file with the descriptor's mode
        made.bind(str(path))
        if path.lstat().st_gid != gid:
            _give(lambda: os.chown(path, -1, gid, follow_symlinks=False), path, gid)
        path.chmod(SOCKET_MODE)
        made.listen(1)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _give(change: Callable[[], None], path: Path, gid: int) -> None:
    try:
        change()
    except PermissionError as error:
        raise NoSocketError(
            f"group {gid} cannot be given to {path}; "
            f"let the daemon be a member (supplementalGroups: [{gid}] of its pod), or have CAP_CHOWN"
        ) from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _uid_of(peer: socket.socket) -> int:
    """Return the user of the process that connected."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
