"""Return how many CPUs a dedicated container may own, and which CPUs and memory are free for it.

A container's request is its own if the pod's request covers it beside the requests of the containers that own CPUs
already. A greater request is the whole pod's: with pod-level resources the kubelet writes the pod's CPU limit into
every container that names no request and no limit of its own (pkg/kubelet/kuberuntime/kuberuntime_container_linux.go,
getCPULimit), and no request at all if the pod has no limit. Such a pod owns its request together: the first of these
containers owns the rest of it, the others run on the same CPUs.

A pod's request is read from a file. `needs_request` and `falls_short` tell when it must be read.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from nri_coloc.core import cpuset, workload
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_ROOM, Figure, Room
from nri_coloc.core.knobs import UNLIMITED_BYTES
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import DEDICATED, Asked, Assignment, NodeState
from nri_coloc.core.workload import ISOLATED, Container, Numa, QoSClass, Wish
from nri_coloc.placing import record, request
from nri_coloc.placing.search import levelled


class Due(NamedTuple):
    """How many CPUs a container may own.

    cpus: number of CPUs, 0 for none.
    capped: the pod's request decides, because the container's own is greater or there is none.
    """

    cpus: int
    capped: bool = False

    @property
    def why_none(self) -> str:
        """Why the container may own no CPUs, for the audit."""
        if self.capped:
            return "its pod's CPU request leaves no whole CPU for it"
        return "it asks for less than one CPU"


class Beside(NamedTuple):
    """The containers of a pod in pools, as far as they bound the CPUs that one of the pod may own.

    in_pools: requests of containers in pools by id, thousandths of a CPU.
    asked: the same requests, the least first.
    sums: sums of the first of these, from none to all.
    """

    in_pools: Mapping[str, int]
    asked: tuple[int, ...]
    sums: tuple[int, ...]


def beside(state: NodeState, pod_id: str) -> Beside:
    """Return the containers of a pod for `of`. A caller that asks for many containers of a pod makes it once."""
    pooled = [each for each in state.of_pod(pod_id) if _is_in_a_pool(each)]
    in_pools = {each.id: request.of_container(each.container).milli for each in pooled}
    asked = tuple(sorted(in_pools.values()))
    return Beside(in_pools, asked, tuple(accumulate(asked, initial=0)))


def of(state: NodeState, container: Container, wish: Wish, known: Beside | None = None) -> Due:
    """Return how many CPUs a container may own beside the owners in its pod.

    known: the containers of its pod, if the caller has them.
    """
    asked = request.of_container(container, wish)
    pod = state.cpu_request_of(container.pod_id)
    if pod is None or 0 < asked.milli < 1000:
        return Due(asked.whole)
    owners = state.owners_beside(container)
    if not asked.milli and any(not owner.hands_off for owner in owners):
        return Due(0)
    left = pod - sum([_used(owner) for owner in owners])
    if left < 1000:  # the requests of the others only lower it, and a pod may have any number of containers
        return Due(0, capped=True)
    left -= _asked_elsewhere(known or beside(state, container.pod_id), container)
    if asked.milli:
        # the kubelet's requests add up to the pod's; lowered ones are the tenant's, and must gain no CPU by rounding
        is_own = asked.milli <= left and (not asked.is_lowered or asked.whole <= _whole(pod) - _owned(owners))
        return Due(asked.whole) if is_own else _of_the_pods(pod, left, owners)
    return _of_the_pods(pod, left, owners)


def owned_beside(state: NodeState, container: Container) -> int:
    """Return how many CPUs other containers of a pod own."""
    return _owned(state.owners_beside(container))


def _asked_elsewhere(pods: Beside, container: Container) -> int:
    """Return the part of the pod's request that its containers in pools ask for, thousandths of a CPU.

    A figure counts if it is certainly that container's own request: less than this container's figure, or any if this
    container has none, for then the pod has no limit. A greater one may be the pod's limit.
    """
    figure = request.of_container(container).milli
    own = pods.in_pools.get(container.id, 0)
    counted = pods.sums[bisect_left(pods.asked, figure)] if figure else pods.sums[-1]
    return counted - (own if not figure or own < figure else 0)


def _is_in_a_pool(assignment: Assignment) -> bool:
    """Return whether a container runs neither on CPUs of its own nor, now or later, on an owner's of its pod."""
    return not assignment.exclusive and (assignment.qos is not QoSClass.DEDICATED or assignment.hands_off)


