"""The node as the policy holds it: an immutable value that each event replaces.

A shared container does not store its CPUs: it names its pool, and the pool's set is derived from what
dedicated containers own. So taking CPUs changes one number, however many containers share the pool, and
no copy can disagree. `cpus_of` is the one place that turns an assignment into a set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.crowd import EMPTY, Crowd
from nri_coloc.model.knobs import NO_KNOBS, Knobs
from nri_coloc.model.topology import Topology
from nri_coloc.model.tuning import PoolTuning
from nri_coloc.model.value import value
from nri_coloc.model.workload import DEFAULT_WISH, Container, Finding, Pod, QoSClass, Wish

DEDICATED: Final = "dedicated"
RESERVED: Final = "reserved"
SYSTEM: Final = "system"
SHARE: Final = "share"
RECLAIM: Final = "reclaim"
POOLS: Final = (RESERVED, DEDICATED, SYSTEM, SHARE, RECLAIM)
"""The pools that always exist, in the order in which they are shown."""


ENDED: Final = 64
"""Ended containers that are remembered. The runtime may report the start of a container after its end, some
milliseconds later; so the number of containers that end meanwhile counts."""


class Asked(NamedTuple):
    """What the members of a pool ask for: thousandths of a CPU in all, and how many members there are."""

    milli: int
    members: int


@value
class Pools:
    """The CPU set of every pool; recomputed only when exclusive CPUs, members' requests or the machine change.

    `kept` is no pool: CPUs that the kubelet's own CPU manager has pinned, taken out of all of them. `tiers`: the
    operator's pools, and of those with groups one by group that has a member; one without CPUs of its own is a name
    over `share` (or `system`). The rest is what they follow from: `plan`, the operator's wish; `asked`, by tier;
    `counts`, how many CPUs the loop told a pool to have (`events.PoolsSized`). Without a count for it `reclaim` is the
    same set as `share`; with a count for `share` the two are apart. `claimed`: CPUs that dedicated containers had and
    are about to get again, while a list is replayed.
    """

    reserved: CPUMask = 0
    dedicated: CPUMask = 0
    system: CPUMask = 0
    share: CPUMask = 0
    reclaim: CPUMask = 0
    kept: CPUMask = 0
    tiers: Mapping[str, CPUMask] = field(default_factory=dict)
    plan: tuple[PoolTuning, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    claimed: CPUMask = 0

    def cpus(self, pool: str) -> CPUMask:
        """Return a pool's set; an unknown name is the shared pool, so that no container is ever without."""
        return getattr(self, pool) if pool in POOLS else self.tiers.get(pool, self.share)

    @property
    def allocatable(self) -> CPUMask:
        """What the online pools and the box have together."""
        return self.system & ~self.reserved

    @property
    def free(self) -> CPUMask:
        """CPUs that a dedicated container may take: offline pods never stand in its way."""
        return self.share | self.reclaim


@value
class Assignment:
    """Where one container was put. At most one of `exclusive` and `follows` is set.

    `exclusive`: CPUs that are its own. `follows`: id of the container of its pod on whose CPUs it runs.
    `mems`: memory nodes, 0 = all of them. `hands_off`: we decided to leave its CPUs alone.
    `by_file`: no answer of ours to its creation reached the runtime, so files must carry every value.
    `original`: what the runtime's spec held before us, for `restore`. `granted`: of a loan, the values that are
    other than those lent, because less is there to be lent. `returned`: values that are not ours any more, as they were
    before us; they hold where nothing else is ordered.
    `admitted_in`: the generation of the state in which it was placed first; of two containers the lower is the older.
    """

    container: Container
    qos: QoSClass
    pool: str
    exclusive: CPUMask = 0
    follows: str = ""
    mems: CPUMask = 0
    hands_off: bool = False
    by_file: bool = False
    knobs: Knobs = NO_KNOBS
    original: Knobs = NO_KNOBS
    wish: Wish = DEFAULT_WISH
    granted: Knobs = NO_KNOBS
    returned: Knobs = NO_KNOBS
    admitted_in: int = field(default=0, compare=False)

    @property
    def id(self) -> str:
        """The container's id."""
        return self.container.id


class Unstarted(NamedTuple):
    """A container that has not started, and the CPUs that the runtime's specification of it names."""

    container_id: str
    cpus: CPUMask


@value
class PodPlace:
    """A pod and its own wish.

    boxed: the pod's cgroup is one of the reclaim cgroups: the pod is reclaimed, and no annotation gives one of its
        containers another class (DESIGN invariant 6).
    told: annotations that were reported not to count, see `policy.news`.
    unstarted: containers of the pod whose CPUs its cgroup must have until they start, see `policy.starts`. No part of a
        comparison: each change of it comes with a change of the container.
    """

    pod: Pod
    wish: Wish = DEFAULT_WISH
    boxed: bool = False
    told: tuple[Finding, ...] = ()
    unstarted: tuple[Unstarted, ...] = field(default=(), compare=False)


@value
class NodeState:
    """Everything the policy knows. `generation` rises with each adopted event.

    `pods`: the oldest first. `owners` repeats, by container, the exclusive sets, and `box` the ids of the boxed pods:
    few, while containers and pods are many. `ended`: ids of containers that stopped, the latest last, at most `ENDED`.
    """

    topology: Topology
    pools: Pools
    pods: Mapping[str, PodPlace] = field(default_factory=dict)
    containers: Crowd = field(default_factory=lambda: EMPTY)
    owners: Mapping[str, CPUMask] = field(default_factory=dict)
    generation: int = 0
    box: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

    def of_pod(self, pod_id: str) -> Iterator[Assignment]:
        """Yield the assignments of one pod."""
        return self.containers.of_pod(pod_id)

    def boxed(self, pod_id: str) -> bool:
        """Whether a pod's cgroup belongs to the reclaim box."""
        place = self.pods.get(pod_id)
        return place is not None and place.boxed

    def mems_of(self, assignment: Assignment) -> CPUMask:
        """Return the memory nodes that a container is bound to; where it is not, those of CPUs of its own, else all.

        Memory comes from the node of the CPU that touches it first while that has some, bound or not. In a VM a
        container is bound where its pod is.
        """
        is_unit = assignment.wish.handler == "pod"
        bound = self.mems_bound(assignment.container.pod_id) if is_unit else assignment.mems
        near = self.topology.nodes_of(assignment.exclusive) & self.topology.all_mems
        return bound or near or self.topology.all_mems

    def mems_bound(self, pod_id: str) -> CPUMask:
        """Return the memory nodes that all of a pod's containers together are bound to, 0 if one of them is not."""
        mems = [each.mems for each in self.of_pod(pod_id) if not each.hands_off]
        return reduce(or_, mems, 0) if all(mems) else 0

    def cpus_of(self, assignment: Assignment) -> CPUMask:
        """Return the CPUs a container may use; never empty."""
        if assignment.exclusive:
            return assignment.exclusive
        main = self.containers.get(assignment.follows) if assignment.follows else None
        if main is not None and main.exclusive:
            return main.exclusive
        if assignment.pool == DEDICATED:
            return self.pools.share  # a follower whose main container is gone; never somebody else's CPUs
        return self.pools.cpus(assignment.pool) or self.pools.share
