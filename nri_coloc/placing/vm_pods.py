"""Return the values of a pod that runs in a VM (Kata's runtime handlers): its cgroup carries its containers' values.

Such containers run in the guest. A value of ours in their own specs would act there, or nowhere, so there is none.
The pod has the CPUs and memory nodes of its containers together, and the sums of their amounts. Shares, quota and
memory limit of a pod's cgroup are the kubelet's: it writes the containers' sums and the runtime class's overhead. A
quota is ours only if the kubelet never sets one: in a BestEffort pod whose containers were all lent some. Memory
protections are sums for every pod (`protection`). In a reclaim cgroup the memory limits are those cgroups' own.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Figure
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.state import Assignment, NodeState, PodPlace
from nri_coloc.core.workload import KubeQoS, Pod
from nri_coloc.placing import admission


def knobs(state: NodeState, place: PodPlace) -> Knobs:
    """Return the values that a VM's pod should have for its containers; none for the CPU if the pod preserves that."""
    members = tuple(state.of_pod(place.pod.id))
    bound = Knobs(memory_high=None if place.boxed else _high(state, place, members))
    if "cpu" in place.wish.preserve:
        return bound
    asked = [admission.wanted(state, each) for each in members]
    placed = [each for each in members if not each.hands_off]
    bursts = [each.burst for each in asked if each.burst is not None]
    best_effort = place.pod.kube_qos is KubeQoS.BEST_EFFORT
    return bound._replace(
        cpus=cpuset.render(reduce(or_, map(state.cpus_of, placed), 0)) or None,
        mems=cpuset.render(state.mems_bound(place.pod.id)) or None,
        quota=_sum(each.quota for each in asked) if best_effort else None,
        burst=sum(bursts) if bursts else None,
    )


def words(pod: Pod) -> str:
    """Return words for a pod's cgroup that carries its containers' values."""
    return f"; runtime handler {pod.handler} runs its containers in a VM"


def inputs(state: NodeState, pod: Pod) -> dict[str, Figure]:
    """Return by name the values that the containers of a VM's pod ask for; the pod's values follow from them."""
    found: dict[str, Figure] = {"overhead_bytes": pod.overhead_bytes} if pod.overhead_bytes else {}
    for each in sorted(state.of_pod(pod.id), key=lambda each: each.container.name):
        limit = each.container.resources.memory_limit
        asked = admission.wanted(state, each)._replace(memory_limit=limit).named()
        found |= {f"{each.container.name}.{name}": value for name, value in asked.items()}
    return found


def _high(state: NodeState, place: PodPlace, members: tuple[Assignment, ...]) -> int | None:
    """Return the memory.high of the pod, bytes: the memory that its containers may hold together, and the VM's own.

    A container without a memory.high may hold its limit. If a container has neither, the pod has no memory.high.
    """
    if all(admission.wanted(state, each).memory_high is None for each in members):
        return None
    held = _sum(_most(state, each) for each in members)
    return None if held is None else held + place.pod.overhead_bytes


def _most(state: NodeState, assignment: Assignment) -> int | None:
    if "memory" in assignment.wish.preserve:
        return None
    limit = assignment.container.resources.memory_limit or 0
    return admission.wanted(state, assignment).memory_high or (limit if limit > 0 else None)


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the values; None if there are none, or if one of them is None or 0."""
    known = tuple(values)
    return sum(filter(None, known)) if known and all(known) else None
