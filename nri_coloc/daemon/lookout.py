"""From the node's state to what the fast loop looks at: whose cgroup is whose, in `sampling`'s own words."""

from collections.abc import Iterator, Mapping

from nri_coloc.daemon import targets
from nri_coloc.model.kubepods import kubepods_of
from nri_coloc.model.readings import Role
from nri_coloc.model.state import Assignment, NodeState, PodPlace
from nri_coloc.model.workload import QoSClass
from nri_coloc.reclaim import bands
from nri_coloc.sampling import groups
from nri_coloc.sampling.groups import ContainerFacts, Facts, Group, PodFacts, TierFacts


def groups_of(state: NodeState, host_groups: tuple[str, ...] = ()) -> tuple[Group, ...]:
    """Return the groups of cgroups that tell what online pods, the system and the box use.

    `host_groups`: members of the box outside Kubernetes.
    """
    pods = tuple(_pods(state))
    kubepods = next(filter(None, (kubepods_of(pod.path) for pod in pods)), "")
    return groups.choose(Facts(kubepods, pods, host_groups, reserved=state.pools.reserved))


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


def _pods(state: NodeState) -> Iterator[PodFacts]:
    for pod_id, place in state.pods.items():
        path = targets.pod_path(place.pod)
        if path:
            members = tuple(state.of_pod(pod_id))
            yield PodFacts(
                path, _role(place), tuple(_containers(state, members)), _shares_box(state, members)
            )


def _role(place: PodPlace) -> Role:
    """A pod with offline containers that is no member of the box waits by design: its stalls are nobody's fault."""
    if place.boxed:
        return Role.BOX
    return Role.ONLINE if place.wish.qos in (QoSClass.SHARED, QoSClass.DEDICATED) else Role.SYSTEM


def _containers(state: NodeState, members: tuple[Assignment, ...]) -> Iterator[ContainerFacts]:
    for assignment in members:
        path = targets.container_path(assignment)
        if path is not None and assignment.qos is not QoSClass.RECLAIMED:
            owned = bool(state.cpus_of(assignment) & state.pools.dedicated)
            quota = assignment.knobs.quota or assignment.container.resources.quota or 0
            yield ContainerFacts(path, dedicated=owned, limited=quota > 0)


def _shares_box(state: NodeState, members: tuple[Assignment, ...]) -> bool:
    """Whether a reclaimed task may ever run on CPUs of these; all of `share` may be lent."""
    return not members or any(state.cpus_of(a) & state.pools.share for a in members)
