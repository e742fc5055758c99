"""Serve the runtime in one thread: connect, register, then read and dispatch until the connection ends; repeat.

The rest of the daemon uses `Connection`.
"""

import random
import socket
import sys
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.core.backoff import Backoff
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.errors import ProtocolError, TransportLost
from nri_coloc.hooks.dispatch import Hooks
from nri_coloc.hooks.watchdog import Watchdog
from nri_coloc.nri import events
from nri_coloc.nri.session import Session
from nri_coloc.runtime.connection import RETRY_CAP_S, Connection
from nri_coloc.runtime.listing import Listing

READ_SIZE: Final = 1 << 15
"""Bytes. One read holds a usual request whole; the runtime's socket buffer is about this large."""

HOOK_FIRST_S: Final = 1e-4
UNDISTURBED_S: Final = 5e-3
"""Seconds before the running thread gives the interpreter to a waiting one. Short while this thread waits for a hook,
so that other threads give way; Python's usual 5 ms while it works on one."""

OnConfigured = Callable[[events.Configured], None]


class Trunk:
    """Reads one connection after the other and passes hooks on.

    connect: returns a connected socket.
    """

    def __init__(
        self,
        connection: Connection,
        connect: Callable[[], socket.socket],
        name: tuple[str, str],
        hooks: Hooks,
        report: Report,
    ) -> None:
        self._connection = connection
        self._connect = connect
        self._name, self._index = name
        self._hooks = hooks
        self._report = report
        self._stopping = Event()
        self._acting = Lock()
        self._watchdog = Watchdog(connection.answer_neutral)

    def run(self, on_configured: OnConfigured, *, once: bool) -> None:
        """Serve one connection after the other until `stop`.

        on_configured: called with each configuration before it is answered.
        once: the socket cannot be opened again, so only one connection is served.
        """
        self._watchdog.start()
        backoff = Backoff(random.random, most_s=RETRY_CAP_S)
        attempts = 0
        found_before = True
        while not self._stopping.is_set():
            began = time.monotonic()
            found, lost = True, None
            try:
                found = self._serve_one(attempts, on_configured)
            except (OSError, TransportLost, ProtocolError) as error:
                lost = error
            # a long wait for a missing runtime is not the runtime's fault: only its own faults count
            if (found and not found_before) or time.monotonic() - began > RETRY_CAP_S:
                backoff.succeeded()
            found_before = found
            pause_s = backoff.failed()
            if lost is not None:
                self._lost(lost, attempts, "" if once else f"; reconnecting in {pause_s:.1f} s")
            attempts += 1
            if once:
                return
            self._stopping.wait(pause_s)

    def stop(self) -> None:
        """End the loop and the connection."""
        self._stopping.set()
        self._watchdog.stop()
        self._connection.drop("stopping")

    def ended(self, seconds: float) -> bool:
        """Wait, after `stop`, until the present hook has written its last value; return False if it has not in time."""
        ended = self._acting.acquire(timeout=seconds)
        if ended:
            self._acting.release()
        return ended

    # ---- one connection ----

    def _serve_one(self, attempts: int, on_configured: OnConfigured) -> bool:
        """Serve one connection to its end, which is always an error; return False if nothing listens."""
        try:
            connected = self._connect()
        except OSError as error:
            if attempts == 0:
                self._report.log.warning("waiting for the runtime's NRI socket", error=str(error))
            return False
        with connected:
            session = Session(self._name, self._index)
            try:
                self._connection.open(connected, session)
                self._read(connected, _Reading(session, on_configured))
            finally:
                self._connection.close()
        return True

    def _read(self, connected: socket.socket, reading: "_Reading") -> None:
        while not self._stopping.is_set():
            self._take(_wait_for_bytes(connected), reading)

    def _take(self, data: bytes, reading: "_Reading") -> None:
        """Handle these bytes. Memory that this took is freed on return, not while the next hook waits."""
        read_at = time.monotonic()
        if not data:
            raise TransportLost("the runtime closed the connection")
        found = self._connection.receive(reading.session, data)
        with self._acting:
            for event in found:
                if self._stopping.is_set():
                    return  # nothing waits for the answer, and original values may be being restored
                self._dispatch(event, reading, read_at)

    def _dispatch(self, event: events.Event, reading: "_Reading", read_at: float) -> None:
        match event:
            case events.Hook():
                self._hooks.serve(event, self._connection, self._watchdog, read_at)
            case events.Configured():
                self._configure(event, reading)
            case events.Synchronize():
                self._synchronize(event, reading, read_at)
            case events.RegistrationRefused(message=message):
                raise TransportLost(f"the runtime refused the registration: {message}")
            case events.RuntimeAnswered():
                self._connection.answered(event)
            case events.Registered():
                return

    def _configure(self, configured: events.Configured, reading: "_Reading") -> None:
        reading.on_configured(configured)
        self._connection.configured(configured)
        nri = ".".join(map(str, configured.nri_version))
        runtime = f"{configured.runtime_name} {configured.runtime_version}"
        because = f"registered with the runtime: {runtime}, NRI {nri}"
        self._report.said(AuditEvent.RUNTIME_CONNECT, Reason.CONNECTED, because)

    def _synchronize(self, part: events.Synchronize, reading: "_Reading", read_at: float) -> None:
        """Take one part of the list. The last part is answered before any costly work.

        The runtime grants all parts two seconds together and holds its global lock meanwhile. A hook that follows the
        answer waits in the socket until the list has been placed.
        """
        listing = reading.whole_list(part, self._hooks.listing)
        if listing is None:
            return
        self._connection.answer(part.call, nri_pb2.SynchronizeResponse())
        answered_at = time.monotonic()
        self._place(listing)
        synchronized_at = self._connection.took_list()
        self._report.log.info(
            "synchronised",
            containers=len(listing.containers),
            pods=len(listing.pods),
            seconds=round(synchronized_at - read_at, 4),
            answered_after=round(answered_at - read_at, 4),
        )
        took, budget = answered_at - read_at, part.call.timeout_nano / 1e9
        if budget and took > budget and self._connection.late_list_is_fatal:
            raise TransportLost(
                f"Synchronize took {took:.2f} s of {budget:.2f} s: the runtime has dropped the connection silently"
            )

    def _place(self, listing: Listing) -> None:
        try:
            self._hooks.learn(listing)
        except (OSError, TransportLost, ProtocolError):
            raise
        except Exception as error:
            self._report.log.exception("Synchronize failed by an error in the plugin", exc_info=error)
            because = (
                f"the runtime's list of containers could not be placed, reconnecting to get it again: "
                f"error in the daemon: {type(error).__name__}: {error}"
            )
            self._report.said(AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, because)
            raise TransportLost("without the runtime's list no container can be placed") from error

    def _lost(self, error: Exception, attempts: int, then: str) -> None:
        if self._stopping.is_set():
            return
        self._report.log.warning("lost the runtime", error=str(error), attempt=attempts)
        self._report.said(
            AuditEvent.RUNTIME_LOST, Reason.LOST, f"connection to the runtime lost: {error}{then}"
        )


class _Reading:
    """The state of reading one connection.

    session: its protocol state.
    on_configured: called with its configuration.
    """

    def __init__(self, session: Session, on_configured: OnConfigured) -> None:
        self.session = session
        self.on_configured = on_configured
        self._listing: Listing | None = None

    def whole_list(self, part: events.Synchronize, empty: Callable[[], Listing]) -> Listing | None:
        """Add one part of a Synchronize; return the whole list with its last part, else None.

        empty: makes the list for a first part.
        """
        listing = self._listing or empty()
        listing.add(part)
        self._listing = listing if part.more else None
        return None if part.more else listing


def _wait_for_bytes(connection: socket.socket) -> bytes:
    sys.setswitchinterval(HOOK_FIRST_S)
    try:
        return connection.recv(READ_SIZE)
    finally:
        sys.setswitchinterval(UNDISTURBED_S)
