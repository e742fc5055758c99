"""Who on the node is measured, and as what: from the policy's state to what `sampling` is told.

Computed anew when the state has changed, by whoever samples. Pods and containers whose cgroup cannot be told are left
out: what they use then counts as online use, never as the box's.
"""

from collections.abc import Mapping

from nri_coloc.daemon import targets
from nri_coloc.model.readings import Role
from nri_coloc.model.state import Assignment, NodeState, PodPlace
from nri_coloc.model.workload import Pod, QoSClass
from nri_coloc.sampling import cgroup_layout, groups
from nri_coloc.sampling.groups import ContainerFacts, Facts, PodFacts
from nri_coloc.sampling.picture import Subjects

_NO_HOST_GROUPS: Mapping[str, str] = {}


def facts(state: NodeState, host_groups: tuple[str, ...] = ()) -> Facts:
    """Return what the fast tick's choice of cgroups needs; `host_groups` are paths."""
    pods = tuple(_of_pod(state, pod_id, place) for pod_id, place in state.pods.items() if _path(place.pod))
    return Facts(_kubepods(state), pods, host_groups, reserved=state.pools.reserved)


def subjects(state: NodeState, host_groups: Mapping[str, str] = _NO_HOST_GROUPS) -> Subjects:
    """Return who is in the full picture; `host_groups`: path by name."""
    pods = {pod_id: _path(place.pod) for pod_id, place in state.pods.items() if place.pod.owns_cgroup}
    containers = {one.id: targets.container_path(one) for one in state.containers.values()}
    return Subjects(
        _kubepods(state),
        {pod_id: path for pod_id, path in pods.items() if path},
        {container_id: path for container_id, path in containers.items() if path},
        host_groups,
        state.pools.reserved,
        tuple(node.id for node in state.topology.nodes),
    )


def _of_pod(state: NodeState, pod_id: str, place: PodPlace) -> PodFacts:
    path = _path(place.pod)
    if place.boxed:
        return PodFacts(path, Role.BOX)
    if place.wish.qos in (QoSClass.SYSTEM, QoSClass.RECLAIMED) or not place.pod.owns_cgroup:
        # agents, and offline pods that the box cannot hold: nobody asks whether they wait
        return PodFacts(path, Role.SYSTEM)
    members = [one for one in state.of_pod(pod_id) if one.qos is not QoSClass.RECLAIMED]
    containers = (_of_container(state, one) for one in members)
    shares = any(state.cpus_of(one) & state.pools.reclaim for one in members) or not members
    return PodFacts(path, Role.ONLINE, tuple(one for one in containers if one is not None), shares)


def _of_container(state: NodeState, assignment: Assignment) -> ContainerFacts | None:
    path = targets.container_path(assignment)
    if path is None:
        return None
    owned = not state.cpus_of(assignment) & ~state.pools.dedicated
    return ContainerFacts(path, owned, (assignment.container.resources.quota or 0) > 0)


def _kubepods(state: NodeState) -> str:
    """Return where this node's pods live, by the paths that the kubelet gave them; "" while there is none."""
    found = (groups.kubepods_of(_path(place.pod)) for place in state.pods.values())
    return next(filter(None, found), "")


def _path(pod: Pod) -> str:
    try:
        return cgroup_layout.pod_path(pod.cgroup_parent)
    except ValueError:
        return ""
