"""Orders to evict a pod: any room may give one. The companion carries it to the controller, and brings the result back.

    order ─▶ open ─▶ result (accepted: the pod's grace period runs, and the pod counts as leaving until it has ended)

`service.evictions` implements `Evictions`. An order is only a request: the controller checks node, class, rate and
PodDisruptionBudgets, and evicts no other pod than the one with the order's UID.
"""

from collections.abc import Collection, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.core.reasons import Reason
from nri_coloc.core.value import value

LONGEST_TEXT: Final = 200
"""Characters of an order's text and of a result's detail."""

LONGEST_S: Final = 600.0
"""Seconds after which every order has expired."""

PAUSE_S: Final = 30.0
"""Seconds without a new order for a pod after a result without eviction. A result may ask for more."""

REFUSED_S: Final = 600.0
"""The same after a refusal that names no time: the pod belongs to a DaemonSet, say, and will be refused again."""


class Outcome(StrEnum):
    """The outcome of an order, as in api/cluster/v1/cluster.proto."""

    ACCEPTED = "accepted"
    BUDGET = "budget"
    GONE = "gone"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


class Result(NamedTuple):
    """The result of an order.

    detail: a sentence of at most 200 characters.
    retry_after_s: seconds after which a new order makes sense; 0 for unknown, 3,600 at most.
    """

    id: str
    outcome: Outcome
    detail: str
    retry_after_s: int = 0


@value
class EvictionWish:
    """A pod that is to be evicted, and why.

    pod_uid: the Kubernetes UID; another pod of this name is never evicted.
    reason: code of the audit.
    text: a sentence for the audit, or the operator's own text; at most 200 printable characters.
    by_operator: an operator ordered it on this node. Overrides the switch `kubernetes.evict`.
    expires_s: seconds after which the order is dropped without a result; 600 at most.
    inputs: figures of the decision, for the audit.
    """

    pod_uid: str
    namespace: str
    name: str
    reason: Reason
    text: str
    by_operator: bool = False
    expires_s: float = 60.0
    inputs: Mapping[str, Any] = field(default_factory=dict, compare=False)


class Ordered(NamedTuple):
    """The answer to a wish: the id of the order, or the reason why there is no order."""

    order_id: str = ""
    refusal: str = ""


class Closed(NamedTuple):
    """The end of an order. `at_s`: monotonic seconds."""

    wish: EvictionWish
    result: Result
    at_s: float

    @property
    def is_refused(self) -> bool:
        """Return whether the order led to no eviction: its outcome is any other than `accepted`."""
        return self.result.outcome is not Outcome.ACCEPTED

    @property
    def rests_until_s(self) -> float:
        """Return the end of the pause in which the pod gets no new order, monotonic seconds."""
        outcome, retry_s = self.result.outcome, float(self.result.retry_after_s)
        if outcome is Outcome.ACCEPTED:
            return self.at_s
        is_final = outcome in (Outcome.REFUSED, Outcome.GONE) and not retry_s
        return self.at_s + (REFUSED_S if is_final else max(PAUSE_S, retry_s))


class Evictions(Protocol):
    """Takes orders. Each method may be called from any thread and waits for nothing; `now_s` is monotonic seconds."""

    def impossible(self, *, by_operator: bool = False) -> str:
        """Return why no order can be given now, "" if one can.

        Causes: no companion is connected, the switch `kubernetes.evict` is off, the mode is `observe`, or 16 orders
        are open.
        """

    def order(self, wish: EvictionWish, now_s: float) -> Ordered:
        """Give an order and record it. A refusal changes nothing and leaves no record.

        A pod has one order at a time, and after a result without eviction no new one until a pause is over.
        """

    def withdraw(self, order_ids: Collection[str], why: str, now_s: float) -> None:
        """Close these orders, as far as they are open. Their pods stay if their notice still runs."""

    def open(self, now_s: float) -> frozenset[str]:
        """Return the UIDs of pods that are to leave: an order is open, or an eviction was accepted.

        An accepted eviction counts for ten minutes. A pod that has ended may still be in the answer.
        """

    def last(self, pod_uid: str) -> Closed | None:
        """Return the end of the last order of a pod; None for no order, and after the last 1,024 ends."""
