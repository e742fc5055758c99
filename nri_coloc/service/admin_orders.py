"""Orders from the admin socket, each carried out by the thread that owns the changed data.

Orders arrive on gRPC's threads. The main thread alone swaps settings, so it carries out reloads and pauses
(`settings_orders`) and comparisons in its next turn (`look`). Cgroups belong to the actuator. The caller waits, with a
bound, and gets an error at once when the daemon stops. Every order leaves a record, done or not.
"""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nri_coloc.core import report
from nri_coloc.core.durations import LONGEST_S
from nri_coloc.core.evictions import EvictionWish, Result
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import PodPlace
from nri_coloc.core.workload import QoSClass
from nri_coloc.errors import ColocError
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime.comparison import Comparison
from nri_coloc.service.admin_gate import Gate
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.orders import (
    LONGEST_PAUSE_S,
    LONGEST_REASON,
    Caller,
    Compared,
    LendingBegins,
    LendingEnds,
    OrderDeclined,
    OrderInvalid,
    OrderLate,
    Repaired,
)
from nri_coloc.service.report import Report
from nri_coloc.service.settings_orders import SettingsOrders

if TYPE_CHECKING:
    from nri_coloc.service.admin_calls import AdminServer


WAIT_S: Final = 30.0
"""Seconds that a caller waits for the outcome of an order. The main thread takes a turn every second, and CRI's list
takes ten at most."""

STRANGERS_EVERY_S: Final = 60.0
"""Seconds between two records of refused callers."""

EVICTION_S: Final = 25.0
"""Seconds after which an operator's eviction order expires, before its caller stops to wait."""

Outcome = TypeVar("Outcome")


