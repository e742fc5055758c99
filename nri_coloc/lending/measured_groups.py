"""The groups of cgroups that the fast loop reads, derived from the node's state."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.readings import Role
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import Assignment, NodeState, PodPlace, Pools
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import QoSClass
from nri_coloc.lending import bands, groups
from nri_coloc.lending.groups import ContainerFacts, Facts, Group, PodFacts, TierFacts
from nri_coloc.placing import whereabouts
from nri_coloc.repair import targets


class _Seen(NamedTuple):
    """A pod when its facts were computed.

    facts: None if it has none.
    """

    place: PodPlace
    members: tuple[Assignment, ...]
    facts: PodFacts | None


class PodFactsCache:
    """The facts of a node's pods, computed once for as long as the pod, its containers and the pools stay.

    On a busy node pods come and go all the time, and all other pods stay as they were. A container that follows another
    one's CPUs is in the same pod, so there are no further inputs. Used by one thread.
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
    pod_facts: PodFactsCache | None = None,
) -> tuple[Group, ...]:
    """Return the groups that show the use of lendable CPUs by online pods and the system, and the reclaim cgroups.

    host_groups: the host groups among the reclaim cgroups.
    pod_facts: facts of pods from earlier states.
    """
    pods = (pod_facts or PodFactsCache()).of(state, whereabouts.owned(state.pools, lendable))
    kubepods = next(filter(None, (kubepods_of(pod.path) for pod in pods)), "")
    return groups.choose(Facts(kubepods, pods, host_groups, reserved=whereabouts.beyond(state, lendable)))


def is_the_same(seen: NodeState, state: NodeState, tuning: ReclaimTuning) -> bool:
    """Return whether both states have the same groups: equal pods, containers, lendable and owned CPUs."""
    if seen is state:
        return True
    if seen.pods is not state.pods or seen.containers is not state.containers:
        return False
    return seen.pools is state.pools or _divided(seen, tuning) == _divided(state, tuning)


def _divided(state: NodeState, tuning: ReclaimTuning) -> tuple[CPUMask, CPUMask, CPUMask]:
    lendable = whereabouts.lendable(state.pools, tuning)
    return lendable, whereabouts.owned(state.pools, lendable), state.topology.machine


def tier_groups_of(state: NodeState) -> tuple[Group, ...]:
    """Return the groups of cgroups that show the use of each tier."""
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
    """Return the tier that a container's use counts for, "" for none.

    The use of reclaimed containers counts for no tier. The same holds on owned CPUs, and on CPUs that are left alone.
    """
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
        # no pod has this cgroup alone, so no other cgroup may be taken for the sum of its pods
        return PodFacts(known[0].path.rpartition("/")[0], Role.SYSTEM, known)
    return None


def _is_apart(state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask) -> bool:
    """Return whether all of a pod's containers run on owned CPUs only; False for a pod held to the reclaim pool."""
    if whereabouts.is_held_to_box(place) or not members:
        return False
    return all(whereabouts.is_apart(state, a, owned) for a in members)


def _role(place: PodPlace) -> Role:
    """Return the role of a pod's cgroup.

    A pod with reclaimed containers but without a reclaim cgroup waits by design: its stalls are not blamed on lending.
    The same holds for a reclaimed pod that preserves its CPUs. No size of the reclaim pool bounds its use, which is a
    claim like any other.
    """
    if whereabouts.is_held_to_box(place):
        return Role.BOX
    return Role.ONLINE if place.wish.qos in (QoSClass.SHARED, QoSClass.DEDICATED) else Role.SYSTEM


def _as_one(path: str, members: tuple[Assignment, ...]) -> Iterator[ContainerFacts]:
    """Yield the pod's cgroup as the one container of a VM; containers in the guest have no cgroup."""
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
    """Return whether reclaimed tasks may run on CPUs of these containers; all CPUs of `share` may be lent."""
    return not members or any(whereabouts.of(state, a) & state.pools.share for a in members)
