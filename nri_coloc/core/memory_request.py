"""The memory request of containers and pods, as far as it is certain: neither NRI nor CRI carries it.

A sidecar (restartable init container) that requests nothing inherits the oom_score_adj of its pod's main container
(pkg/kubelet/qos/policy.go). So the requests that the scores of one pod tell must not be added up.
"""

from collections.abc import Iterable
from typing import Final

from nri_coloc.core.workload import RECORD_KEY, Container, KubeQoS, Pod

_UNLIMITED: Final = 1 << 62
"""cgroup v1 shows "no limit" as the largest page-aligned int64; no machine has an eighth of this."""


def known_limit(container: Container) -> int:
    """Return the memory limit in bytes, 0 for none."""
    limit = container.resources.memory_limit or 0
    return limit if 0 < limit < _UNLIMITED else 0


def certain(pod: Pod, container: Container, node_bytes: int) -> int:
    """Return bytes that the container's memory request cannot be below; 0 where nothing is certain.

    Guaranteed: requests equal limits. Burstable: the kubelet writes
    oom_score_adj = 1000 - floor(1000 * request / capacity), so request >= (1000 - oom_score_adj) * capacity
    / 1000 (pkg/kubelet/qos/policy.go). It raises 1000 to 999 and writes -997 for critical pods whatever they
    asked for: outside of 3 to 998 the value tells nothing.

    An in-place resize leaves the score as it was. No request is above its limit: a limit below the amount that the
    score tells shows that the score is of a request that holds no more. A pod that carries our record key hides
    which values of its containers' specs are ours, so nothing is certain of it.
    """
    qos, score, limit = pod.kube_qos, container.oom_score_adj, known_limit(container)
    if RECORD_KEY in pod.annotations:
        return 0
    if qos is KubeQoS.GUARANTEED:
        return limit
    if qos is not KubeQoS.BURSTABLE or score is None or not 3 <= score <= 998:
        return 0
    told = max(0, node_bytes) * (1000 - score) // 1000
    return 0 if 0 < limit < told else told


def certain_of_pod(pod: Pod, containers: Iterable[Container], node_bytes: int) -> int:
    """Return bytes that the pod's memory request cannot be below; 0 where nothing is certain.

    Burstable: the largest request of one container. Guaranteed: the limits of all, a retried container's once. With
    pod-level resources the kubelet writes the pod's limit into each container without one of its own: so their sum is
    at most the pod's limit, unless one container alone has more since a resize.
    """
    by_name: dict[str, int] = {}
    for each in containers:
        by_name[each.name] = max(by_name.get(each.name, 0), certain(pod, each, node_bytes))
    largest = max(by_name.values(), default=0)
    if pod.kube_qos is not KubeQoS.GUARANTEED:
        return largest
    of_pod = (pod.resources.memory_limit or 0) if pod.resources is not None else 0
    total = sum(by_name.values())
    return max(largest, min(total, of_pod)) if of_pod > 0 else total


def bound_of_pod(pod: Pod, containers: Iterable[Container], node_bytes: int, told: int | None) -> int:
    """Return the most bytes that the pod's memory protections may have together.

    told: the pod's memory request by the companion; None if it reported none. It lowers the bound to any amount, and
        raises it up to the amount that the kubelet's values prove.
    """
    known = list(containers)
    certain_bytes = certain_of_pod(pod, known, node_bytes)
    if told is None:
        return certain_bytes
    return min(told, max(certain_bytes, _proven(pod, known, node_bytes)))


def _proven(pod: Pod, containers: Iterable[Container], node_bytes: int) -> int:
    """Return the sum of the requests that different OOM scores of a Burstable pod prove; 0 for another pod.

    The score of a sidecar is at most the lowest score of the main containers. So of the containers with one score, at
    least one requests the amount that the score tells; the others may be sidecars that inherited it.
    """
    if pod.kube_qos is not KubeQoS.BURSTABLE:
        return 0
    by_name: dict[str, int] = {}
    for each in containers:
        by_name[each.name] = max(by_name.get(each.name, 0), certain(pod, each, node_bytes))
    return sum(set(by_name.values()))
