"""Choose the reclaimed pods to evict for a shortage: pods and an amount in, pod ids out; pure.

The order, first to last:

1. pods whose eviction was not refused lately, so that many refused pods hold back no other one;
2. lower Kubernetes priority, then lower `coloc.nri.io/priority`;
3. BestEffort before Burstable before Guaranteed, as the kubelet evicts;
4. pods that use more than they were lent;
5. the larger share of the shortage, in quarters, so that few pods go;
6. the pod that started last, because it loses the least work.

The first pods that cover the shortage together are chosen. A pod that the rest of them does not need is spared. The use
of a pod is only the part that its end frees: page cache is not use.
"""

from collections.abc import Iterable, Mapping
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
    priority: `coloc.nri.io/priority`; any author of a pod can write it.
    arrival: place in the order in which pods came; the youngest has the highest number.
    was_refused: whether its eviction was refused lately.
    """

    use: float
    lent: float = 0.0
    kube_priority: int = 0
    priority: int = 0
    kube_qos: KubeQoS = KubeQoS.UNKNOWN
    arrival: int = 0
    was_refused: bool = False


def choose(amount: float, candidates: Mapping[str, Candidate], most: int) -> tuple[str, ...]:
    """Return the ids of the pods to evict, first to last, `most` at most; empty for no shortage.

    amount: the shortage, without the part that pods free that leave already.
    """
    if not amount > 0.0:
        return ()
    ranked = sorted(
        (pod_id for pod_id, one in candidates.items() if one.use > 0.0),
        key=lambda pod_id: (*_rank(candidates[pod_id], amount), pod_id),
    )
    return _needed(amount, candidates, _covering(amount, candidates, ranked))[: max(0, most)]


def _rank(one: Candidate, amount: float) -> tuple[bool, int, int, int, bool, int, int]:
    quarters = min(_QUARTERS, ceil(_QUARTERS * min(1.0, one.use / amount)))
    is_within = one.use <= one.lent
    tenant = one.kube_priority, one.priority, _class(one.kube_qos)
    return one.was_refused, *tenant, is_within, -quarters, -one.arrival


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
