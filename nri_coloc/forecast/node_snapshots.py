"""Choose the cgroups that each snapshot of the slow loop reads, and how much of each.

One snapshot a minute has every figure, for the metrics. The decisions need only pods' CPU time and memory, and the use
of lent containers in online pods.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.kubepods import of_pods
from nri_coloc.core.readings import GroupReading, MemoryReading, Picture
from nri_coloc.core.state import NodeState
from nri_coloc.forecast.offer import Online
from nri_coloc.forecast.snapshot import Paths, PictureTaker, Subjects
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.placing import online_pods, tiers
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets

EVERY_WHOLE: Final = 12
"""One of so many snapshots, one a minute, also has containers, and pods' I/O and stalls. Metrics show these."""


class NodeSnapshots:
    """Takes snapshots of a node's pods and host groups; belongs to the slow loop's thread.

    host_groups: returns the paths of the reclaim cgroups outside Kubernetes.
    """

    def __init__(self, node: Node, taker: PictureTaker, host_groups: Callable[[], tuple[str, ...]]) -> None:
        self._node = node
        self._taker = taker
        self._host_groups = host_groups
        self._online: tuple[object, object, CPUMask, Online] = (None, None, 0, {})
        self._begun = 0

    @property
    def is_whole(self) -> bool:
        """Return whether the last snapshot has every figure."""
        return not self._begun % EVERY_WHOLE

    def slices(self, state: NodeState, lendable: CPUMask) -> Iterator[Picture | None]:
        """Take the next snapshot: yield None after each slice, and the snapshot in the end."""
        layout = self._taker.layout
        found = with_kubepods(subjects(state, lendable, {path: path for path in self._host_groups()}), layout)
        has_none = not (found.kubepods or found.pods or cgroup_layout.every_kubepods(layout))
        self._begun += 1
        if not self.is_whole:
            shown = _lent_to(self.online(state, lendable), found.containers)
            found = replace(found, containers=shown, amounts_only=True)
        for picture in self._taker.slices(found):
            yield without_pods(picture) if picture is not None and has_none else picture

    def online(self, state: NodeState, lendable: CPUMask) -> Online:
        """Return the online pods; the same mapping until a container comes or goes, or owned CPUs change."""
        owned = tiers.owned(state.pools, lendable)
        pods, containers, known, online = self._online
        if pods is not state.pods or containers is not state.containers or known != owned:
            online = online_pods.online(state, lendable, self._node.memory_bytes)
            self._online = (state.pods, state.containers, owned, online)
        return online


_NO_HOST_GROUPS: Mapping[str, str] = {}


def subjects(
    state: NodeState, lendable: CPUMask, host_groups: Mapping[str, str] = _NO_HOST_GROUPS
) -> Subjects:
    """Return the pods and containers whose cgroups are known, by id.

    host_groups: path by name.
    """
    pods = {pod_id: path for pod_id, place in state.pods.items() if (path := targets.pod_path(place.pod))}
    containers = {one.id: targets.container_path(one) for one in state.containers.values()}
    return Subjects(
        kubepods=of_pods(pods.values()),
        pods=pods,
        containers={container_id: path for container_id, path in containers.items() if path},
        host_groups=host_groups,
        reserved=tiers.beyond(state, lendable),
        nodes=tuple(node.id for node in state.topology.nodes),
    )


def with_kubepods(known: Subjects, layout: CgroupLayout) -> Subjects:
    """Return the subjects with the cgroup of all pods, if the only one exists before the first pod."""
    return known if known.kubepods else replace(known, kubepods=cgroup_layout.only_kubepods(layout))


def without_pods(taken: Picture) -> Picture:
    """Return the snapshot of a node that has no cgroup for pods yet: they use nothing."""
    return replace(taken, kubepods=GroupReading(0, taken.at, usage_us=0, memory=MemoryReading(0)))


def _lent_to(online: Online, containers: Paths) -> Paths:
    """Return the containers whose use is not their pods' own; each snapshot shows them."""
    lent_to = (one for pod in online.values() for one in pod.lent_to)
    return {one: containers[one] for one in lent_to if one in containers}
