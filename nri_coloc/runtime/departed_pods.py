"""Leave out pods that ended unseen: their StopPodSandbox came while the runtime had no connection to this process."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from nri_coloc.core.decisions import PodRemoved
from nri_coloc.core.seams import After, Observer, all_of, tell
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import Pod
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets

EVERY_S: Final = 15.0
"""Seconds between two looks, as between two comparisons with CRI, which find containers that ended unseen."""


class DepartedPods:
    """Looks from time to time, because a cgroup may still be there when the runtime lists its pod.

    A pod whose cgroup was never seen stays: nothing tells that it ended.

    is_there: returns whether a cgroup exists, by its path below the hierarchies' roots.
    """

    def __init__(self, node: Node, is_there: Callable[[str], bool], after: After) -> None:
        self._node = node
        self._is_there = is_there
        self._follow = partial(tell, after)
        self._seen: frozenset[str] = frozenset()
        self._next_at = 0.0

    def look(self, now: float) -> None:
        """Leave out the pods that have departed, if it is time."""
        if now < self._next_at:
            return
        self._next_at = now + EVERY_S
        pods = self._node.state.pods
        gone = self._seen.intersection(departed(self._node.state, self._is_there))
        self._seen = frozenset(
            k for k, place in pods.items() if k in self._seen or self._has_cgroup(place.pod)
        )
        leave_out(self._node, gone, self._follow)

    def _has_cgroup(self, pod: Pod) -> bool:
        path = targets.pod_path(pod)
        return bool(path) and self._is_there(path)


def departed(state: NodeState, is_there: Callable[[str], bool]) -> Iterator[str]:
    """Yield the ids of pods without a container whose cgroup is gone, or belongs to another pod that has one.

    The runtime's list has every sandbox that was not removed. Some are of completed pods. Others are from before a
    reboot, and a new sandbox lies in the same cgroup. The StopPodSandbox of both came to the previous process, or to
    none. Counted as live they would claim memory, have one cgroup counted twice, or keep a node from being drained.

    is_there: returns whether a cgroup exists, by its path below the hierarchies' roots.
    """
    paths = {pod_id: targets.pod_path(place.pod) for pod_id, place in state.pods.items()}
    inhabited = {a.container.pod_id for a in state.containers.values()}
    taken = {paths[pod_id] for pod_id in inhabited if pod_id in paths}
    for pod_id, path in paths.items():
        if path and pod_id not in inhabited and (path in taken or not is_there(path)):
            yield pod_id


def leave_out(node: Node, gone: Iterable[str], follow: Observer) -> None:
    """Decide that these pods ended, and pass each change on.

    gone: ids of pods.
    """
    for pod_id in gone:
        before = node.state
        follow(all_of(node.decide(PodRemoved(pod_id)), before))
