"""Carry out the eviction orders of all nodes (`eviction` and `rate` decide).

A pod that may be evicted (a dry run says so) gets the annotation `coloc.nri.io/evict-at` first, then the eviction.

The watch says which objects have open orders; each is then read again, so that an old copy repeats nothing. An eviction
that was accepted and whose result could not be written yet is kept, and only its result is tried again. After a restart
the pod itself answers: it is being deleted, or gone.
"""

import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock
from typing import Final

from nri_coloc.core.backoff import Backoff
from nri_coloc.core.evictions import Result
from nri_coloc.kubernetes import eviction, rate
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, ApiUnreachable, Object
from nri_coloc.kubernetes.eviction import Answer, Order, Rules, Step
from nri_coloc.kubernetes.watching import version_of

COLLECTION: Final = "/apis/coloc.nri.io/v1alpha1/colocationnodes"

SPACING_S: Final = 1.0
"""Seconds between two turns of one node, so that a node that writes all the time costs little."""

IDLE_S: Final = 1.0
"""Seconds after which a thread without work looks whether it should end."""

_DONE: Final = 201

Carried = Callable[[str, Order, Result], None]
"""Called with the node, the order and its result."""


class Executor:
    """A follower of the ColocationNodes, and the work of one thread, `run`."""

    def __init__(
        self,
        api: Api,
        *,
        rules: Callable[[], Rules],
        leads: Callable[[], bool],
        carried: Carried,
        broken: Callable[[str], None],
    ) -> None:
        self._api = api
        self._rules = rules
        self._leads = leads
        self._carried = carried
        self._broken = broken
        self._lock = Lock()
        self._due_s: dict[str, float] = {}
        self._served_s: dict[str, float] = {}
        self._wake = Event()
        self._rates = rate.Rates()
        self._results: dict[str, dict[str, Result]] = {}
        self._backoffs: dict[str, Backoff] = {}

    # ---- on the thread of the watch ----

    def replace(self, objects: Iterator[Object]) -> None:
        """Take the objects of a list."""
        for found in objects:
            self.take("ADDED", found)

    def take(self, kind: str, found: Object) -> None:
        """Note a node with open orders."""
        if kind != "DELETED" and _has_orders(found):
            self._note(str(found["metadata"]["name"]))

    def _note(self, node: str, wait_s: float = 0.0) -> None:
        now_s = time.monotonic()
        with self._lock:
            at_s = max(now_s + wait_s, self._served_s.get(node, 0.0) + SPACING_S)
            self._due_s.setdefault(node, at_s)
        self._wake.set()

    # ---- on the executor's own thread ----

    def run(self, stop: Event) -> None:
        """Carry out orders until `stop` is set."""
        while not stop.is_set():
            self._wake.clear()
            self._wake.wait(self.turn())

    def turn(self) -> float:
        """Carry out what is due now; return the seconds until the next work."""
        if not self._leads():
            return IDLE_S
        for node in self._due():
            self.serve(node)
        with self._lock:
            next_s = min(self._due_s.values(), default=float("inf"))
        return min(IDLE_S, max(0.0, next_s - time.monotonic()))

    def _due(self) -> list[str]:
        now_s = time.monotonic()
        with self._lock:
            return [node for node, due_s in self._due_s.items() if due_s <= now_s]

    def serve(self, node: str) -> None:
        """Carry out the orders of one node, and write their results."""
        with self._lock:
            self._due_s.pop(node, None)  # a change from now on makes it due again
            self._served_s[node] = time.monotonic()
        try:
            is_done = self._serve_object(node)
        except ApiError as error:
            is_done = isinstance(error, ApiRefused) and error.status == 404
            if not is_done:
                self._broken(str(error))
        except (
            ValueError
        ) as error:  # its next change makes it due again; results that are not written stay until then
            self._broken(f"ColocationNode {node} cannot be read: {error}")
            return
        except Exception as error:  # noqa: BLE001 - one node's problem: the orders of other nodes must be carried out
            self._broken(f"ColocationNode {node}: {type(error).__name__}: {error}")
            is_done = False
        if is_done:
            self._results.pop(node, None)
            self._backoffs.pop(node, None)
        else:
            self._note(node, self._backoffs.setdefault(node, Backoff(random.random, SPACING_S)).failed())

    def _serve_object(self, node: str) -> bool:
        """Return whether all orders have a written result."""
        found = self._api.get(f"{COLLECTION}/{node}")
        present = eviction.present(found)
        results = {key: each for key, each in self._results.get(node, {}).items() if key in present}
        self._results[node] = results
        open_orders = [each for each in eviction.orders(found) if each.id not in results]
        for order in open_orders:
            result = self._carry_out(node, order)
            if result is not None:
                results[order.id] = result
                self._carried(node, order, result)
        if results:
            written = {"results": eviction.status(found, list(results.values()))}
            body = {"metadata": {"resourceVersion": version_of(found)}, "status": written}
            self._api.merge(f"{COLLECTION}/{node}/status", body)
        is_done = all(order.id in results for order in open_orders)
        results.clear()
        return is_done

    def _carry_out(self, node: str, order: Order) -> Result | None:
        """Return the result of an order; None to try again."""
        if not self._leads():
            return None
        if time.time() >= order.expires_at:  # also where the pod cannot be read until then
            return eviction.expired(order)
        pod = self._pod(order)
        try:
            result = eviction.judge(order, pod, node, self._rules(), time.time())
            return self._evict(node, order) if result is None else result
        except ValueError as error:
            return eviction.unreadable(order, str(error))

    def _pod(self, order: Order) -> Object | None:
        try:
            return self._api.get(f"/api/v1/namespaces/{order.namespace}/pods/{order.name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    def _evict(self, node: str, order: Order) -> Result | None:
        taken = rate.take(self._rates, node, time.monotonic())
        if taken.whose:
            return eviction.too_many(order, taken.wait_s, taken.whose)
        path = f"/api/v1/namespaces/{order.namespace}/pods/{order.name}"
        evict = partial(self._api.create, f"{path}/eviction", eviction.request(order))
        notice = eviction.notice(order, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        calls: dict[Step, Callable[[], object]] = {
            Step.DRY_RUN: partial(evict, dryRun="All"),
            Step.NOTICE: partial(self._api.merge, f"{path}/status", notice),
            Step.EVICTION: evict,
        }
        for step, call in calls.items():
            answer = _answered(call)
            if not eviction.is_passed(step, answer):
                break
            self._rates = taken.rates  # a pod that stays after the dry run counts for no rate
        return eviction.result(order, answer)


def _answered(call: Callable[[], object]) -> Answer:
    """Return the answer to a request; status 0 for none."""
    try:
        call()
    except ApiRefused as error:
        return Answer(error.status, error.body, int(error.retry_after_s))
    except ApiUnreachable:
        return Answer(0, {})
    return Answer(_DONE, {})


def _has_orders(found: Object) -> bool:
    try:
        return bool(eviction.orders(found))
    except ValueError:
        return True  # the turn of the node reports it
