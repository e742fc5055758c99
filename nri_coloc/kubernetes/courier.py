"""Carry the daemon's eviction orders into the node's ColocationNode, and the controller's results back.

The object is the only memory. Each write replaces the whole list `spec.evictions` by the orders that the daemon has now
and returns the object with its results, so a restart of companion or daemon loses nothing and leaves no former order.
The companion has no right to read ColocationNodes, because that right could not be limited to its own node.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from math import inf
from random import random
from typing import Any, Final, NamedTuple

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.backoff import Backoff
from nri_coloc.core.evictions import LONGEST_TEXT, Outcome, Result
from nri_coloc.core.texts import plain
from nri_coloc.kubernetes import objects
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, Object
from nri_coloc.kubernetes.colocation_node import ColocationNode, problem
from nri_coloc.kubernetes.eviction_orders import MOST_OPEN

POLL_S: Final = 1.0
"""Seconds between two reads of the results, in the first `QUICK_S` after the orders changed."""

SLOW_POLL_S: Final = 5.0
QUICK_S: Final = 10.0
MARGIN_S: Final = 5.0
"""Seconds by which an order ends earlier for the controller than for the daemon, so that its last result arrives."""

CLOCK_S: Final = 2.0
"""Seconds by which the API server's clock, as this process knows it, may be another one without a change. A header Date
has whole seconds, and an answer takes time."""

GIVE_UP_S: Final = 3.0
"""Seconds after an order's end in which its result may still come."""

_ENTRY: Final = re.compile(r"spec\.evictions\[([0-9]{1,3})\]")
"""The field of an invalid entry, in the causes of the API server's answer."""

_LONGEST_ID: Final = 64
_LONGEST_RETRY_S: Final = 3600
_REFUSED: Final = "the API server calls the order invalid"


class Entry(NamedTuple):
    """An order as an entry of `spec.evictions`. `ends_s`: its end for the controller, monotonic seconds."""

    id: str
    body: Mapping[str, Any]
    ends_s: float


def entries(told: Iterable[pb.Order], now_s: float) -> tuple[Entry, ...]:
    """Return the orders of an answer of the daemon. An order of an unknown kind is left out, and expires."""
    found = [each for each in told if each.HasField("eviction")][:MOST_OPEN]
    return tuple(Entry(each.id, _body(each), now_s + each.expires_s - MARGIN_S) for each in found)


def _body(order: pb.Order) -> dict[str, Any]:
    eviction = order.eviction
    return {
        "id": order.id,
        "namespace": eviction.namespace,
        "name": eviction.pod,
        "uid": eviction.uid,
        "reason": eviction.reason,
        "text": eviction.text,
        "byOperator": eviction.by_operator,
    }


def results(found: Object, ids: Iterable[str]) -> dict[str, Result]:
    """Return the readable results of some orders in a ColocationNode."""
    listed = objects.children(objects.child(found, "status"), "results")
    read = [result for each in listed if (result := _result(each)) is not None]
    return {each.id: each for each in read if each.id in set(ids)}


def _result(entry: Mapping[str, Any]) -> Result | None:
    try:
        return Result(
            objects.text(entry, "id", _LONGEST_ID),
            Outcome(objects.text(entry, "outcome", _LONGEST_ID)),
            plain(objects.text(entry, "detail", LONGEST_TEXT)),
            objects.integer(entry, "retryAfterSeconds", 0, _LONGEST_RETRY_S),
        )
    except ValueError:
        return None


def invalid(error: Exception, orders: Sequence[Entry]) -> dict[str, Result]:
    """Return the result of each written order that the API server calls invalid; none for another error."""
    if not isinstance(error, ApiRefused) or error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
        return {}
    try:
        causes = objects.children(objects.child(error.body, "details"), "causes")
    except ValueError:
        return {}
    named = [(_ENTRY.match(str(each.get("field"))), each.get("message")) for each in causes]
    found = [(orders[int(entry[1])].id, why) for entry, why in named if entry and int(entry[1]) < len(orders)]
    return {key: Result(key, Outcome.REFUSED, _detail(f"{_REFUSED}: {why}")) for key, why in found}


