"""The socket to the runtime: connect, register, serve until it ends, and begin again, for ever.

One thread reads and answers. Writes are serialised by one lock, because the watchdog may answer too; a runtime that
stops reading makes a write fail after `SEND_TIMEOUT_S`, and the connection is made anew. There is no reconnect in
the protocol: each connection is a new session that ends in a full Synchronize.
"""

import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.daemon.hooks import Hooks
from nri_coloc.daemon.listing import Listing
from nri_coloc.daemon.own_calls import OwnCalls, outcome
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.watchdog import Ticket, Watchdog
from nri_coloc.errors import ProtocolError, TransportLost
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.nri import events, version
from nri_coloc.nri.session import Session

FIRST_RETRY_S: Final = 0.5
RETRY_CAP_S: Final = 10.0
SEND_TIMEOUT_S: Final = 5
READ_SIZE: Final = 1 << 15
"""One read holds a usual request whole; the runtime's socket buffer is about this large."""

HOOK_FIRST_S: Final = 1e-4
UNDISTURBED_S: Final = 5e-3
"""How long whoever wants the interpreter waits before it is taken from who has it. Short while this thread waits for a
hook: what other threads do then gives way to it. Python's usual 5 ms while it works on one: nobody gets in between."""

OnConfigured = Callable[[events.Configured], None]


