"""Name the reclaimed pods that still run, and why they do after an order to end lending."""

from collections.abc import Iterator

from nri_coloc.core.state import RECLAIM, NodeState, PodPlace
from nri_coloc.core.workload import QoSClass
from nri_coloc.schedule.lending import Lending


def running_pods(state: NodeState) -> tuple[PodPlace, ...]:
    """Return the pods with a reclaimed part, by namespace and name."""
    return tuple(sorted(_reclaimed(state), key=lambda place: (place.pod.namespace, place.pod.name)))


def is_drained(lending: Lending, *, lends: bool) -> bool:
    """Return whether reclaimed pods are to be evicted now.

    lends: whether the configuration lends at all. Without lending, only an operator's order evicts pods.
    """
    return lending.drains and (lends or lending.ordered)


def to_evict(state: NodeState, lending: Lending, *, lends: bool) -> tuple[PodPlace, ...]:
    """Return the pods that are to be evicted now, the newest first, because it loses the least work."""
    if not is_drained(lending, lends=lends):
        return ()
    found = [place for place in state.pods.values() if place.wish.qos is QoSClass.RECLAIMED]
    return tuple(reversed(found))


def still_runs(place: PodPlace, lending: Lending, *, impossible: str, hindrance: str) -> str:
    """Return why a reclaimed pod still runs.

    impossible: why no pod of this node can be ordered to leave, "" if that is possible.
    hindrance: why this pod is not ordered to leave now, "" if it may be.
    """
    remedy = f"`kubectl delete pod -n {place.pod.namespace} {place.pod.name}` ends it"
    if not lending.drains:
        return "it may run on until the grace is over"
    if place.wish.qos is not QoSClass.RECLAIMED:
        return f"a pod of class {place.wish.qos} with a reclaimed container is not evicted; {remedy}"
    if impossible:
        return f"{impossible}; {remedy}"
    return hindrance or "its eviction order follows: four at once, then one in 15 s"


def _reclaimed(state: NodeState) -> Iterator[PodPlace]:
    for pod_id, place in state.pods.items():
        if place.wish.qos is QoSClass.RECLAIMED or any(each.pool == RECLAIM for each in state.of_pod(pod_id)):
            yield place
