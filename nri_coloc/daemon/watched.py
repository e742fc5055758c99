"""From the node's state to who is in the full picture, by id; `lookout` says it for the fast loop."""

from collections.abc import Mapping

from nri_coloc.daemon import targets
from nri_coloc.model.state import NodeState
from nri_coloc.sampling import groups
from nri_coloc.sampling.picture import Subjects

_NO_HOST_GROUPS: Mapping[str, str] = {}


def subjects(state: NodeState, host_groups: Mapping[str, str] = _NO_HOST_GROUPS) -> Subjects:
    """Return everybody whose cgroup can be told; `host_groups`: path by name."""
    pods = {pod_id: path for pod_id, place in state.pods.items() if (path := targets.pod_path(place.pod))}
    containers = {one.id: targets.container_path(one) for one in state.containers.values()}
    return Subjects(
        next(filter(None, map(groups.kubepods_of, pods.values())), ""),
        pods,
        {container_id: path for container_id, path in containers.items() if path},
        host_groups,
        state.pools.reserved,
        tuple(node.id for node in state.topology.nodes),
    )