def _detail(text: str) -> str:
    return plain(text[:LONGEST_TEXT])


class Courier:
    """The orders of one node. `turn` belongs to one thread, and may wait for the API server.

    problem: why the last write failed, "" if it succeeded.
    """

    def __init__(self, api: Api, object_: ColocationNode) -> None:
        self.problem = ""
        self._api = api
        self._object = object_
        self._ends: dict[str, float] = {}
        self._expire_at: dict[str, float] = {}
        self._results: dict[str, Result] = {}
        self._invalid: set[str] = set()
        self._written: frozenset[str] | None = None
        self._wanted: frozenset[str] = frozenset()
        self._changed_s = 0.0
        self._next_s = 0.0
        self._retry_s = 0.0
        self._backoff = Backoff(random)

    def turn(self, orders: tuple[Entry, ...], now_s: float) -> dict[str, Result]:
        """Write the orders if they changed, read results if some are missing; return the results of these orders.

        now_s: monotonic seconds.
        """
        ids = frozenset(each.id for each in orders)
        self._ends = {each.id: self._ends.get(each.id, each.ends_s) for each in orders}
        self._expire_at = {key: at for key, at in self._expire_at.items() if key in ids}
        self._results = {key: each for key, each in self._results.items() if key in ids}
        self._invalid &= ids
        if ids != self._wanted:
            self._wanted, self._changed_s, self._next_s = ids, now_s, now_s
        if self._is_due(now_s):
            self._exchange(orders, now_s)
        self._give_up(now_s)
        return dict(self._results)

    def _is_due(self, now_s: float) -> bool:
        is_written = self._written == self._wanted
        has_results = self._wanted <= self._results.keys()
        return not (is_written and has_results) and now_s >= max(self._next_s, self._retry_s)

    def _exchange(self, orders: tuple[Entry, ...], now_s: float) -> None:
        written = [each for each in orders if each.id not in self._invalid]
        try:
            evictions = [self._entry(each, now_s) for each in written]
            found = self._object.write({"evictions": evictions}, creates=bool(evictions))
            self._results |= results(found, self._wanted)
        except (ApiError, ValueError) as error:
            self.problem = problem(error)
            if found := invalid(error, written):  # the next turn writes the others
                self._results |= found
                self._invalid |= found.keys()
                return
            at_least_s = error.retry_after_s if isinstance(error, ApiRefused) else 0.0
            self._retry_s = now_s + self._backoff.failed(at_least_s)
            return
        self._written, self.problem = self._wanted, ""
        self._backoff.succeeded()
        self._next_s = now_s + (POLL_S if now_s - self._changed_s < QUICK_S else SLOW_POLL_S)

    def _entry(self, order: Entry, now_s: float) -> dict[str, Any]:
        """Return the entry. Its end is a time of the API server's clock, which the controller knows too.

        It stays until that clock is set. A write that changes nothing is not stored, and no controller sees it.
        """
        ends_at = self._api.now() + self._ends[order.id] - now_s
        if abs(ends_at - self._expire_at.get(order.id, -inf)) > CLOCK_S:
            self._expire_at[order.id] = ends_at
        expires_at = datetime.fromtimestamp(self._expire_at[order.id], UTC)
        return {**order.body, "expiresAt": expires_at.isoformat(timespec="seconds")}

    def _give_up(self, now_s: float) -> None:
        """Give the result `unreachable` to orders whose time is over."""
        why = self.problem or "the controller gave no result; does it run, and lead?"
        for key, ends_s in self._ends.items():
            if key not in self._results and now_s >= ends_s + GIVE_UP_S:
                self._results[key] = Result(key, Outcome.UNREACHABLE, _detail(f"the order expired: {why}"))
