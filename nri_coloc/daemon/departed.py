"""Pods that the runtime still lists and that are no more.

Its list has every sandbox that was not removed: of pods that completed, and of those from before a reboot, whose new
sandboxes lie in the same cgroup. StopPodSandbox, by which they would be forgotten, was told to a former life or to
nobody. Counted among the living they would claim memory, or have one cgroup counted twice.
"""

from collections.abc import Callable, Iterator

from nri_coloc.core.state import NodeState
from nri_coloc.daemon import targets


def pods(state: NodeState, is_there: Callable[[str], bool]) -> Iterator[str]:
    """Yield the ids of pods without a container whose cgroup is gone, or is another's that has one.

    `is_there`: whether a cgroup is, by its path below the hierarchies' roots. Whoever lies in others' cgroups stays.
    """
    paths = {pod_id: targets.pod_path(place.pod) for pod_id, place in state.pods.items()}
    inhabited = {a.container.pod_id for a in state.containers.values()}
    taken = {paths[pod_id] for pod_id in inhabited if pod_id in paths}
    for pod_id, path in paths.items():
        if path and pod_id not in inhabited and (path in taken or not is_there(path)):
            yield pod_id
