"""Choose the reclaimed pods to evict for a shortage: pods and an amount in, pod ids out; pure.

The order, first to last:

1. pods whose eviction was not refused lately, so that many refused pods hold back no other one;
2. lower Kubernetes priority;
3. BestEffort before Burstable before Guaranteed, as the kubelet evicts;
4. pods that use more than they were lent;
5. the larger share of the shortage, in quarters, so that few pods go;
6. the pod that started last, because it loses the least work.

This order tells how much each namespace must free. Within a namespace the pods with a lower `coloc.nri.io/priority` go
first, after the Kubernetes priority. Every author can write it, so it changes nothing for pods of other namespaces.

The first pods that cover the shortage together are chosen. A pod that the rest of them does not need is spared. The use
of a pod is only the part that its end frees: page cache is not use.
"""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Final, NamedTuple

from nri_coloc.core.workload import KubeQoS

_QUARTERS: Final = 4

_CLASSES: Final = (KubeQoS.BEST_EFFORT, KubeQoS.BURSTABLE, KubeQoS.GUARANTEED)


class Candidate(NamedTuple):
    """A reclaimed pod that may be evicted.

    use: the part of the short resource that its end frees, in the unit of the shortage.
    lent: the amount that it was lent, in the same unit; 0 for none.
    kube_priority: priority of its PriorityClass, 0 if it is unknown. A tenant cannot raise it beyond its quota.
    priority: `coloc.nri.io/priority`; any author of a pod can write it, so it counts within its namespace.
    arrival: place in the order in which pods came; the youngest has the highest number.
    was_refused: whether its eviction was refused lately.
    namespace: the namespace of the pod.
    """

    use: float
    lent: float = 0.0
    kube_priority: int = 0
    priority: int = 0
    kube_qos: KubeQoS = KubeQoS.UNKNOWN
    arrival: int = 0
    was_refused: bool = False
    namespace: str = ""


def choose(amount: float, candidates: Mapping[str, Candidate], most: int) -> tuple[str, ...]:
    """Return the ids of the pods to evict, first to last, `most` at most; empty for no shortage.

    amount: the shortage, without the part that pods free that leave already.
    """
    if not amount > 0.0:
        return ()
    using = {pod_id: one for pod_id, one in candidates.items() if one.use > 0.0}
    parts: dict[str, float] = {}
    for pod_id in _chosen(amount, using, lambda one: _rank(one, amount)):
        namespace = using[pod_id].namespace
        parts[namespace] = parts.get(namespace, 0.0) + using[pod_id].use
    found: list[str] = []
    for namespace, part in parts.items():
        own = {pod_id: one for pod_id, one in using.items() if one.namespace == namespace}
        needed = amount if len(parts) == 1 else part
        found += _chosen(needed, own, lambda one: (*_own_rank(one), *_rank(one, amount)))
    return tuple(found[: max(0, most)])


def _chosen(
    amount: float, pods: Mapping[str, Candidate], rank: Callable[[Candidate], tuple[float, ...]]
) -> tuple[str, ...]:
    """Return the first pods by a rank that cover the amount together, without needless ones."""
    ranked = sorted(pods, key=lambda pod_id: (*rank(pods[pod_id]), pod_id))
    return _needed(amount, pods, _covering(amount, pods, ranked))


def _rank(one: Candidate, amount: float) -> tuple[float, ...]:
    quarters = min(_QUARTERS, ceil(_QUARTERS * min(1.0, one.use / amount)))
    is_within = one.use <= one.lent
    return one.was_refused, one.kube_priority, _class(one.kube_qos), is_within, -quarters, -one.arrival


def _own_rank(one: Candidate) -> tuple[float, ...]:
    return one.was_refused, one.kube_priority, one.priority


def _class(qos: KubeQoS) -> int:
    """Return the place of a Kubernetes class in the order; an unknown class counts as Burstable."""
    return _CLASSES.index(qos) if qos in _CLASSES else 1


def _covering(amount: float, candidates: Mapping[str, Candidate], ranked: Iterable[str]) -> list[str]:
    """Return the first pods that cover the amount together, or all pods if these are too few."""
    chosen: list[str] = []
    covered = 0.0
    for pod_id in ranked:
        if covered >= amount:
            break
        chosen.append(pod_id)
        covered += candidates[pod_id].use
    return chosen


def _needed(amount: float, candidates: Mapping[str, Candidate], chosen: list[str]) -> tuple[str, ...]:
    """Return the chosen pods without pods that the rest of them does not need, the last in order spared first."""
    needed, covered = list(chosen), sum(candidates[pod_id].use for pod_id in chosen)
    for pod_id in reversed(chosen):
        use = candidates[pod_id].use
        if covered - use >= amount:
            needed.remove(pod_id)
            covered -= use
    return tuple(needed)
