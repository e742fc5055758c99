"""Decide which eviction orders the controller carries out, and which result an order has.

A companion writes an order to the ColocationNode of its node. A companion may be stolen, so an order proves nothing:
the controller checks each claim against the pod's own object. The flag `byOperator` comes from the companion too. It
overrides the switch `kubernetes.evict` and the annotation `avoidance`, but not class, rate or PodDisruptionBudget.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import MAX_BYTES, PREFIX, Pod, QoSClass
from nri_coloc.kubernetes import objects, requests
from nri_coloc.pods import annotations
from nri_coloc.pods.keys import EVICT_AT

MOST_ORDERS: Final = 16
"""Open orders of one node, as in api/cluster/v1/cluster.proto."""

LONGEST_DETAIL: Final = 200

NOTICE_S: Final[Mapping[str, float]] = {Reason.SCHEDULE: 30.0, Reason.CPU_STARVED: 30.0}
"""Seconds from the notice to the eviction by the reason of an order. With other reasons an online pod is hurt, a
disk fills, or an operator waits: the eviction follows at once."""

LEAST_S: Final = 10.0
"""Seconds of an order that a notice leaves for the eviction and its result."""

EVICTED: Final = "the API server accepted the eviction"
"""The detail of an order that was carried out."""

_LONGEST_ID: Final = 64
_LONGEST_NAMESPACE: Final = 63
_LONGEST_NAME: Final = 253
_LONGEST_CONTAINER: Final = 63
_LONGEST_TIME: Final = 64
_LONGEST_REASON: Final = 63
_LONGEST_RETRY_S: Final = 3600
_LONGEST_MESSAGE: Final = 1 << 20
_DONE: Final = (HTTPStatus.OK, HTTPStatus.CREATED)
_CHANGED: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""Statuses of a pod that is gone, has another UID or changed meanwhile."""

_NO_NOTICE: Final = (400, 403, 413, 422)
"""Statuses of a notice that can never be written: the pod's author can cause them."""

_NO_REASON: Final = "a PodDisruptionBudget allows no eviction now"

_KINDS: Final = ("container", "initContainer", "ephemeralContainer")

_MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a static pod's object. The kubelet creates such a pod again at once."""


OrderKey = tuple[str, str]
"""Id and UID of the pod: with another pod, an entry of the same id is another order."""


class Order(NamedTuple):
    """One entry of `spec.evictions` of a ColocationNode.

    expires_at: seconds since 1970 of the API server's clock.
    by_operator: an operator ordered it at the node.
    reason: code of the daemon's audit; any text of a stolen companion.
    problem: why the entry cannot be read, "" if it can; all fields but id and UID are then empty.
    """

    id: str
    namespace: str
    name: str
    uid: str
    expires_at: float
    by_operator: bool = False
    reason: str = ""
    problem: str = ""

    @property
    def key(self) -> OrderKey:
        return self.id, self.uid


class Answer(NamedTuple):
    """The API server's answer to a request; status 0 if none came.

    body: the object of the answer, usually a Status.
    retry_after_s: header Retry-After; 0 without it.
    """

    status: int
    body: Mapping[str, Any]
    retry_after_s: int = 0


class Step(Enum):
    """The requests before an eviction, in their order. A pod that stays after the dry run gets no notice."""

    DRY_RUN = auto()
    NOTICE = auto()


class Rules(NamedTuple):
    """The operator's settings that decide whether an order is carried out.

    may_evict: the switch `kubernetes.evict`.
    tuning: the rules from which the class of a pod is computed.
    """

    may_evict: bool
    tuning: Tuning


# --- orders ---------------------------------------------------------------------------------------------


def orders(colocation_node: Mapping[str, Any]) -> list[Order]:
    """Return the orders of a ColocationNode without a result; raise ValueError if it has no list of them.

    An entry that cannot be read is an order with a problem, so that it costs no other order.
    """
    done = {_text(each, "id") for each in _results(colocation_node)}
    return [each for each in map(_order, _entries(colocation_node)) if each.id not in done]


def present(colocation_node: Mapping[str, Any]) -> set[OrderKey]:
    """Return the keys of all orders of a ColocationNode."""
    return {_order(each).key for each in _entries(colocation_node)}


