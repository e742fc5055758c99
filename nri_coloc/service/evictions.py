"""Take eviction orders from every part of the daemon, give them to the companion, and record orders and results.

The orders of a process end with it. A new daemon has none, so the companion removes the former ones, and the part that
still wants a pod to leave orders again. Ids are random, so that no result of a former order fits a new one.
"""

import secrets
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from nri_coloc.core import report
from nri_coloc.core.evictions import Closed, EvictionWish, Ordered, Outcome, Result
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.kubernetes import eviction_orders
from nri_coloc.kubernetes.eviction_orders import Book, Open, Turn
from nri_coloc.service.report import Report

NO_COMPANION: Final = "no companion is connected"
_REASONS: Final = {
    Outcome.ACCEPTED: Reason.ACCEPTED,
    Outcome.BUDGET: Reason.BUDGET,
    Outcome.GONE: Reason.GONE,
    Outcome.REFUSED: Reason.REFUSED,
    Outcome.UNREACHABLE: Reason.UNREACHABLE,
}


class EvictionOrders:
    """Implements `core.evictions.Evictions`, and the orders of the companion's connection; for every thread.

    may_evict: returns the switch `kubernetes.evict` in force.
    observes: returns whether the mode is `observe`.
    """

    def __init__(
        self, report: Report, *, may_evict: Callable[[], bool], observes: Callable[[], bool]
    ) -> None:
        self._report = report
        self._may_evict = may_evict
        self._observes = observes
        self._lock = Lock()
        self._book = Book()
        self._awaited: dict[str, Future[Result]] = {}
        self._companions = 0

    # ---- for the daemon's parts ----

    def impossible(self, *, by_operator: bool = False) -> str:
        """Return why no order can be given now, "" if one can."""
        if self._observes():
            return "mode observe changes nothing"
        if not (by_operator or self._may_evict()):
            return "kubernetes.evict is off"
        if not self._companions:
            return NO_COMPANION
        if len(self._book.open) >= eviction_orders.MOST_OPEN:
            return f"{eviction_orders.MOST_OPEN} eviction orders are open already"
        return ""

    def hindrance(self, wish: EvictionWish, now_s: float) -> str:
        """Return why a wish becomes no order now, "" if it may become one."""
        return self.impossible(by_operator=wish.by_operator) or eviction_orders.problem(
            self._book, wish, now_s
        )

    def order(self, wish: EvictionWish, now_s: float) -> Ordered:
        """Give an order and record it."""
        return self._order(wish, now_s, None)

    def order_awaited(self, wish: EvictionWish, now_s: float) -> tuple[Ordered, Future[Result]]:
        """Give an order that no earlier result holds back; return also its result to come."""
        result: Future[Result] = Future()
        return self._order(wish, now_s, result), result

    def withdraw(self, order_ids: Collection[str], why: str, now_s: float) -> None:
        """Close these orders, as far as they are open."""
        text = f"withdrawn before a result came: {why}"
        self.take_results(tuple(Result(each, Outcome.UNREACHABLE, text) for each in order_ids), now_s)

    def open(self, now_s: float) -> frozenset[str]:
        """Return the UIDs of pods that are to leave."""
        return eviction_orders.leaving(self._book, now_s)

    def last(self, pod_uid: str) -> Closed | None:
        """Return the end of the last order of a pod."""
        return self._book.closed.get(pod_uid)

    def look(self, now_s: float) -> None:
        """Close the orders whose time is over; for the main thread, each second."""
        self._close(lambda book: eviction_orders.without_expired(book, now_s))

    # ---- for the companion's connection ----

    def greeted(self) -> None:
        """Note that a companion is connected. Two are counted while a socket replaces another."""
        with self._lock:
            self._companions += 1

    def left(self) -> None:
        """Note the end of a companion's connection. Open orders stay: it may connect again before they expire."""
        with self._lock:
            self._companions -= 1

    def pending(self, now_s: float) -> tuple[Open, ...]:
        """Return the open orders."""
        return tuple(each for each in self._book.open if now_s < each.until_s)

    def take_results(self, results: tuple[Result, ...], now_s: float) -> None:
        """Close the orders that have a result."""
        self._close(lambda book: eviction_orders.with_results(book, results, now_s))

    # ---- how it is done ----

    def _order(self, wish: EvictionWish, now_s: float, awaited: "Future[Result] | None") -> Ordered:
        if refusal := self.impossible(by_operator=wish.by_operator):
            return Ordered(refusal=refusal)
        order_id = f"e{secrets.token_hex(8)}"
        with self._lock:
            if refusal := eviction_orders.problem(self._book, wish, now_s, again=awaited is not None):
                return Ordered(refusal=refusal)
            self._book = eviction_orders.ordered(self._book, order_id, wish, now_s)
            if awaited is not None:
                self._awaited[order_id] = awaited
        self._record(order_id, wish, wish.reason, f"eviction ordered: {wish.text}", _figures(wish))
        return Ordered(order_id)

    def _close(self, turn: Callable[[Book], Turn]) -> None:
        if not self._book.open:
            return
        with self._lock:
            self._book, closed = turn(self._book)
            awaited = [(each.result, self._awaited.pop(each.result.id, None)) for each in closed]
        for each in closed:
            self._record_result(each)
        for result, future in awaited:
            if future is not None:
                with suppress(Exception):  # the caller does not wait any more
                    future.set_result(result)

    def _record_result(self, closed: Closed) -> None:
        result = closed.result
        inputs = {
            "outcome": result.outcome.value,
            "detail": result.detail,
            "retry_after_s": result.retry_after_s or None,
            "by_operator": closed.wish.by_operator,
        }
        because = f"eviction {result.outcome}: {result.detail}"
        self._record(result.id, closed.wish, _REASONS[result.outcome], because, inputs)

    def _record(
        self, order_id: str, wish: EvictionWish, reason: Reason, text: str, inputs: dict[str, Any]
    ) -> None:
        origin = ("by_operator",) if wish.by_operator else ()
        because = report.sentence(text, inputs, (*origin, "retry_after_s"))
        self._report.said(
            AuditEvent.POD_EVICT,
            reason,
            because,
            decision_id=order_id,
            namespace=wish.namespace,
            pod=wish.name,
            pod_uid=wish.pod_uid,
            extra={"inputs": inputs},
        )


def _figures(wish: EvictionWish) -> dict[str, Any]:
    return {**wish.inputs, "by_operator": wish.by_operator, "expires_s": wish.expires_s, "text": wish.text}
