"""The reclaim cgroups: the pod cgroups of all reclaimed pods, and the values that are written to them.

Limits on a pod's cgroup are inherited by its containers. So a pod's cgroup is a reclaim cgroup only if every
container in it is reclaimed. The BestEffort QoS cgroup itself is never written: online and system pods are in it too.
"""

from functools import partial
from itertools import chain
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import NO_MOVES, Decision, Figure, Moves, Synchronized
from nri_coloc.core.knobs import KERNELS_IO_WEIGHT, MIN_SHARES, NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import RECLAIM, NodeState, PodPlace
from nri_coloc.core.value import replace
from nri_coloc.core.workload import KEPT_BY_KUBELET, KubeQoS, Pod, QoSClass, Wish
from nri_coloc.placing import change, tiers, vm_pods

SHARES_OF_THE_BOX: Final = MIN_SHARES
"""CPU shares of a reclaim cgroup: the kernel's smallest weight, which protects the p99 latency of online pods."""

_NOT_ABOVE_BURSTABLE: Final = (KubeQoS.BEST_EFFORT, KubeQoS.BURSTABLE)


def with_pod(state: NodeState, pod: Pod, wish: Wish) -> tuple[NodeState, Moves]:
    """Return the state that knows this pod, and a move of the pod if its cgroup must be limited."""
    known = state.pods.get(pod.id)
    if known is not None and known.wish == wish and known.pod == pod:
        return state, NO_MOVES
    boxed = pod.owns_cgroup and belongs(wish) and not _has_others(state, pod.id)
    place = PodPlace(pod, wish, boxed) if known is None else replace(known, pod=pod, wish=wish, boxed=boxed)
    state = change.with_pod(state, place)
    return state, Moves(pods=(pod.id,)) if boxed else NO_MOVES


def with_member(state: NodeState, pod: Pod, wish: Wish) -> tuple[NodeState, Moves]:
    """Return the state before a container of this wish is placed in the pod.

    If its class is not reclaimed, the pod's cgroup is no reclaim cgroup any more.
    """
    place = state.pods.get(pod.id)
    if place is None:
        return with_pod(state, pod, wish)
    if not place.boxed or wish.qos is QoSClass.RECLAIMED:
        return state, NO_MOVES
    inherited = tuple(a.id for a in state.of_pod(pod.id))
    return change.with_pod(state, replace(place, boxed=False)), Moves((pod.id,), inherited)


def belongs(wish: Wish) -> bool:
    """Return whether a pod of this wish is limited as a whole.

    Annotations that give a container another class do not count: the container need not exist. If it is created, it
    takes the pod out (`with_member`). A limit would reach the containers that the kubelet pins, and these do exist.
    """
    is_pinned = KEPT_BY_KUBELET in wish.preserve
    return wish.qos is QoSClass.RECLAIMED and not is_pinned and wish.handler != "ignore"


def has_member_in(listed: Synchronized) -> bool:
    """Return whether the runtime's list has a reclaimed pod or container."""
    wishes = chain((wish for _, wish in listed.pods), (wish for _, wish in listed.containers))
    return any(wish.qos is QoSClass.RECLAIMED for wish in wishes)


def _has_others(state: NodeState, pod_id: str) -> bool:
    return any(a.qos is not QoSClass.RECLAIMED for a in state.of_pod(pod_id))


def has_members(state: NodeState) -> bool:
    """Return whether the node has a reclaimed pod, or a reclaimed container beside online ones of its pod."""
    return bool(state.box) or any(a.pool == RECLAIM for a in state.containers.values())


def weighs_least(state: NodeState) -> bool:
    """Return whether every reclaimed pod has the smallest weight of all pods that share CPUs with it.

    The kubelet gives the smallest weight to the class BestEffort as a whole. The class Burstable has the sum of its
    pods' requests, reclaimed pods included. A reclaimed Burstable pod weighs least among its siblings only, so all
    other pods must be its siblings. A reclaimed container beside online ones of its pod has that pod's weight. If an
    online pod has an equal weight, no reclaimed pod weighs least.
    """
    members = [state.pods[k] for k in state.box]
    if any(a.pool == RECLAIM for a in state.containers.values() if not state.boxed(a.container.pod_id)):
        return False
    if equal(state):
        return False
    if all(place.pod.kube_qos is KubeQoS.BEST_EFFORT for place in members):
        return True
    if any("cpu" in place.wish.preserve for place in members):
        return False  # its weight is not ours to set
    if any(place.pod.kube_qos not in _NOT_ABOVE_BURSTABLE for place in members):
        return False
    siblings = [state.pods.get(k) for k in _rivals(state)]
    return all(place and place.pod.kube_qos is KubeQoS.BURSTABLE for place in siblings)


