"""From the node's state to what the fast loop looks at: whose cgroup is whose, in `sampling`'s own words."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.readings import Role
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import Assignment, NodeState, PodPlace, Pools
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import QoSClass
from nri_coloc.daemon import targets
from nri_coloc.lending import bands, groups
from nri_coloc.lending.groups import ContainerFacts, Facts, Group, PodFacts, TierFacts
from nri_coloc.placing import whereabouts


class _Seen(NamedTuple):
    """A pod as it was when its facts were worked out; None: it has none."""

    place: PodPlace
    members: tuple[Assignment, ...]
    facts: PodFacts | None


class Acquaintance:
    """The facts of a node's pods, each worked out once for as long as the pod, its containers and the pools stay.

    Somebody comes or goes all the time on a busy node, and all others are what they were. A container that follows
    another one's CPUs is in the same pod, so nothing beyond these three counts. Used by one thread.
    """

    def __init__(self) -> None:
        self._in: tuple[Pools | None, Topology | None, CPUMask] = (None, None, 0)
        self._pods: dict[str, _Seen] = {}

    def of(self, state: NodeState, owned: CPUMask) -> tuple[PodFacts, ...]:
        """Return the facts of all pods of a state."""
        pools, topology, known_owned = self._in
        if pools is not state.pools or topology is not state.topology or known_owned != owned:
            self._in, self._pods = (state.pools, state.topology, owned), {}
        before, self._pods = self._pods, {}
        for pod_id, place in state.pods.items():
            members = tuple(state.of_pod(pod_id))
            seen = before.get(pod_id)
            if seen is None or seen.place is not place or seen.members != members:
                seen = _Seen(place, members, _facts(state, place, members, owned))
            self._pods[pod_id] = seen
        return tuple(seen.facts for seen in self._pods.values() if seen.facts is not None)


def groups_of(
    state: NodeState,
    lendable: CPUMask,
    host_groups: tuple[str, ...] = (),
    acquaintance: Acquaintance | None = None,
) -> tuple[Group, ...]:
    """Return the groups of cgroups that tell what online pods and the system use of the lendable CPUs, and the box.

    `host_groups`: members of the box outside Kubernetes. `acquaintance`: what is known of those who were there before.
    """
    pods = (acquaintance or Acquaintance()).of(state, whereabouts.owned(state.pools, lendable))
    kubepods = next(filter(None, (kubepods_of(pod.path) for pod in pods)), "")
    return groups.choose(Facts(kubepods, pods, host_groups, reserved=whereabouts.beyond(state, lendable)))


def is_the_same(seen: NodeState, state: NodeState, tuning: ReclaimTuning) -> bool:
    """Whether both have the same groups: nobody came or went, and no CPU is lendable or owned that was not before."""
    if seen is state:
        return True
    if seen.pods is not state.pods or seen.containers is not state.containers:
        return False
    return seen.pools is state.pools or _divided(seen, tuning) == _divided(state, tuning)


def _divided(state: NodeState, tuning: ReclaimTuning) -> tuple[CPUMask, CPUMask, CPUMask]:
    lendable = whereabouts.lendable(state.pools, tuning)
    return lendable, whereabouts.owned(state.pools, lendable), state.topology.machine


def tier_groups_of(state: NodeState) -> tuple[Group, ...]:
    """Return the groups of cgroups that tell what the members of each tier use."""
    tiers = {
        pool: bands.tier_of(pool, state.pools.plan) for pool in {a.pool for a in state.containers.values()}
    }
    pods = [_tier_facts(state, pod_id, place, tiers) for pod_id, place in state.pods.items()]
    kubepods = next(filter(None, (kubepods_of(pod.path) for pod in pods)), "")
    return groups.choose_tiers(kubepods, pods)


def _tier_facts(state: NodeState, pod_id: str, place: PodPlace, tiers: Mapping[str, str]) -> TierFacts:
    path = targets.pod_path(place.pod)
    members = {a: _tier_of(state, a, tiers) for a in state.of_pod(pod_id)}
    found = set(members.values())
    if path and len(found) == 1:
        return TierFacts(path, found.pop())
    paths = ((targets.container_path(a), tier) for a, tier in members.items() if tier)
    return TierFacts(path, containers=tuple((cgroup, tier) for cgroup, tier in paths if cgroup))


def _tier_of(state: NodeState, assignment: Assignment, tiers: Mapping[str, str]) -> str:
    """Return whose use a container's is; that of one on CPUs that are owned, or that are not ours to choose, is no
    tier's."""
    if assignment.qos is QoSClass.RECLAIMED or assignment.hands_off:
        return ""
    return "" if state.cpus_of(assignment) & state.pools.dedicated else tiers[assignment.pool]


def _facts(
    state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask
) -> PodFacts | None:
    path = targets.pod_path(place.pod)
    if place.wish.handler == "pod":
        known = tuple(_as_one(path, members))
    else:
        known = tuple(_containers(state, place, members, owned))
    if path:
        apart = _is_apart(state, place, members, owned)
        return PodFacts(path, _role(place), known, _shares_box(state, members), apart)
    if known:
        # nobody's alone, so that no other cgroup may be taken for the sum of its pods
        return PodFacts(known[0].path.rpartition("/")[0], Role.SYSTEM, known)
    return None


def _is_apart(state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask) -> bool:
    """Whether all of a pod's use is beside what is lent; that of the box is known as its own."""
    if whereabouts.is_held_to_box(place) or not members:
        return False
    return all(whereabouts.is_apart(state, a, owned) for a in members)


def _role(place: PodPlace) -> Role:
    """A pod with offline containers that is no member of the box waits by design: its stalls are nobody's fault.

    So does a member that the box does not hold, whose use no size of the box bounds: it is a claim as any other.
    """
    if whereabouts.is_held_to_box(place):
        return Role.BOX
    return Role.ONLINE if place.wish.qos in (QoSClass.SHARED, QoSClass.DEDICATED) else Role.SYSTEM


def _as_one(path: str, members: tuple[Assignment, ...]) -> Iterator[ContainerFacts]:
    """A VM is one container, whose cgroup is its pod's; those in the guest have none."""
    if path and members:
        yield ContainerFacts(path, limited=any(map(_is_limited, members)))


def _containers(
    state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask
) -> Iterator[ContainerFacts]:
    for assignment in members:
        path = targets.container_path(assignment)
        if path is None:
            continue
        if assignment.qos is not QoSClass.RECLAIMED:
            apart = whereabouts.is_apart(state, assignment, owned)
            yield ContainerFacts(path, apart=apart, limited=_is_limited(assignment))
        elif whereabouts.is_lent_to(place, assignment):
            yield ContainerFacts(path, boxed=True)


def _is_limited(assignment: Assignment) -> bool:
    return max(assignment.knobs.quota or 0, assignment.container.resources.quota or 0) > 0


def _shares_box(state: NodeState, members: tuple[Assignment, ...]) -> bool:
    """Whether a reclaimed task may ever run on CPUs of these; all of `share` may be lent."""
    return not members or any(whereabouts.of(state, a) & state.pools.share for a in members)
