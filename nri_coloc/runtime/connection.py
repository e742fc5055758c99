"""The connection to the runtime, as hooks, pushes and checks use it: answers, calls of ours, and whether it is there.

`Trunk` opens it, reads from it, and closes it. There is no reconnect in the protocol: each connection is a new session
that ends in a full Synchronize. One lock serialises writes, because the watchdog may answer too. A runtime that stops
reading makes a write fail after `SEND_TIMEOUT_S`, and the connection is made again.
"""

import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from threading import Lock
from typing import Any, Final, Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.core.report import Report
from nri_coloc.errors import ProtocolError, RuntimeRefused, TransportLost
from nri_coloc.host import sockets
from nri_coloc.nri import events, version
from nri_coloc.nri.session import Session

SEND_TIMEOUT_S: Final = 5
RETRY_CAP_S: Final = 10.0
"""The longest pause between two tries to connect."""


class Overdue(Protocol):
    """A call that is not answered in time.

    hook: the kind of hook, for metrics and log.
    """

    @property
    def call(self) -> events.Call: ...

    @property
    def hook(self) -> str: ...


class Connection:
    """The present connection, if there is one. All methods but `open`, `receive` and `close` are for any thread.

    once: the runtime launched this plugin and gave it its only connection; no other can be made.
    connected: whether the runtime has registered this plugin.
    synchronized_at: when the runtime's list was last taken, monotonic seconds; 0 while it is not connected.
    obstacle: why the daemon does not connect yet, a sentence; "" if it can.
    """

    def __init__(self, report: Report, *, once: bool) -> None:
        self.connected = False
        self.synchronized_at = 0.0
        self.obstacle = ""
        self._report = report
        self._once = once
        self._socket: socket.socket | None = None
        self._session: Session | None = None
        self._version = version.OLDEST
        self._sending = Lock()
        self._calls: dict[int, Future[events.RuntimeAnswered]] = {}

    # ---- the trunk's thread ----

    def open(self, connected: socket.socket, session: Session) -> None:
        """Take a new socket and its session, and register."""
        bound_sends(connected)
        with self._sending:
            self._socket, self._session = connected, session
            self._send(session.register())

    def receive(self, session: Session, data: bytes) -> Sequence[events.Event]:
        """Return the events that these bytes complete; send the answers that the protocol itself gives."""
        with self._sending:
            found = session.receive_data(data)
            self._send(session.data_to_send())
        return found

    def configured(self, configured: events.Configured) -> None:
        """Answer the runtime's configuration: from now on it is connected."""
        with self._sending:
            self._version = configured.nri_version
            if self._session is not None:
                self._send(self._session.configure_answer(configured.call, configured.nri_version))
        self.connected = True
        self._report.metrics.connected(now=True)

    def close(self) -> None:
        """Drop the state of this connection; our calls that wait for an answer fail."""
        with self._sending:
            self._socket = self._session = None
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call.cancel()
        was, self.connected, self.synchronized_at = self.connected, False, 0.0
        self._report.metrics.connected(now=False)
        if was:
            self._report.metrics.reconnected()

    # ---- any thread ----

    def took_list(self) -> float:
        """Note that the runtime's list has been taken, over any connection; return the time, monotonic seconds."""
        self.synchronized_at = time.monotonic()
        return self.synchronized_at

    def wait_for(self, obstacle: str) -> None:
        """Note the obstacle to a connection, a sentence; "" if there is none any longer."""
        self.obstacle = obstacle

    @property
    def peer_pid(self) -> int:
        """Return the runtime's PID from the socket; 0 if it is unknown or of another PID namespace."""
        current = self._socket
        if current is None:
            return 0
        try:
            found = current.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return 0
        pid: int = struct.unpack("3i", found)[0]
        return pid

    @property
    def late_list_is_fatal(self) -> bool:
        """Return whether this runtime silently drops a plugin that answers Synchronize too late."""
        return version.late_sync_leaves_zombie(self._version)

    def drop(self, why: str) -> None:
        """Close the connection, so that a new one brings a fresh list."""
        current = self._socket
        if current is not None:
            self._report.log.info("closing the connection to the runtime", why=why)
            sockets.shut_down(current)

    def relist(self, why: str) -> bool:
        """Have the runtime send its list again, over a new connection; return False if that is not possible now."""
        if self._once or self._socket is None:
            return False
        self.drop(why)
        return True

    def answer(self, call: events.Call, message: Any | None) -> None:
        """Frame and send one answer."""
        with self._sending:
            if self._session is not None:
                self._send(self._session.answer(call, message))

    def refuse(self, call: events.Call, code: int, message: str) -> None:
        """Frame and send one refusal."""
        with self._sending:
            if self._session is not None:
                self._send(self._session.refuse(call, code, message))

    def answer_neutral(self, overdue: Overdue) -> None:
        """Answer an overdue call without a decision; on the watchdog's thread."""
        try:
            with self._sending:
                if self._session is not None:
                    self._send(self._session.neutral(overdue.call))
        except (OSError, TransportLost, ProtocolError) as error:
            self.drop(str(error))
        self._report.metrics.neutral_reply(overdue.hook)
        self._report.log.warning("a hook was overdue; it was answered neutrally", hook=overdue.hook)

    # ---- calls of ours ----

    @property
    def updates_are_safe(self) -> bool:
        """Return whether the connected runtime may be sent `update_container` (nri-protocol §6.2)."""
        return self.connected and version.native_updates_are_safe(self._version)

    def update_container(self, update: nri_pb2.ContainerUpdate) -> None:
        """Have the runtime change one container; never on a hook's thread.

        It waits for the answer without a limit: a deadline could pass while the runtime holds its own lock. The end of
        the connection ends the wait. Raise TransportLost if the connection ends first, RuntimeRefused if the runtime
        refuses.
        """
        with self._sending:
            if self._session is None:
                raise TransportLost("the runtime is not connected")
            stream, data = self._session.update_containers((update,), 0)
            waiting: Future[events.RuntimeAnswered] = Future()
            self._calls[stream] = waiting  # before its bytes are sent: the answer may be quick
            self._send(data)
        _wait_for(waiting)

    def answered(self, answer: events.RuntimeAnswered) -> None:
        """Wake the thread that waits for this answer, if there is one."""
        with self._sending:
            waiting = self._calls.pop(answer.stream, None)
        if waiting is not None:
            waiting.set_result(answer)

    def _send(self, data: bytes) -> None:
        """Send framed bytes whole; requires holding the sending lock."""
        assert self._sending.locked()
        if data and self._socket is not None:
            try:
                self._socket.sendall(data)
            except OSError as error:
                # a part may be out: the runtime would read the next message as its rest, which can crash it
                self._session = None
                raise TransportLost(f"the runtime does not read the connection: {error}") from error


def _wait_for(waiting: "Future[events.RuntimeAnswered]") -> None:
    try:
        answer = waiting.result()
    except CancelledError as error:
        raise TransportLost("the connection ended before the runtime answered") from error
    if answer.code:
        raise RuntimeRefused(f"UpdateContainers: code {answer.code}: {answer.message}")


def connect_to(path: str) -> socket.socket:
    """Connect to the runtime's socket; OSError if it is not there, or if the listener does not accept for long."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound_sends(connection)  # unix(7): connect waits as a send does where the listener's queue is full
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def bound_sends(connection: socket.socket) -> None:
    """Make a send, or a connect, on this socket fail after `SEND_TIMEOUT_S`."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
