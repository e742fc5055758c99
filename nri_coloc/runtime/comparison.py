"""The check that Synchronize listed every container: its list is compared with the runtime's own CRI list.

Registration has holes: containerd may leave out containers that were in creation (containerd#13698). So the lists are
compared three seconds after each registration. The daemon is ready only when no container is missing. A container that
is missing twice in a row is recovered by a new connection, at most once a minute. CRI may be slow, so a thread of its
own asks it: the housekeeping loop never waits for it.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from math import inf
from threading import Thread
from typing import Final, Protocol

from nri_coloc.core.decisions import ContainerGone
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.texts import counted
from nri_coloc.errors import ColocError
from nri_coloc.placing.node import Node
from nri_coloc.runtime.connection import Connection

COMPARE_AFTER_S: Final = 3.0
COMPARE_AGAIN_S: Final = 15.0
"""Seconds between two comparisons. containerd sends no StopContainer after a failed start: its CPUs are returned after
this time."""

RETRY_S: Final = 2.0
RESYNCHRONISE_S: Final = 60.0
"""Seconds between two reconnects for missing containers: each can hold up the node's CRI calls (nri-protocol §6.3)."""

UNLISTED_FOR_S: Final = 10.0
"""Seconds for which a known container that CRI does not list counts as in creation; after that it is gone."""

ENDS_WITHIN_S: Final = 60.0
"""Seconds for which a busy runtime may list a container as running after it has reported its stop."""

LIVE: Final = ("created", "running")
EXITED: Final = "exited"


class Listing(Protocol):
    """The part of CRI that is used here: every container's state by id."""

    def states(self) -> Mapping[str, str]: ...


def in_background(work: Callable[[], None]) -> None:
    """Run work on a thread of its own."""
    Thread(target=work, name="compare", daemon=True).start()


