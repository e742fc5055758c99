"""The pods that claim CPU and memory of the node: online and system pods, and the pods with a reclaim cgroup.

Requests are derived from the kubelet's values; for memory this is a bound that the true request cannot be below. A call
costs about 15 µs a pod, so callers repeat it only after a pod came or went.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nri_coloc.core import memory_request
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.state import Assignment, NodeState, PodPlace
from nri_coloc.daemon import targets
from nri_coloc.placing import supply, whereabouts
from nri_coloc.pods import replicas
from nri_coloc.pods.replicas import OnlinePod


def online(state: NodeState, lendable: CPUMask, memory_bytes: int) -> dict[str, OnlinePod]:
    """Return every pod without a reclaim cgroup, by pod id; `memory_bytes`: the machine's memory."""
    owned, beyond = whereabouts.owned(state.pools, lendable), whereabouts.beyond(state, lendable)
    return {
        pod_id: _online(state, place, (owned, beyond), memory_bytes)
        for pod_id, place in state.pods.items()
        if not place.boxed
    }


def _online(
    state: NodeState, place: PodPlace, not_lent: tuple[CPUMask, CPUMask], memory_bytes: int
) -> OnlinePod:
    owned, beyond = not_lent
    members = tuple(state.of_pod(place.pod.id))
    limits = [memory_request.known_limit(a.container) for a in members]
    return OnlinePod(
        replicas.workload_of(place.pod),
        cpu_milli=sum(milli for _, milli in supply.counted(place.pod.cpu_request, list(members))),
        memory_bytes=memory_request.certain_of_pod(place.pod, (a.container for a in members), memory_bytes),
        memory_limit=sum(limits) + place.pod.overhead_bytes if limits and all(limits) else None,
        own_cpus=bool(members) and all(whereabouts.is_apart(state, a, owned) for a in members),
        lent_to=tuple(a.container.id for a in members if whereabouts.is_lent_to(place, a)),
        on_reserved=any(whereabouts.of(state, a) & beyond for a in members),
    )


class Boxed(NamedTuple):
    """A pod with a reclaim cgroup.

    path: its cgroup.
    request: the memory that it was lent, bytes; 0 if unknown.
    ours: whether the daemon sets its memory limits.
    """

    path: str
    request: int = 0
    ours: bool = True


def boxed(state: NodeState) -> dict[str, Boxed]:
    """Return the pods with a reclaim cgroup, by pod id."""
    return dict(_boxed(state, state.pods))


def _boxed(state: NodeState, pods: Mapping[str, PodPlace]) -> Iterator[tuple[str, Boxed]]:
    for pod_id, place in pods.items():
        path = targets.pod_path(place.pod) if place.boxed else ""
        if path:
            lent = sum(_lent(a) for a in state.of_pod(pod_id))
            yield pod_id, Boxed(path, lent, "memory" not in place.wish.preserve)


def _lent(assignment: Assignment) -> int:
    """Return the bytes that a container was lent: the limit that an annotation vocabulary set, else its own limit."""
    limit = assignment.knobs.memory_limit or 0
    return limit if limit > 0 else memory_request.known_limit(assignment.container)