class Trunk:
    """The connection to the runtime.

    connect: makes a socket.
    once: the plugin was launched, and has only the socket that it was given.
    """

    def __init__(
        self,
        connect: Callable[[], socket.socket],
        name: tuple[str, str],
        hooks: Hooks,
        report: Report,
        on_configured: OnConfigured,
        *,
        once: bool = False,
    ) -> None:
        self._once = once
        self.synchronized_at = 0.0
        self.connected = False
        self._connect = connect
        self._name, self._index = name
        self._hooks = hooks
        self._report = report
        self._on_configured = on_configured
        self._socket: socket.socket | None = None
        self._session: Session | None = None
        self._listing: Listing | None = None
        self._version = version.OLDEST
        self._sending = Lock()
        self._stopping = Event()
        self._acting = Lock()
        self._own_calls = OwnCalls()
        self._watchdog = Watchdog(self.answer_neutral)

    def run(self) -> None:
        """Serve connection after connection until `stop`; one only where the socket cannot be had again."""
        self._watchdog.start()
        delay = FIRST_RETRY_S
        attempts = 0
        found_before = True
        while not self._stopping.is_set():
            began = time.monotonic()
            found, lost = True, None
            try:
                found = self._serve_one(attempts)
            except (OSError, TransportLost, ProtocolError) as error:
                lost = error
            # who waited long for a runtime to come has no quarrel with it: only its own faults count
            if (found and not found_before) or time.monotonic() - began > RETRY_CAP_S:
                delay = FIRST_RETRY_S
            found_before = found
            pause_s = delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            if lost is not None:
                self._lost(lost, attempts, "" if self._once else f"; reconnecting in {pause_s:.1f} s")
            attempts += 1
            if self._once:
                return
            self._stopping.wait(pause_s)
            delay = min(delay * 2, RETRY_CAP_S)

    def stop(self) -> None:
        """End the loop and the connection."""
        self._stopping.set()
        self._watchdog.stop()
        self.drop("stopping")

    def ended(self, seconds: float) -> bool:
        """Wait until the hook at hand has written its last, after `stop`; False if it has not in time."""
        ended = self._acting.acquire(timeout=seconds)
        if ended:
            self._acting.release()
        return ended

    @property
    def peer_pid(self) -> int:
        """The runtime's process as the socket tells it; 0 if it is unknown or of another PID namespace."""
        current = self._socket
        if current is None:
            return 0
        try:
            found = current.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return 0
        pid: int = struct.unpack("3i", found)[0]
        return pid

    def drop(self, why: str) -> None:
        """Close the connection so that a new one brings a fresh list."""
        current = self._socket
        if current is not None:
            self._report.log.info("closing the connection to the runtime", why=why)
            try:
                current.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def relist(self, why: str) -> bool:
        """Have the runtime tell its list anew, over a new connection; return False if that cannot be had now.

        A plugin that the runtime launched has no other connection than the one that it was given.
        """
        if self._once or self._socket is None:
            return False
        self.drop(why)
        return True

    # ---- the hooks' face ----

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

    def answer_neutral(self, ticket: Ticket) -> None:
        """Answer an overdue call without a decision; on the watchdog's thread."""
        try:
            with self._sending:
                if self._session is not None:
                    self._send(self._session.neutral(ticket.call))
        except (OSError, TransportLost, ProtocolError) as error:
            self.drop(str(error))
        self._report.metrics.neutral_reply(ticket.hook)
        self._report.log.warning("a hook was overdue; it was answered neutrally", hook=ticket.hook)

    # ---- calls of ours ----

    @property
    def updates_are_safe(self) -> bool:
        """Whether the runtime that is connected may be sent `update_container`."""
        return self.connected and version.native_updates_are_safe(self._version)

    def update_container(self, update: nri_pb2.ContainerUpdate) -> None:
        """Have the runtime change one container; waits for its answer however long it takes, never on a hook's thread.

        TransportLost if the connection ends first, RuntimeRefused if it cannot be done.
        """
        with self._sending:
            if self._session is None:
                raise TransportLost("the runtime is not connected")
            stream, data = self._session.update_containers((update,), 0)
            waiting = self._own_calls.expect(stream)
            self._send(data)
        outcome(waiting)

    # ---- one connection ----

    def _serve_one(self, attempts: int) -> bool:
        """Serve one connection to its end, which is always an error; False if nobody listens."""
        try:
            connection = self._connect()
        except OSError as error:
            if attempts == 0:
                self._report.log.warning("waiting for the runtime's NRI socket", error=str(error))
            return False
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
            session = Session(self._name, self._index)
            with self._sending:
                self._socket, self._session = connection, session
                self._send(session.register())
            try:
                self._read(connection, session)
            finally:
                self._forget()
        return True

    def _read(self, connection: socket.socket, session: Session) -> None:
        while not self._stopping.is_set():
            self._take(_wait_for_bytes(connection), session)

    def _take(self, data: bytes, session: Session) -> None:
        """Do what these bytes ask for. What that took is freed on return, not while the next hook waits."""
        read_at = time.monotonic()
        if not data:
            raise TransportLost("the runtime closed the connection")
        with self._sending:
            found = session.receive_data(data)
            self._send(session.data_to_send())
        with self._acting:
            for event in found:
                if self._stopping.is_set():
                    return  # nobody waits for the answer, and everything may be being put back
                self._dispatch(event, read_at)

    def _dispatch(self, event: events.Event, read_at: float) -> None:
        match event:
            case events.Hook():
                self._hooks.serve(event, self, self._watchdog, read_at)
            case events.Configured():
                self._configure(event)
            case events.Synchronize():
                self._synchronize(event, read_at)
            case events.RegistrationRefused(message=message):
                raise TransportLost(f"the runtime refused our registration: {message}")
            case events.RuntimeAnswered():
                self._own_calls.answered(event)
            case events.Registered():
                return

    def took_list_from_elsewhere(self) -> None:
        """Note that the runtime's list came over another connection."""
        self.synchronized_at = time.monotonic()

    def _configure(self, configured: events.Configured) -> None:
        self._version = configured.nri_version
        self._on_configured(configured)
        with self._sending:
            if self._session is not None:
                self._send(self._session.configure_answer(configured.call, configured.nri_version))
        self.connected = True
        self._report.metrics.connected(now=True)
        nri = ".".join(map(str, configured.nri_version))
        because = f"{configured.runtime_name} {configured.runtime_version}, NRI {nri}"
        self._report.said(AuditEvent.RUNTIME_CONNECT, Reason.CONNECTED, because)

    def _synchronize(self, part: events.Synchronize, read_at: float) -> None:
        """Take one part of the list; answer the last one before anything dear is done.

        The runtime grants all parts two seconds together and holds its global lock meanwhile. A hook that follows the
        answer waits in the socket until the list has been placed.
        """
        listing = self._listing or self._hooks.listing()
        listing.add(part)
        self._listing = listing if part.more else None
        if part.more:
            return
        self.answer(part.call, nri_pb2.SynchronizeResponse())
        answered_at = time.monotonic()
        self._place(listing)
        self.synchronized_at = time.monotonic()
        self._report.log.info(
            "synchronised",
            containers=len(listing.containers),
            pods=len(listing.pods),
            seconds=round(self.synchronized_at - read_at, 4),
            answered_after=round(answered_at - read_at, 4),
        )
        took, budget = answered_at - read_at, part.call.timeout_nano / 1e9
        if budget and took > budget and version.late_sync_leaves_zombie(self._version):
            raise TransportLost(
                f"Synchronize took {took:.2f} s of {budget:.2f} s: the runtime has dropped us silently"
            )

    def _place(self, listing: Listing) -> None:
        try:
            self._hooks.learn(listing)
        except (OSError, TransportLost, ProtocolError):
            raise
        except Exception as error:
            self._report.log.exception("Synchronize failed inside", exc_info=error)
            because = f"Synchronize failed inside: {type(error).__name__}: {error}; asking for it again"
            self._report.said(AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, because)
            raise TransportLost("without the runtime's list nothing can be placed") from error

    def _send(self, data: bytes) -> None:
        """Send framed bytes whole; requires holding the sending lock."""
        assert self._sending.locked()
        if data and self._socket is not None:
            try:
                self._socket.sendall(data)
            except OSError as error:
                # a part may be out: whatever followed would be read as its rest, which can crash a runtime
                self._session = None
                raise TransportLost(f"the runtime does not take what we send: {error}") from error

    def _forget(self) -> None:
        with self._sending:
            self._socket = self._session = None
        self._listing = None
        self._own_calls.lost()
        was = self.connected
        self.connected = False
        self.synchronized_at = 0.0
        self._report.metrics.connected(now=False)
        if was:
            self._report.metrics.reconnected()

    def _lost(self, error: Exception, attempts: int, then: str) -> None:
        if self._stopping.is_set():
            return
        self._report.log.warning("lost the runtime", error=str(error), attempt=attempts)
        self._report.said(AuditEvent.RUNTIME_LOST, Reason.LOST, f"{error}{then}")


def _wait_for_bytes(connection: socket.socket) -> bytes:
    sys.setswitchinterval(HOOK_FIRST_S)
    try:
        return connection.recv(READ_SIZE)
    finally:
        sys.setswitchinterval(UNDISTURBED_S)


def connect_to(path: str) -> socket.socket:
    """Connect to the runtime's socket; OSError while it is not there, or whoever listens does not accept for long."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # unix(7): connect waits as a send does where the listener's queue is full
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection
