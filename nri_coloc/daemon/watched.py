"""From the node's state to who is in the full picture, by id; `lookout` says it for the fast loop."""

from collections.abc import Mapping
from dataclasses import replace

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.readings import GroupReading, MemoryReading, Picture
from nri_coloc.core.state import NodeState
from nri_coloc.daemon import targets
from nri_coloc.forecast.snapshot import Subjects
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.placing import whereabouts

_NO_HOST_GROUPS: Mapping[str, str] = {}


def subjects(
    state: NodeState, lendable: CPUMask, host_groups: Mapping[str, str] = _NO_HOST_GROUPS
) -> Subjects:
    """Return everybody whose cgroup can be told; `host_groups`: path by name."""
    pods = {pod_id: path for pod_id, place in state.pods.items() if (path := targets.pod_path(place.pod))}
    containers = {one.id: targets.container_path(one) for one in state.containers.values()}
    return Subjects(
        next(filter(None, map(kubepods_of, pods.values())), ""),
        pods,
        {container_id: path for container_id, path in containers.items() if path},
        host_groups,
        whereabouts.beyond(state, lendable),
        tuple(node.id for node in state.topology.nodes),
    )


def with_kubepods(known: Subjects, layout: CgroupLayout) -> Subjects:
    """Return the subjects with the cgroup of all pods, if it is there before the first pod."""
    return known if known.kubepods else replace(known, kubepods=cgroup_layout.kubepods_in(layout))


def without_pods(taken: Picture) -> Picture:
    """Return the picture of a node that has no cgroup for pods yet: whoever is not there uses nothing."""
    return replace(taken, kubepods=GroupReading(0, taken.at, usage_us=0, memory=MemoryReading(0)))
