"""Name the reclaimed pods that still run, and why they do after an order to end lending."""

from collections.abc import Iterator

from nri_coloc.core.state import RECLAIM, NodeState, PodPlace
from nri_coloc.core.workload import QoSClass
from nri_coloc.schedule.lending import Lending


def running_pods(state: NodeState) -> tuple[str, ...]:
    """Return the pods with a reclaimed part, as sorted NAMESPACE/NAME."""
    return tuple(sorted(f"{place.pod.namespace}/{place.pod.name}" for place in _reclaimed(state)))


def still_runs(pod: str, lending: Lending) -> str:
    """Return why a reclaimed pod, NAMESPACE/NAME, still runs.

    The companion writes no eviction orders yet.
    """
    if not lending.drains:
        return "it may run on until the grace is over"
    namespace, _, name = pod.partition("/")
    return f"nothing evicts it yet; `kubectl delete pod -n {namespace} {name}` ends it"


def _reclaimed(state: NodeState) -> Iterator[PodPlace]:
    for pod_id, place in state.pods.items():
        if place.wish.qos is QoSClass.RECLAIMED or any(each.pool == RECLAIM for each in state.of_pod(pod_id)):
            yield place