def equal(state: NodeState) -> str:
    """Return a pod that shares CPUs with reclaimed pods and weighs no more than one of them; "" if there is none.

    No weight is below the weight that the kubelet gives a pod without a CPU request, online or not. Beside reclaimed
    siblings such an online pod gets CPU time as one of them. A class whose pods all have no CPU request has that
    weight, too. Pods of the class system do not count: a node agent without a request gets the CPU time that it would
    get without us.
    """
    classes = {state.pods[k].pod.kube_qos for k in state.box}.intersection(_NOT_ABOVE_BURSTABLE)
    if classes == {KubeQoS.BEST_EFFORT} and not any(_asks_for_cpu(state, p) for p in state.pods.values()):
        classes.add(KubeQoS.BURSTABLE)
    for place in (state.pods[k] for k in _rivals(state) if k in state.pods):
        if place.wish.qos is QoSClass.SYSTEM:
            continue
        if place.pod.kube_qos in classes and not _asks_for_cpu(state, place):
            return place.pod.full_name
    return ""


def _asks_for_cpu(state: NodeState, place: PodPlace) -> bool:
    """Return whether a pod of the class Burstable has more than the smallest weight, by its own requests."""
    if place.pod.kube_qos is not KubeQoS.BURSTABLE:
        return False
    return any((a.container.resources.shares or 0) > MIN_SHARES for a in state.of_pod(place.pod.id))


def _rivals(state: NodeState) -> list[str]:
    """Return the pods outside of the reclaim cgroups that may run on reclaim pool CPUs, now or when the pool grows."""
    others = (a for a in state.containers.values() if not state.boxed(a.container.pod_id))
    return sorted({a.container.pod_id for a in others if tiers.cpus_for(state, a) & state.pools.share})


def knobs(state: NodeState, pod_id: str) -> Knobs:
    """Return the values that belong on a pod's cgroup.

    A reclaim cgroup gets the reclaim pool's CPUs and the smallest weight, every pod gets the I/O weight, and a VM's
    pod gets the values that its containers ask for. A weight competes among siblings only, so a container's weight
    has no effect unless its pod's agrees. (Memory protections are sums over containers: see `protection`.)
    """
    place = state.pods.get(pod_id)
    if place is None or place.wish.handler == "ignore":
        return NO_KNOBS
    own = NO_KNOBS
    if place.wish.handler == "pod":
        if not place.pod.owns_cgroup:
            return NO_KNOBS  # a cgroup with other users is never written
        own = vm_pods.knobs(state, place)
    own = own._replace(io_weight=io_weight(state, pod_id))
    if tiers.is_held_to_box(place):
        return own._replace(cpus=cpuset.render(state.pools.reclaim), shares=SHARES_OF_THE_BOX)
    return own


def io_weight(state: NodeState, pod_id: str) -> int | None:
    """Return a pod's I/O weight: its containers' highest, its own while it has no container; None leaves the kernel's.

    A container's weight competes among its pod's containers. Against other pods it counts only as far as the pod has
    it.
    """
    place = state.pods.get(pod_id)
    if place is None:
        return None
    own = place.wish.knobs.io_weight
    members = [assignment.wish.knobs.io_weight for assignment in state.of_pod(pod_id)]
    if members.count(own) == len(members):  # `all` makes a generator, four times in each creation and end
        return own
    return max(weight or KERNELS_IO_WEIGHT for weight in members)


SHOWN: Final = ("containers", "own_io_weight", "highest_io_weight", "overhead_bytes")
"""The figures of a pod's own values that a sentence ends with."""


def figures(state: NodeState, pod_id: str) -> dict[str, Figure]:
    """Return by name the figures of a pod's own values: its containers, their I/O weights, the reclaim pool's CPUs."""
    place, members = state.pods[pod_id], tuple(state.of_pod(pod_id))
    weights = [member.wish.knobs.io_weight or KERNELS_IO_WEIGHT for member in members]
    return {
        "containers": len(members),
        "own_io_weight": place.wish.knobs.io_weight,
        "highest_io_weight": max(weights, default=None),
        "reclaim_cpus": cpuset.render(state.pools.reclaim),
    }


def limit(before: NodeState, state: NodeState, pod: Pod, wish: Wish) -> Decision | None:
    """Return the decision on the values that a pod's cgroup gets and did not have; None if there are none."""
    values, had = knobs(state, pod.id), knobs(before, pod.id)
    changed = values.differing(had)
    if changed == NO_KNOBS:
        return None
    said = partial(Decision, AuditEvent.POD_LIMIT, pod_id=pod.id, after=changed, qos=wish.qos)
    of_vm = vm_pods.inputs(state, pod) if wish.handler == "pod" else {}
    said = partial(said, inputs=figures(state, pod.id) | of_vm)
    said = partial(said, before=had.where_set(changed))
    in_a_vm = vm_pods.words(pod) if wish.handler == "pod" else ""
    if state.boxed(pod.id):
        why = f"limited to the reclaim pool with minimum weight: class reclaimed by {wish.because}{in_a_vm}"
        # a pod is limited when it starts, before its first container
        shows = ("reclaim_cpus", "containers") if state.of_pod(pod.id) else ("reclaim_cpus",)
        return said(Reason.BOX_MEMBER, why, pool=RECLAIM, shows=shows)
    why = f"values of its containers set on the pod: class {wish.qos.value} by {wish.because}{in_a_vm}"
    return said(Reason.POOL_MEMBER, why, shows=SHOWN)