def _entries(colocation_node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _list(colocation_node, "spec", "evictions")[:MOST_ORDERS]


def _results(colocation_node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _list(colocation_node, "status", "results")


def _list(colocation_node: Mapping[str, Any], part: str, key: str) -> list[Mapping[str, Any]]:
    """Return a list of objects; an entry of another shape counts as an object without fields."""
    found = objects.child(colocation_node, part).get(key)
    if found is not None and not isinstance(found, list):
        raise objects.UnreadableError(f"{part}.{key}: is not a list")
    return [each if isinstance(each, dict) else {} for each in found or ()]


def _order(entry: Mapping[str, Any]) -> Order:
    order_id, uid = _text(entry, "id"), _text(entry, "uid")
    try:
        if not (order_id and uid):
            raise objects.UnreadableError(f"id or uid: is not a text of 1 to {_LONGEST_ID} characters")
        return _read(entry)
    except ValueError as error:
        return Order(order_id, "", "", uid, 0.0, problem=str(error))


def _text(entry: Mapping[str, Any], key: str) -> str:
    """Return an id or UID; empty if it cannot be read."""
    found = entry.get(key)
    return found if isinstance(found, str) and len(found) <= _LONGEST_ID else ""


def _read(entry: Mapping[str, Any]) -> Order:
    return Order(
        id=objects.text(entry, "id", _LONGEST_ID),
        namespace=_name(entry, "namespace", _LONGEST_NAMESPACE),
        name=_name(entry, "name", _LONGEST_NAME),
        uid=objects.text(entry, "uid", _LONGEST_ID),
        expires_at=_seconds(objects.text(entry, "expiresAt", _LONGEST_TIME)),
        by_operator=entry.get("byOperator") is True,
        reason=objects.text(entry, "reason", _LONGEST_REASON),
    )


def _name(entry: Mapping[str, Any], key: str, longest: int) -> str:
    found = objects.text(entry, key, longest)
    if not objects.is_name(found):
        raise ValueError(f"{key}: {found!r} is not a name")
    return found


def _seconds(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expiresAt: {text!r} is not a time") from None
    if found.tzinfo is None:
        raise ValueError(f"expiresAt: {text!r} has no time zone")
    return found.timestamp()


def status(colocation_node: Mapping[str, Any], results: Mapping[OrderKey, Result]) -> list[dict[str, Any]]:
    """Return the new `status.results`: earlier results of orders that are still there, then the new ones."""
    known = present(colocation_node)
    new = {each.id: _written(each) for key, each in results.items() if key in known and each.id}
    ids = {order_id for order_id, _ in known if order_id} - new.keys()
    kept = [dict(each) for each in _results(colocation_node) if _text(each, "id") in ids]
    return kept + list(new.values())


def _written(result: Result) -> dict[str, Any]:
    return {
        "id": result.id,
        "outcome": str(result.outcome),
        "detail": result.detail[:LONGEST_DETAIL],
        "retryAfterSeconds": min(max(0, result.retry_after_s), _LONGEST_RETRY_S),
    }


# --- the pod --------------------------------------------------------------------------------------------


def judge(
    pending: Order, pod: Mapping[str, Any] | None, node: str, rules: Rules, now: float
) -> Result | None:
    """Return why an order is not carried out, as its result; None to carry it out.

    pod: the pod's newest object; None if there is none.
    node: name of the ColocationNode that has the order, which is the node of its author.
    now: seconds since 1970.
    """
    if now >= pending.expires_at:
        return expired(pending)
    if not rules.may_evict and not pending.by_operator:
        return _refused(pending, "evictions are switched off (kubernetes.evict)")
    if pod is None or objects.text(objects.child(pod, "metadata"), "uid", _LONGEST_ID) != pending.uid:
        return Result(pending.id, Outcome.GONE, "no pod has this name and UID")
    if requests.has_ended(pod):
        return Result(pending.id, Outcome.GONE, "the pod has ended")
    problem = _problem(pending, pod, node, rules.tuning)
    if problem:
        return _refused(pending, problem)
    if objects.child(pod, "metadata").get("deletionTimestamp") is not None:
        return Result(pending.id, Outcome.ACCEPTED, "the pod is being deleted already")
    return None


def _refused(pending: Order, why: str, retry_after_s: int = 0) -> Result:
    return Result(pending.id, Outcome.REFUSED, why, retry_after_s)


def _problem(pending: Order, pod: Mapping[str, Any], node: str, tuning: Tuning) -> str:
    """Return why a pod is not evicted for this node; empty if it may be."""
    metadata, spec = objects.child(pod, "metadata"), objects.child(pod, "spec")
    bound = objects.text(spec, "nodeName", _LONGEST_NAME)
    if bound != node:
        return f"the pod is not on node {node}"
    if _MIRROR in objects.child(metadata, "annotations"):
        return "the kubelet would create this static pod again at once"
    if any(_is_daemonset(each) for each in objects.children(metadata, "ownerReferences")):
        return "its DaemonSet would create the pod on this node again at once"
    wish = annotations.resolve_pod(_pod(pod, tuning), tuning, _names(pod))
    if wish.qos is not QoSClass.RECLAIMED:
        return f"the pod has class {wish.qos} ({wish.because}); only class reclaimed is evicted"[
            :LONGEST_DETAIL
        ]
    if wish.mixed:
        return "a container of the pod has another class than reclaimed"
    if wish.avoidance is not None and "evict" not in wish.avoidance and not pending.by_operator:
        return "the pod's annotation avoidance does not allow eviction"
    return ""


def _names(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of a pod's containers that have not ended."""
    spec, status = objects.child(pod, "spec"), objects.child(pod, "status")
    named = {name for kind in _KINDS for name, _ in _named(spec, f"{kind}s")}
    ended = {name for kind in _KINDS for name, each in _named(status, f"{kind}Statuses") if _has_ended(each)}
    return frozenset(named - ended)


def _named(parent: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for each in objects.children(parent, key):
        yield objects.text(each, "name", _LONGEST_CONTAINER), each


def _has_ended(status: Mapping[str, Any]) -> bool:
    """Return whether a container has ended. The kubelet writes its status; one that restarts is waiting or running."""
    return objects.child(status, "state").get("terminated") is not None


def _is_daemonset(owner: Mapping[str, Any]) -> bool:
    """Return whether an owner is the DaemonSet that controls the pod. The pod's author may name any other owner."""
    named = owner.get("apiVersion"), owner.get("kind")
    return named == ("apps/v1", "DaemonSet") and owner.get("controller") is True


def _pod(pod: Mapping[str, Any], tuning: Tuning) -> Pod:
    """Return a pod as the daemon reads it from the runtime, with the fields that its class depends on."""
    metadata = objects.child(pod, "metadata")
    known = annotations.known_keys(tuning)
    labels = _kept(objects.child(metadata, "labels"), known.labels)
    annotated = _kept(objects.child(metadata, "annotations"), known.annotations, PREFIX)
    fits = _size(labels) + _size(annotated) <= MAX_BYTES
    return Pod(
        id="",
        name=objects.text(metadata, "name", _LONGEST_NAME),
        namespace=objects.text(metadata, "namespace", _LONGEST_NAMESPACE),
        labels=labels if _size(labels) <= MAX_BYTES else {},
        annotations=annotated if fits else dict(annotated.items() & known.pairs),
        cgroup_parent=_parent(objects.text(objects.child(pod, "status"), "qosClass", _LONGEST_NAMESPACE)),
        cpu_request=requests.effective(pod, requests.CPU),
    )


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(f"{name}{text}".encode()) for name, text in texts.items())


def _kept(texts: Mapping[str, Any], names: frozenset[str], prefix: str | None = None) -> dict[str, str]:
    return {
        name: str(text)
        for name, text in texts.items()
        if name in names or (prefix is not None and name.startswith(prefix))
    }


def _parent(qos_class: str) -> str:
    """Return the cgroup parent that the kubelet gives to a pod of this QoS class; empty for an unknown class."""
    return {
        "BestEffort": "/kubepods/besteffort/pod",
        "Burstable": "/kubepods/burstable/pod",
        "Guaranteed": "/kubepods/pod",
    }.get(qos_class, "")


# --- the request to the API server ----------------------------------------------------------------------


def request(pending: Order) -> dict[str, Any]:
    """Return the Eviction object of an order. Its precondition keeps another pod of this name running."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pending.namespace, "name": pending.name},
        "deleteOptions": {"preconditions": {"uid": pending.uid}},
    }


def notice_s(pending: Order, now: float) -> float:
    """Return the seconds from the notice to the eviction. The eviction comes before the order expires.

    now: seconds since 1970.
    """
    return max(0.0, min(NOTICE_S.get(pending.reason, 0.0), pending.expires_at - now - LEAST_S))


def notice(pending: Order, at: str | None) -> dict[str, Any]:
    """Return the body of a JSON merge patch of `pods/status` that names the time of an eviction, RFC 3339.

    at: None withdraws the notice of a pod that stays.
    The subresource takes annotations too (pkg/registry/core/pod/strategy.go, podStatusStrategy). With another UID the
    API server answers 409.
    """
    return {"metadata": {"uid": pending.uid, "annotations": {EVICT_AT: at}}}


def is_passed(step: Step, answer: Answer, wait_s: float) -> bool:
    """Return whether the next request follows.

    A pod that cannot take the notice, such as a pod with full annotations, goes without it. With a time of 0 from
    notice to eviction no failing notice holds an eviction up, as with an admission webhook that is down.

    wait_s: seconds from the notice to the eviction.
    """
    if step is Step.NOTICE and wait_s <= 0.0:
        return answer.status not in _CHANGED
    return answer.status in _DONE or (step is Step.NOTICE and answer.status in _NO_NOTICE)


def is_withdrawn(answer: Answer) -> bool:
    """Return whether a withdrawal is over: the notice or the pod is gone, or the pod can never be written."""
    return answer.status in (*_DONE, *_CHANGED, *_NO_NOTICE)


def result(pending: Order, answer: Answer) -> Result | None:
    """Return the result of an order after the API server's answer; None to try again until the order expires.

    A conflict (409) says that the pod changed meanwhile or has another UID: its object decides at the next try.
    """
    told = objects.text(answer.body, "message", _LONGEST_MESSAGE)[:LONGEST_DETAIL]
    if answer.status in _DONE:
        return Result(pending.id, Outcome.ACCEPTED, EVICTED)
    if answer.status == HTTPStatus.NOT_FOUND:
        return Result(pending.id, Outcome.GONE, "no pod has this name")
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS and (budget := _budget(answer)):
        return Result(pending.id, Outcome.BUDGET, budget, answer.retry_after_s)
    # two budgets for one pod (pkg/registry/core/pod/storage/eviction.go)
    if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and "more than one PodDisruptionBudget" in told:
        return Result(pending.id, Outcome.BUDGET, told)
    if 400 <= answer.status < 500 and answer.status not in (401, 408, 409, 429):
        return _refused(pending, f"the API server refused ({answer.status}): {told}"[:LONGEST_DETAIL])
    return None


def _budget(answer: Answer) -> str:
    """Return the sentence of a 429 about a budget; empty for a 429 of the API server's own limit on requests."""
    causes = objects.children(objects.child(answer.body, "details"), "causes")
    budgets = (each for each in causes if each.get("reason") == "DisruptionBudget")
    found = next(budgets, None)
    return "" if found is None else objects.text(found, "message", _LONGEST_MESSAGE) or _NO_REASON


def expired(pending: Order) -> Result:
    """Return the result of an order that could not be carried out in its time."""
    return Result(pending.id, Outcome.UNREACHABLE, "the order expired before it could be carried out")


def unreadable_order(pending: Order) -> Result:
    """Return the result of an order with a problem."""
    return _refused(pending, f"the order cannot be read: {pending.problem}"[:LONGEST_DETAIL])


def unreadable(pending: Order, problem: str) -> Result:
    """Return the result of an order whose pod, or whose answer to the eviction, has another shape than Kubernetes'."""
    return _refused(pending, f"the pod or the API server's answer cannot be read: {problem}"[:LONGEST_DETAIL])


def too_many(pending: Order, wait_s: float, whose: str) -> Result:
    """Return the result of an order beyond a rate. `whose`: "cluster" or "node"."""
    return _refused(pending, f"the {whose} has reached its rate of evictions", math.ceil(wait_s))