class Comparison:
    """Compares the two lists when that is due, and keeps the result.

    spawn: runs work that may have to wait for CRI.

    Size: the memory of one comparison; each field is one reason to compare, to wait or to reconnect.
    """

    def __init__(
        self,
        node: Node,
        runtime: Connection,
        report: Report,
        *,
        listing: Listing,
        after: After,
        spawn: Callable[[Callable[[], None]], None] = in_background,
    ) -> None:
        self._spawn = spawn
        self._after = after
        self.detail = "not compared with CRI yet"
        self._node = node
        self._runtime = runtime
        self._report = report
        self._listing = listing
        self._asking = False
        self._asked: list[Future[str]] = []
        self._registration = 0.0
        self._compared_for = 0.0
        self._next_compare = 0.0
        self._resynchronised_at = 0.0
        self._unlisted: dict[str, float] = {}
        self._known_at: dict[str, float] = {}
        self._suspected: set[str] = set()

    def hasten(self, asked: "Future[str]") -> None:
        """Compare in the next poll; the future gets the problem found, "" for none. For the thread that polls."""
        self._asked.append(asked)

    def due_in(self, now: float) -> float:
        """Return the seconds until the next comparison; infinite while it runs, or while no registration is known."""
        if self._asking or not self._runtime.synchronized_at:
            return inf
        return max(0.0, self._next_compare - now)

    def poll(self, now: float) -> None:
        """Compare the lists if that is due; called every second or so, and when `due_in` is over."""
        synchronised_at = self._runtime.synchronized_at
        if not synchronised_at:
            self._compared_for, self.detail = 0.0, "the runtime has not sent its list"
            self._answer(self._asked)
            self._asked = []
            return
        if self._registration != synchronised_at:
            self._registration, self._next_compare = synchronised_at, synchronised_at + COMPARE_AFTER_S
            self._known_at = {}
        self._known_at = {**self._lately_known(now), **dict.fromkeys(self._node.state.containers, now)}
        # the first comparison of a registration never comes early: it makes the daemon ready
        asked = self._asked and now >= synchronised_at + COMPARE_AFTER_S
        if self._asking or not (asked or now >= self._next_compare):
            return
        self._asking, waiting, self._asked = True, self._asked, []
        self._next_compare = now + RETRY_S  # unless it says otherwise
        try:
            self._spawn(lambda: self._ask(synchronised_at, now, waiting))
        except RuntimeError:  # no further thread can be had: another turn may have one
            self._asking, self._asked = False, waiting
            raise

    def _ask(self, synchronised_at: float, now: float, waiting: "list[Future[str]]") -> None:
        try:
            self._compare(synchronised_at, now)
        finally:
            self._asking = False
            self._answer(waiting)

    def _answer(self, waiting: "list[Future[str]]") -> None:
        for asked in waiting:
            with suppress(InvalidStateError):  # the waiting caller was refused
                asked.set_result(self.detail)

    def _compare(self, synchronised_at: float, now: float) -> None:
        known = set(self._node.state.containers)
        try:
            states = self._listing.states()
        except ColocError as error:
            self.detail = f"cannot compare with CRI: {error}"
            self._next_compare = now + RETRY_S
            return
        live = {k for k, state in states.items() if state in LIVE}
        missing = live - known - set(self._node.state.containers) - self._known_at.keys()
        exited = {k for k in known if states.get(k) == EXITED}
        self._drop_vanished(exited | self._long_unlisted(known - states.keys(), now))
        self._next_compare = now + COMPARE_AGAIN_S
        suspected, self._suspected = self._suspected, missing
        if missing & suspected:
            self._missing(missing & suspected, now)
            return
        if missing:
            # it may just be ending: its StopContainer came before CRI changed its state. Compare again.
            lacking = counted(len(missing), "container")
            self.detail = f"the runtime's list lacks {lacking} of CRI's list; comparing again"
            self._next_compare = now + RETRY_S
            return
        if self._compared_for != synchronised_at:
            because = f"lists compared: all {len(live)} live containers of CRI are known"
            self._report.said(AuditEvent.RUNTIME_COMPARE, Reason.COMPLETE, because)
        self._compared_for, self.detail = synchronised_at, ""

    def _lately_known(self, now: float) -> dict[str, float]:
        """Return the containers known until lately under this registration: by id the last time, monotonic seconds.

        CRI may list a container as alive after its end was reported. Each poll computes this, because nothing is
        compared while CRI cannot be asked. The mapping is never changed in place, because the comparison reads it on
        another thread.
        """
        return {k: at for k, at in self._known_at.items() if now - at < ENDS_WITHIN_S}

    def _long_unlisted(self, unlisted: set[str], now: float) -> set[str]:
        """Return the containers that CRI has not listed for so long that they cannot be in creation any more."""
        self._unlisted = {k: self._unlisted.get(k, now) for k in unlisted}
        return {k for k, since in self._unlisted.items() if now - since >= UNLISTED_FOR_S}

    def _drop_vanished(self, gone: set[str]) -> None:
        for container_id in gone:
            before = self._node.state
            outcome = self._node.decide(ContainerGone(container_id, vanished=True))
            tell(self._after, all_of(outcome, before, ended=(container_id,)))  # no hook will report its end

    def _missing(self, missing: set[str], now: float) -> None:
        names = ", ".join(sorted(k[:12] for k in missing)[:5])
        self.detail = f"the runtime's list lacks {counted(len(missing), 'container')} of CRI's list: {names}"
        self._report.said(AuditEvent.RUNTIME_COMPARE, Reason.MISSING, f"lists compared: {self.detail}")
        self._next_compare = now + RETRY_S
        if now - self._resynchronised_at > RESYNCHRONISE_S or not self._resynchronised_at:
            self._resynchronised_at = now
            self._runtime.drop("containers were missing from Synchronize")

    @property
    def complete(self) -> bool:
        """Return whether the comparison found nothing missing since the present registration."""
        registered_at = self._runtime.synchronized_at
        return bool(registered_at) and self._compared_for == registered_at
