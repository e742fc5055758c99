"""Carry out the eviction orders of all nodes (`eviction` and `rate` decide).

A pod that may be evicted (a dry run says so) gets the annotation `coloc.nri.io/evict-at`, and is evicted at that time.
Notices are kept in memory, because the annotation may be the author's. Another leader gives a later notice of its own.
A notice is withdrawn if the pod stays, or if its order drops out of the object. A withdrawal without an answer is tried
again with the next turn of the node.

The watch says which objects have open orders; each is then read again, so that an old copy repeats nothing. An eviction
that was accepted and whose result could not be written yet is kept, and only its result is tried again. After a restart
the pod itself answers: it is being deleted, or gone.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from threading import Event, Lock
from typing import Final, NamedTuple

from nri_coloc.core.backoff import Backoff
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.kubernetes import eviction, objects, rate
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, ApiUnreachable, Object
from nri_coloc.kubernetes.eviction import Answer, Order, OrderKey, Rules, Step
from nri_coloc.kubernetes.rate import Rates, Taken
from nri_coloc.kubernetes.watching import Problems, version_of

COLLECTION: Final = "/apis/coloc.nri.io/v1alpha1/colocationnodes"

SPACING_S: Final = 1.0
"""Seconds between two turns of one node, so that a node that writes all the time costs little."""

IDLE_S: Final = 1.0
"""Seconds after which a thread without work looks whether it should end."""

_LONGEST_NAME: Final = 253
_STAYS: Final = (Outcome.BUDGET, Outcome.REFUSED, Outcome.UNREACHABLE)
"""Outcomes after which the pod stays, so that its notice is withdrawn."""

Carried = Callable[[str, Order, Result], None]
"""Called with the node, the order and its result."""


class Notice(NamedTuple):
    """A notice that a pod has.

    at_s: monotonic time of the eviction, in seconds.
    """

    order: Order
    at_s: float


class Pauses:
    """The pauses after failed turns: of each node by itself, and of all while the API server is busy or away.

    resume_s: monotonic time from which any node may have its turn.
    """

    def __init__(self) -> None:
        self.resume_s = 0.0
        self._of_all = Backoff(random.random)
        self._of_nodes: dict[str, Backoff] = {}
        self._asked_s = 0.0
        self._is_busy = False

    def begin(self) -> None:
        """Begin the turn of a node."""
        self._asked_s, self._is_busy = 0.0, False

    def failed(self, asked_s: float, *, is_busy: bool) -> None:
        """Note a failed request of the turn.

        asked_s: seconds that the API server asks to wait; 0 for none.
        is_busy: the reason concerns all nodes.
        """
        self._asked_s = max(self._asked_s, asked_s)
        self._is_busy = self._is_busy or is_busy

    def end(self, node: str, *, is_done: bool) -> float:
        """End the turn of a node; return the seconds until its next one, 0 if its orders are done."""
        if self._is_busy:
            self.resume_s = time.monotonic() + self._of_all.failed(self._asked_s)
        else:
            self._of_all.succeeded()
        if is_done:
            self._of_nodes.pop(node, None)
            return 0.0
        return self._of_nodes.setdefault(node, Backoff(random.random, SPACING_S)).failed(self._asked_s)


class Executor:
    """A follower of the ColocationNodes, and the work of one thread, `run`."""

    def __init__(
        self,
        api: Api,
        *,
        rules: Callable[[], Rules],
        leads: Callable[[], bool],
        carried: Carried,
        problems: Problems,
    ) -> None:
        self._api = api
        self._rules = rules
        self._leads = leads
        self._carried = carried
        self._problems = problems
        self._lock = Lock()
        self._due_s: dict[str, float] = {}
        self._served_s: dict[str, float] = {}
        self._wake = Event()
        self._rates = Rates()
        self._results: dict[str, dict[OrderKey, Result]] = {}
        self._notices: dict[str, dict[OrderKey, Notice]] = {}
        self._withdrawals: dict[str, dict[str, Order]] = {}  # by UID of the pod
        self._counted: dict[str, set[OrderKey]] = {}
        self._pauses = Pauses()

    # ---- on the thread of the watch ----

    def replace(self, listed: Iterator[Object]) -> None:
        """Take the objects of a list."""
        for found in listed:
            try:
                self.take("ADDED", found)
            except ValueError as error:
                self._problems.unreadable.found(found, error)

    def take(self, kind: str, found: Object) -> None:
        """Note a node with open orders, with notices whose orders may have dropped out, or with open withdrawals.

        Raise ValueError if the object has no name.
        """
        node = objects.text(objects.child(found, "metadata"), "name", _LONGEST_NAME)
        if not objects.is_name(node):
            raise ValueError(f"metadata.name: {node!r} is not a name")
        has_notices = self._notices.get(node) or self._withdrawals.get(node)
        if (kind != "DELETED" and _has_orders(found)) or has_notices:
            self._note(node)
        elif not self._leads():
            # the leader has carried them out: as the next one, this replica would ask for each
            with self._lock:
                self._due_s.pop(node, None)

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
        """Carry out what is due now; return the seconds until the next work.

        An API server that is busy or away ends the turn: it would get a request for each node that is due.
        """
        if not self._leads():
            return IDLE_S
        for node in self._due():
            if time.monotonic() < self._pauses.resume_s or not self._leads():
                break
            self.serve(node)
        with self._lock:
            next_s = min(self._due_s.values(), default=float("inf"))
        return min(IDLE_S, max(0.0, max(next_s, self._pauses.resume_s) - time.monotonic()))

    def _due(self) -> list[str]:
        """Return the nodes with work: a change, or a notice whose time has come. A node that failed waits first."""
        now_s = time.monotonic()
        with self._lock:
            noted = dict(self._due_s)
            self._served_s = {node: at_s for node, at_s in self._served_s.items() if now_s - at_s < SPACING_S}
        ends = {
            node: min(each.at_s for each in given.values()) for node, given in self._notices.items() if given
        }
        return [node for node, due_s in (ends | noted).items() if due_s <= now_s]

    def serve(self, node: str) -> None:
        """Carry out the orders of one node, and write their results."""
        with self._lock:
            self._due_s.pop(node, None)  # a change from now on makes it due again
            self._served_s[node] = time.monotonic()
        self._pauses.begin()
        try:
            is_done = self._serve_object(node)
        except ApiError as error:
            status = error.status if isinstance(error, ApiRefused) else 0
            asked_s = error.retry_after_s if isinstance(error, ApiRefused) else 0.0
            self._pauses.failed(
                asked_s, is_busy=isinstance(error, ApiUnreachable) or status == HTTPStatus.TOO_MANY_REQUESTS
            )
            is_done = False
            if status == HTTPStatus.NOT_FOUND:
                self._keep_notices(node, [])
                is_done = not self._withdrawals.get(node)
            else:
                self._problems.broken(str(error))
        except ValueError as error:
            # The next change of this object makes it due again; results that are not written stay until then.
            self._problems.broken(f"ColocationNode {node} cannot be read: {error}")
            self._keep_notices(node, [])
            if not self._withdrawals.get(node):
                return
            is_done = False
        except Exception as error:  # noqa: BLE001 - one node's problem: the orders of other nodes must be carried out
            self._problems.broken(f"ColocationNode {node}: {type(error).__name__}: {error}")
            is_done = False
        pause_s = self._pauses.end(node, is_done=is_done)
        if is_done:
            self._results.pop(node, None)
            if not self._notices.get(node):  # names of nodes that are gone would fill the memory
                self._notices.pop(node, None)
                self._counted.pop(node, None)
        else:
            self._note(node, pause_s)

    def _serve_object(self, node: str) -> bool:
        """Return whether no withdrawal is open, and each order has a written result or waits for its notice's time."""
        found = self._api.get(f"{COLLECTION}/{node}")
        present = eviction.present(found)
        results = {key: each for key, each in self._results.get(node, {}).items() if key in present}
        self._results[node] = results
        open_orders = [each for each in eviction.orders(found) if each.key not in results]
        notices = self._keep_notices(node, open_orders)
        self._counted[node] = {each.key for each in open_orders} & self._counted.get(node, set())
        for order in open_orders:
            result = self._carry_out(node, order)
            if result is not None:
                results[order.key] = result
                self._carried(node, order, result)
                notice = notices.pop(order.key, None)
                if notice is not None and result.outcome in _STAYS:
                    self._withdraw(node, notice.order)
        if results:
            written = {"results": eviction.status(found, results)}
            body = {"metadata": {"resourceVersion": version_of(found)}, "status": written}
            self._api.merge(f"{COLLECTION}/{node}/status", body)
        now_s = time.monotonic()
        is_done = all(each.key in results or _waits(notices.get(each.key), now_s) for each in open_orders)
        results.clear()
        return is_done and not self._withdrawals.get(node)

    def _carry_out(self, node: str, order: Order) -> Result | None:
        """Return the result of an order; None to try again."""
        if not self._leads():
            return None
        if order.problem:
            return eviction.unreadable_order(order)
        if self._api.now() >= order.expires_at:  # also where the pod cannot be read until then
            return eviction.expired(order)
        pod = self._pod(order)
        try:
            result = eviction.judge(order, pod, node, self._rules(), self._api.now())
            return self._evict(node, order) if result is None else result
        except ValueError as error:
            return eviction.unreadable(order, str(error))

    def _pod(self, order: Order) -> Object | None:
        try:
            return self._api.get(f"/api/v1/namespaces/{order.namespace}/pods/{order.name}")
        except ApiRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _evict(self, node: str, order: Order) -> Result | None:
        """Give notice once, and evict at its time; None to try again."""
        notices = self._notices[node]
        if order.key not in notices:
            is_counted = order.key in self._counted[node]
            taken = Taken(self._rates) if is_counted else rate.take(self._rates, node, time.monotonic())
            if taken.whose:
                return eviction.too_many(order, taken.wait_s, taken.whose)
            wait_s = eviction.notice_s(order, self._api.now())
            passed, problem = self._give_notice(order, wait_s)
            if Step.DRY_RUN in passed:  # a pod that stays after the dry run counts for no rate
                self._rates = taken.rates
                self._counted[node].add(order.key)
            if problem is not None:
                return self._result(order, problem)
            notices[order.key] = Notice(order, time.monotonic() + wait_s)
        if _waits(notices[order.key], time.monotonic()):
            return None
        return self._result(order, _answered(partial(self._api.create, *_eviction(order))))

    def _result(self, order: Order, answer: Answer) -> Result | None:
        """Return the result of an answer; None to try again, after the wait that the API server asks for."""
        found = eviction.result(order, answer)
        if found is None:
            self._pauses.failed(answer.retry_after_s, is_busy=answer.status == HTTPStatus.TOO_MANY_REQUESTS)
        return found

    def _give_notice(self, order: Order, wait_s: float) -> tuple[list[Step], Answer | None]:
        """Write the notice; return the passed steps, and the answer that prevents the eviction, None for none."""
        at = datetime.fromtimestamp(self._api.now() + wait_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        calls: dict[Step, Callable[[], object]] = {
            Step.DRY_RUN: partial(self._api.create, *_eviction(order), dryRun="All"),
            Step.NOTICE: partial(self._api.merge, _status(order), eviction.notice(order, at)),
        }
        passed: list[Step] = []
        for step, call in calls.items():
            answer = _answered(call)
            if not eviction.is_passed(step, answer, wait_s):
                return passed, answer
            passed.append(step)
        return passed, None

    def _keep_notices(self, node: str, orders: list[Order]) -> dict[OrderKey, Notice]:
        """Return the notices of these orders, and withdraw all other notices of the node."""
        given = self._notices.get(node, {})
        keys = {each.key for each in orders}
        kept = {key: notice for key, notice in given.items() if key in keys}
        self._notices[node] = kept
        uids = {uid for _, uid in kept}
        dropped = (notice.order for key, notice in given.items() if key not in kept)
        for uid, order in (self._withdrawals.pop(node, {}) | {each.uid: each for each in dropped}).items():
            if uid not in uids:  # one pod may have notices of two orders
                self._withdraw(node, order)
        return kept

    def _withdraw(self, node: str, order: Order) -> None:
        """Remove the notice of a pod that stays; without an answer keep the order for the next turn.

        A pod that cannot be written keeps its notice, and so do the oldest of too many pods of a node.
        """
        answer = Answer(0, {})
        with suppress(ApiError):  # an answer that cannot be read
            answer = _answered(partial(self._api.merge, _status(order), eviction.notice(order, None)))
        if not eviction.is_withdrawn(answer):
            pending = self._withdrawals.get(node, {}) | {order.uid: order}
            self._withdrawals[node] = dict([*pending.items()][-eviction.MOST_ORDERS :])
            self._pauses.failed(answer.retry_after_s, is_busy=answer.status == HTTPStatus.TOO_MANY_REQUESTS)


def _waits(notice: Notice | None, now_s: float) -> bool:
    return notice is not None and now_s < notice.at_s


def _status(order: Order) -> str:
    return f"/api/v1/namespaces/{order.namespace}/pods/{order.name}/status"


def _eviction(order: Order) -> tuple[str, Object]:
    """Return path and body of an eviction."""
    return f"/api/v1/namespaces/{order.namespace}/pods/{order.name}/eviction", eviction.request(order)


def _answered(call: Callable[[], object]) -> Answer:
    """Return the answer to a request; status 0 for none."""
    try:
        call()
    except ApiRefused as error:
        return Answer(error.status, error.body, int(error.retry_after_s))
    except ApiUnreachable:
        return Answer(0, {})
    return Answer(HTTPStatus.CREATED, {})


def _has_orders(found: Object) -> bool:
    try:
        return bool(eviction.orders(found))
    except ValueError:
        return True  # the turn of the node reports it