class AdminOrders:
    """`look` is for the main thread, `stop` for any; all other methods may wait and are for gRPC's threads."""

    def __init__(
        self,
        node: Node,
        report: Report,
        *,
        settings: SettingsOrders,
        actuator: Actuator,
        comparison: Comparison,
        evictions: EvictionOrders,
    ) -> None:
        self._node = node
        self._report = report
        self._settings = settings
        self._actuator = actuator
        self._comparison = comparison
        self._evictions = evictions
        self._handed: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._waiting: set[Future[Any]] = set()
        self._stopped = False
        self._turn = Lock()
        self._repairing = Lock()
        self._strangers = 0
        self._stranger_told_at = float("-inf")

    # ---- the main thread ----

    def look(self, now: float) -> None:
        """Carry out the orders that were handed over, and end a pause whose time is over."""
        with suppress(Empty):
            while True:
                future, work = self._handed.get_nowait()
                if future.set_running_or_notify_cancel():
                    _fulfil(future, work)
        self._settings.look(now)

    def stop(self) -> None:
        """Decline all orders that wait, because the daemon stops."""
        with self._turn:
            self._stopped = True
            waiting = [*self._waiting]
        for future in waiting:
            future.cancel()
            with suppress(Exception):  # one that is done already, or was cancelled
                future.set_exception(OrderDeclined("the daemon stops"))

    # ---- the admin socket ----

    def turned_away(self, caller: Caller) -> None:
        """Record a refused caller, at most once a minute however many callers are refused."""
        self._strangers += 1
        now = time.monotonic()
        if now - self._stranger_told_at < STRANGERS_EVERY_S:
            return
        self._stranger_told_at = now
        rule = "only root and the daemon's user may call the admin socket"
        inputs = {"uid": caller.uid, "pid": caller.pid, "refused": self._strangers}
        because = report.sentence(f"caller refused: {rule}", inputs, inputs)
        self._report.said(AuditEvent.ADMIN_CALL, Reason.STRANGER, because, extra={"inputs": inputs})

    def pause_lending(self, caller: Caller, seconds: int, reason: str) -> str:
        """Pause lending and return the end of the pause, as described in `service.orders.Orders`."""
        asked = f"pause lending for {seconds} s{f' ({reason[:LONGEST_REASON]!r})' if reason else ''}"

        def work() -> str:
            _refuse_odd_pause(seconds, reason)
            return self._on_main(lambda: self._settings.pause(seconds, reason))

        return self._told(caller, asked, work, lambda until: f"until {until}")

    def resume_lending(self, caller: Caller) -> bool:
        """End a pause of lending; return whether there was one."""
        words = {True: "it was paused", False: "it was not paused"}
        return self._told(
            caller, "resume lending", lambda: self._on_main(self._settings.resume), lambda was: words[was]
        )

    def lending_off(self, caller: Caller, grace_s: int | None, *, drain: bool) -> LendingEnds:
        """Switch lending off, as described in `service.orders.Orders`."""
        grace = "default" if grace_s is None else f"{grace_s} s"
        asked = f"switch lending off (drain={'yes' if drain else 'no'}, grace={grace})"

        def work() -> LendingEnds:
            if grace_s is not None and grace_s > LONGEST_S:
                raise OrderInvalid(f"a grace lasts {LONGEST_S} seconds at most, not {grace_s}")
            ends = self._on_main(lambda: self._settings.switch_off(grace_s, drain=drain))
            outside = self._actuator.host_groups.members
            return ends._replace(not_kept=self._settings.keep(), outside=outside)

        return self._told(
            caller, asked, work, lambda ends: f"done, reclaimed pods={len(ends.running)}{_unkept(ends)}"
        )

    def lending_on(self, caller: Caller) -> LendingBegins:
        """Undo `lending_off`."""

        def work() -> LendingBegins:
            begins = self._on_main(self._settings.switch_on)
            return begins._replace(not_kept=self._settings.keep())

        was = {True: "it was off", False: "it was not off"}
        return self._told(
            caller, "switch lending on", work, lambda begins: f"{was[begins.was_off]}{_unkept(begins)}"
        )

    def reload(self, caller: Caller) -> str:
        """Read the configuration file again; return its problem, "" if it is valid and in force."""
        return self._told(
            caller,
            "reload",
            lambda: self._on_main(self._settings.reload),
            lambda problem: f"invalid: {problem}" if problem else "valid, in force",
        )

    def repair(self, caller: Caller) -> Repaired:
        """Have the actuator sweep all cgroups now; return the number checked and the repairs."""
        return self._told(
            caller,
            "repair",
            self._repair,
            lambda found: f"{found.looked_at} checked, {len(found.sentences)} repaired",
        )

    def compare(self, caller: Caller) -> Compared:
        """Have the runtime's list compared now; return whether it is complete, and the detail."""
        return self._told(
            caller, "compare", self._compare, lambda found: found.detail or "no container was missing"
        )

    def evict(self, caller: Caller, namespace: str, pod: str, reason: str) -> Result:
        """Order the eviction of a reclaimed pod; return its result."""

        def work() -> Result:
            if not reason.strip():
                raise OrderInvalid("an eviction needs a reason")
            _refuse_odd_reason(reason)
            return self._evict(namespace, pod, reason)

        return self._told(
            caller,
            f"evict {namespace[:63]}/{pod[:253]}",
            work,
            lambda result: f"{result.outcome}: {result.detail}",
        )

    # ---- how it is done ----

    def _repair(self) -> Repaired:
        if self._node.tuning.observe:
            raise OrderDeclined("mode observe changes nothing, so nothing is repaired")
        if not self._repairing.acquire(blocking=False):
            raise OrderDeclined("another repair is in progress")
        try:
            with self._report.overhearing() as sentences:
                looked_at = self._outcome(self._actuator.sweep_soon())
            return Repaired(looked_at, tuple(sentences))
        finally:
            self._repairing.release()

    def _compare(self) -> Compared:
        asked: Future[str] = Future()
        self._on_main(lambda: self._comparison.hasten(asked))
        detail = self._outcome(asked)
        return Compared(not detail, detail)

    def _evict(self, namespace: str, pod: str, reason: str) -> Result:
        place = self._reclaimed(namespace, pod)
        wish = EvictionWish(
            pod_uid=place.pod.uid,
            namespace=namespace,
            name=pod,
            reason=Reason.OPERATOR,
            text=reason,
            by_operator=True,
            expires_s=EVICTION_S,
        )
        ordered, result = self._evictions.order_awaited(wish, time.monotonic())
        if ordered.refusal:
            remedy = f"`kubectl delete pod -n {namespace} {pod}` ends the pod without the companion"
            raise OrderDeclined(f"{ordered.refusal}; {remedy}")
        try:
            return self._outcome(result)
        except OrderDeclined as error:
            raise OrderLate(f"{error}; the pod may be evicted all the same") from None

    def _reclaimed(self, namespace: str, pod: str) -> PodPlace:
        """Return the newest pod of a name; raise OrderDeclined if none has it, or if it is not reclaimed."""
        name = f"{namespace}/{pod}"
        found = [
            each
            for each in self._node.state.pods.values()
            if (each.pod.namespace, each.pod.name) == (namespace, pod)
        ]
        if not found:
            unheard = "" if self._node.told else "; the runtime has not sent its list of pods yet"
            raise OrderDeclined(f"no pod {name} on this node{unheard}")
        qos = found[-1].wish.qos
        if qos is not QoSClass.RECLAIMED:
            raise OrderDeclined(f"pod {name} has class {qos}; only reclaimed pods are evicted")
        return found[-1]

    def _on_main(self, work: Callable[[], Outcome]) -> Outcome:
        future: Future[Outcome] = Future()
        self._handed.put((future, work))
        return self._outcome(future)

    def _outcome(self, future: "Future[Outcome]") -> Outcome:
        """Return the outcome of an order; an order that has not begun within `WAIT_S` is cancelled."""
        with self._turn:
            if self._stopped:
                raise OrderDeclined("the daemon stops")
            self._waiting.add(future)
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            undone = future.cancel()
            raise OrderLate(
                f"not done within {WAIT_S:g} s{'' if undone else ', and still being done'}"
            ) from None
        except CancelledError:
            raise OrderDeclined("the daemon stops") from None
        finally:
            self._waiting.discard(future)

    def _told(
        self, caller: Caller, asked: str, work: Callable[[], Outcome], words: Callable[[Outcome], str]
    ) -> Outcome:
        """Carry out an order and record its result."""
        try:
            result = work()
        except ColocError as error:
            self._say(caller, Reason.DECLINED, asked, str(error))
            raise
        except Exception as error:
            self._report.log.exception("an order over the admin socket failed", asked=asked, exc_info=error)
            self._say(caller, Reason.INTERNAL_ERROR, asked, "failed inside")
            raise
        self._say(caller, Reason.OPERATOR, asked, words(result))
        return result

    def _say(self, caller: Caller, reason: Reason, asked: str, result: str) -> None:
        inputs = {"uid": caller.uid, "pid": caller.pid, "order": asked, "result": result}
        because = report.sentence(f"{asked}: {result}", inputs, ("uid", "pid"))
        self._report.said(AuditEvent.ADMIN_CALL, reason, because, extra={"inputs": inputs})


