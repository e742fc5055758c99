"""The online and system pods, which claim CPU and memory of the node.

Requests are derived from the kubelet's values; for memory this is a bound that the true request cannot be below. A call
costs about 15 µs a pod, so callers repeat it only after a pod came or went.
"""

from nri_coloc.core import workload
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.state import NodeState, PodPlace
from nri_coloc.placing import supply, tiers
from nri_coloc.pods import replicas
from nri_coloc.pods.replicas import OnlinePod


def online(state: NodeState, lendable: CPUMask, memory_bytes: int) -> dict[str, OnlinePod]:
    """Return every pod without a reclaim cgroup, by pod id; `memory_bytes`: the machine's memory."""
    owned, beyond = tiers.owned(state.pools, lendable), tiers.beyond(state, lendable)
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
    limits = [workload.known_memory_limit(a.container) for a in members]
    return OnlinePod(
        replicas.workload_of(place.pod),
        cpu_milli=sum(milli for _, milli in supply.counted(place.pod.cpu_request, list(members))),
        memory_bytes=workload.certain_memory_of_pod(place.pod, (a.container for a in members), memory_bytes),
        memory_limit=sum(limits) + place.pod.overhead_bytes if limits and all(limits) else None,
        own_cpus=bool(members) and all(tiers.is_on_owned(state, a, owned) for a in members),
        lent_to=tuple(a.container.id for a in members if tiers.is_lent_to(place, a)),
        on_reserved=any(tiers.cpus_for(state, a) & beyond for a in members),
    )