def _of_the_pods(pod: int, left: int, owners: list[Assignment]) -> Due:
    cpus = max(0, min(_whole(pod) - _owned(owners), _whole(left))) if left >= 1000 else 0
    return Due(cpus, capped=True)


def _whole(milli: int) -> int:
    return -(-milli // 1000)


def _owned(owners: list[Assignment]) -> int:
    return sum(owner.exclusive.bit_count() for owner in owners)


def _used(owner: Assignment) -> int:
    """Return the part of the pod's request that an owner's CPUs use, thousandths of a CPU."""
    whole = owner.exclusive.bit_count() * 1000
    own = request.of_container(owner.container, owner.wish).milli
    return min(own, whole) if own else whole


def needs_request(wish: Wish, tuning: Tuning) -> bool:
    """Return whether a class, CPUs, the size of a pool or the floor of degrading follow from a pod's CPU request."""
    of_all = bool(tuning.pools) or tuning.reclaim.partition or tuning.pressure.degrade
    return of_all or wish.qos is QoSClass.DEDICATED or wish.mixed


def has_owner(state: NodeState, pod_id: str) -> bool:
    """Return whether a container of the pod owns CPUs, also one whose class is not its pod's.

    A resize and a claim of the DRA CPU driver give a container of a shared pod CPUs of its own.
    """
    return any(each.exclusive for each in state.of_pod(pod_id))


def has_memory(state: NodeState, pod_id: str) -> bool:
    """Return whether a container of the pod has memory that its request bounds: protected, or on memory nodes."""
    return any(
        each.knobs.memory_low or each.knobs.memory_min or each.wish.numa is not Numa.NONE
        for each in state.of_pod(pod_id)
    )


def falls_short(state: NodeState, container: Container, wish: Wish) -> bool:
    """Return whether another CPU request of its pod could give a dedicated container more CPUs than the known one."""
    if container.pod_id not in state.pods:
        return True
    return state.cpu_request_of(container.pod_id) is not None and of(state, container, wish).capped


def counted(pod: int | None, members: list[Assignment]) -> Iterator[tuple[Assignment, int]]:
    """Yield the containers of a pod, each with its part of their common request, thousandths of a CPU."""
    own = [Asked(request.of_container(each.container, each.wish).milli, 1) for each in members]
    all_of_pod = Asked(sum([each.milli for each in own]), len(own))
    for member, asked in zip(members, own, strict=True):
        yield member, request.part_of(pod, asked, all_of_pod)


def isolated(state: NodeState) -> CPUMask:
    """Return the isolated CPUs without an owner."""
    return state.topology.aside & ~state.pools.dedicated & ~state.pools.kept


def claimable(state: NodeState, wish: Wish) -> CPUMask:
    """Return every free CPU that a wish could own, including the CPU that `share` must keep."""
    return state.pools.free | isolated(state) if wish.pool == ISOLATED else state.pools.free


def sources(state: NodeState, wish: Wish, count: int) -> tuple[CPUMask, ...]:
    """Return the sets to choose from, in order: isolated CPUs if asked for, then `share` except for its last CPU."""
    found = []
    if wish.pool == ISOLATED and isolated(state).bit_count() >= count:
        found.append(isolated(state))
    if count < state.pools.free.bit_count():
        found.append(state.pools.free)
    return tuple(found)


def short_of_isolated(state: NodeState, wish: Wish, chosen: CPUMask) -> str:
    """Return words for isolated CPUs that were asked for and could not be taken; empty otherwise."""
    return "; too few isolated CPUs are free and fit" if isolated_left(state, wish, chosen) else ""


def isolated_left(state: NodeState, wish: Wish, chosen: CPUMask) -> dict[str, Figure]:
    """Return by name the free isolated CPUs if isolated CPUs were asked for and could not be taken; else nothing."""
    if wish.pool != ISOLATED or chosen & state.topology.aside:
        return {}
    return {"isolated_free": cpuset.render(isolated(state))}


def room(state: NodeState, container: Container, wish: Wish, reserved_bytes: int) -> Room:
    """Return the memory and the CPUs that a binding to memory nodes uses; nothing for a wish without one."""
    if wish.numa is Numa.NONE:
        return NO_ROOM
    asked = memory_of(container, wish)
    return Room(asked, _left(state, reserved_bytes) if asked else (), _ownable(state, wish))


def _ownable(state: NodeState, wish: Wish) -> CPUMask:
    ours = state.topology.usable & ~state.pools.reserved
    if wish.pool == ISOLATED:
        ours |= state.topology.aside
    return ours & ~state.pools.kept


def memory_of(container: Container, wish: Wish) -> int:
    """Return the memory that a container may come to use, bytes: our limit, else the kubelet's, 0 without a limit."""
    limit = wish.knobs.memory_limit or record.before_us(container).resources.memory_limit or 0
    return limit if 0 < limit < UNLIMITED_BYTES else 0


def told_memory(state: NodeState, pod_id: str) -> int | None:
    """Return a pod's memory request in bytes, as the companion reported it; None if it did not."""
    facts = state.facts.of(state.pods[pod_id].pod) if pod_id in state.pods else None
    return None if facts is None else facts.memory_bytes


def memory_request_of_pod(state: NodeState, pod_id: str) -> int:
    """Return the bytes that a pod's memory protection may have: the certain part of its request, lowered by facts."""
    return _bound(state, pod_id, told_memory(state, pod_id))


def _kept_request(state: NodeState, pod_id: str) -> int:
    """Return the bytes of a pod's memory request that its nodes keep; a false fact frees none for other pods."""
    return max(_bound(state, pod_id, told) for told in (None, told_memory(state, pod_id)))


def _bound(state: NodeState, pod_id: str, told: int | None) -> int:
    place = state.pods.get(pod_id)
    if place is None:
        return 0
    containers = (assignment.container for assignment in state.of_pod(pod_id))
    return workload.memory_bound_of_pod(place.pod, containers, state.topology.memory_bytes, told)


def _left(state: NodeState, reserved_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return by node the memory that is neither reserved nor promised to a bound container, bytes, at least 0.

    A container bound to several nodes may use any of them. It is counted after the containers bound to fewer nodes,
    and uses the memory that they leave.
    """
    nodes = {n.id: n.memory_bytes for n in state.topology.nodes if n.memory_bytes}
    total = sum(nodes.values())
    left = {node: size - -(-reserved_bytes * size // total) for node, size in nodes.items()}
    for assignment, promised in _promised(state):
        homes = [node for node in cpuset.members(assignment.mems) if node in left]
        for node, part in zip(homes, _parts([left[node] for node in homes], promised), strict=True):
            left[node] -= part
    return tuple((node, max(0, amount)) for node, amount in left.items())


def _promised(state: NodeState) -> Iterator[tuple[Assignment, int]]:
    """Yield each bound container with the bytes that its nodes keep for it; containers of fewer nodes first.

    A tenant sets a limit without any cost. So the limits of one pod count as far as its memory request covers them.
    """
    bound = [a for a in state.containers.of_pool(DEDICATED) if a.mems]
    covered = {k: _kept_request(state, k) for k in {a.container.pod_id for a in bound}}
    for assignment in sorted(bound, key=lambda a: (a.mems.bit_count(), a.id)):
        pod_id = assignment.container.pod_id
        promised = min(memory_of(assignment.container, assignment.wish), covered[pod_id])
        covered[pod_id] -= promised
        yield assignment, promised


def _parts(left: list[int], promised: int) -> list[int]:
    """Return the parts of a promise that leave the nodes level; a promise beyond all memory takes all of it."""
    room = [max(0, amount) for amount in left]
    return levelled(room, promised) if promised < sum(room) else room
