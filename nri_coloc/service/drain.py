"""Order the eviction of reclaimed pods that still run when the schedule or an operator drains the node.

Open orders are withdrawn when the drain ends: a notice may run for 30 s, and no pod leaves a node that lends again. The
order of a pod that has left already is not withdrawn: its result is on the way.
"""

from typing import Final

from nri_coloc.core.evictions import EvictionWish
from nri_coloc.core.reasons import Reason
from nri_coloc.core.state import PodPlace
from nri_coloc.core.token_bucket import Bucket, take
from nri_coloc.kubernetes.eviction_orders import Open
from nri_coloc.kubernetes.rate import NODE
from nri_coloc.placing.node import Node
from nri_coloc.schedule.draining import is_drained, running_pods, still_runs, to_evict
from nri_coloc.schedule.lending import Lending
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.orders import RunningPod

_IS_OVER: Final = "no drain is in force"


class Drain:
    """The drain of one node; for the main thread. Its rate is the controller's rate for a node."""

    def __init__(self, node: Node, evictions: EvictionOrders) -> None:
        self._node = node
        self._evictions = evictions
        self._given = Bucket()
        self._orders: frozenset[str] = frozenset()

    def look(self, lending: Lending, now_s: float) -> None:
        """Order evictions if the node drains, as many as the rate allows; else withdraw the open orders."""
        lends = self._node.tuning.reclaim.enabled
        if not is_drained(lending, lends=lends):
            self._withdraw(now_s)
        found = to_evict(self._node.state, lending, lends=lends)
        # refused pods last: their orders would use up the rate for ever
        for place in sorted(found, key=self._was_refused):
            wish = _wish(place, lending)
            if self._evictions.hindrance(wish, now_s):
                continue
            given = take(self._given, NODE, now_s)
            if given is None:
                return
            self._given = given
            order = self._evictions.order(wish, now_s)
            self._orders = frozenset({*(each.id for each in self._open(now_s)), order.order_id})

    def _open(self, now_s: float) -> tuple[Open, ...]:
        """Return this drain's open orders."""
        return tuple(each for each in self._evictions.pending(now_s) if each.id in self._orders)

    def _withdraw(self, now_s: float) -> None:
        """Withdraw the open orders of the pods that still run."""
        if not self._orders:
            return
        running = {place.pod.uid for place in self._node.state.pods.values()}
        opened = self._open(now_s)
        ids = frozenset(each.id for each in opened if each.wish.pod_uid in running)
        self._orders = frozenset(each.id for each in opened) - ids
        self._evictions.withdraw(ids, _IS_OVER, now_s)

    def _was_refused(self, place: PodPlace) -> bool:
        last = self._evictions.last(place.pod.uid)
        return last is not None and last.is_refused

    def running(self, lending: Lending, now_s: float) -> tuple[RunningPod, ...]:
        """Return the reclaimed pods that still run, and why."""
        impossible = self._evictions.impossible(by_operator=lending.ordered)
        return tuple(
            RunningPod(
                place.pod.full_name,
                still_runs(
                    place,
                    lending,
                    impossible=impossible,
                    hindrance=self._evictions.hindrance(_wish(place, lending), now_s),
                ),
            )
            for place in running_pods(self._node.state)
        )


def _wish(place: PodPlace, lending: Lending) -> EvictionWish:
    return EvictionWish(
        pod_uid=place.pod.uid,
        namespace=place.pod.namespace,
        name=place.pod.name,
        reason=Reason.OPERATOR if lending.ordered else Reason.SCHEDULE,
        text=f"lending has ended: {lending.because}",
        by_operator=lending.ordered,
        inputs={"lend": lending.factor},
    )