def _unkept(result: LendingEnds | LendingBegins) -> str:
    return f", not stored: {result.not_kept}" if result.not_kept else ""


class AdminSide:
    """The admin socket and its orders, served by the main thread; the first `look` creates the socket.

    The daemon runs without a socket, too: the problem is logged and shown by `/readyz`, and creation is tried again.
    """

    def __init__(self, path: str, orders: AdminOrders, report: Report) -> None:
        self._orders = orders
        self._report = report
        self._gate = Gate(path, self._make, orders.turned_away, report.log.warning)

    @property
    def problem(self) -> str:
        """Return why there is no socket, "" while there is one."""
        return self._gate.problem

    def look(self, now: float) -> None:
        """Keep the socket in its place, and carry out orders."""
        self._gate.look()
        self._orders.look(now)

    def close(self) -> None:
        """Decline the orders that wait, and remove the socket."""
        self._orders.stop()
        self._gate.close()

    def _make(self, path: str, caller_of: Callable[[str], Caller | None]) -> "AdminServer":
        from nri_coloc.service.admin_calls import AdminServer  # grpc, at the first connection

        return AdminServer(path, self._orders, caller_of, self._report.log.error)


def _fulfil(future: "Future[Any]", work: Callable[[], Any]) -> None:
    try:
        outcome = work()
    except Exception as error:  # noqa: BLE001 - the waiting caller gets the error, and the loop goes on
        with suppress(Exception):
            future.set_exception(error)
        return
    with suppress(Exception):  # the waiting caller was refused already
        future.set_result(outcome)


def _refuse_odd_pause(seconds: int, reason: str) -> None:
    if not 1 <= seconds <= LONGEST_PAUSE_S:
        raise OrderInvalid(f"a pause lasts 1 to {LONGEST_PAUSE_S} seconds, not {seconds}")
    _refuse_odd_reason(reason)


def _refuse_odd_reason(reason: str) -> None:
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise OrderInvalid(f"a reason has at most {LONGEST_REASON} characters, all printable")
