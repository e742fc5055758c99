"""The node's state: an immutable value that each event replaces, and its index of containers.

`Crowd` holds the containers by id. Copying a dict of 250 takes 1.5 µs while it is in the processor's caches. A hook
finds it cold and pays five times that, because each container's reference count is written. So containers lie on
shelves by the last character of their id (16 for a hexadecimal id). A pod's containers lie together on shelves by the
pod's id, too. The order is by shelf, then by age: the same on every run, unlike the order of a set.

Beside each shelf are the ids of its containers by pool. So a query for the containers of one pool reads no other
container, and a query for their ids reads no container at all: each one costs a miss of the processor's caches. A
container that starts or ends changes only that part of its own shelf.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import field
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, Final, NamedTuple, TypeVar, overload

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.pod_facts import NO_FACTS, Lent, PodFacts
from nri_coloc.core.settings import PoolTuning
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import value
from nri_coloc.core.workload import DEFAULT_WISH, Container, Finding, Pod, QoSClass, Wish

_T = TypeVar("_T")

_SHELVES: Final = 32


Index = list[dict[str, tuple[_T, ...]]]
"""Containers, or their ids, by a common property; never changed in place."""


class Crowd(Mapping[str, "Assignment"]):
    """An immutable index of containers. Two with the same containers are equal.

    unmanaged: the ids of containers whose own cgroup does not get the CPUs of their pool (`Assignment.is_managed`).
    """

    __slots__ = ("_by_id", "_by_pod", "_by_pool", "unmanaged")

    def __init__(
        self,
        by_id: list[dict[str, "Assignment"]],
        by_pod: Index["Assignment"],
        by_pool: Index[str],
        unmanaged: frozenset[str],
    ) -> None:
        self._by_id = by_id
        self._by_pod = by_pod
        self._by_pool = by_pool
        self.unmanaged = unmanaged

    @classmethod
    def of(cls, assignments: Iterable["Assignment"]) -> "Crowd":
        """Return a crowd of these containers."""
        return reduce(Crowd.adding, assignments, EMPTY)

    def __getitem__(self, container_id: str) -> "Assignment":
        return self._by_id[_shelf(container_id)][container_id]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._by_id)

    def __len__(self) -> int:
        return sum(map(len, self._by_id))

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._by_id[_shelf(str(container_id))]

    @overload
    def get(self, container_id: str, /) -> "Assignment | None": ...
    @overload
    def get(self, container_id: str, /, default: "Assignment | _T") -> "Assignment | _T": ...
    def get(self, container_id: str, /, default: Any = None) -> Any:
        """Return a container, or the default if it is not there.

        The inherited method raises and catches an exception for a missing key.
        """
        return self._by_id[_shelf(container_id)].get(container_id, default)

    def values(self) -> ValuesView["Assignment"]:
        """Return a view of the containers.

        The inherited view looks each container up by its id and takes five times as long.
        """
        return _Values(self)

    def items(self) -> ItemsView[str, "Assignment"]:
        """Return a view of (id, container), faster than the inherited one."""
        return _Items(self)

    @property
    def shelves(self) -> list[dict[str, "Assignment"]]:
        """The containers by id, shelf by shelf; read only."""
        return self._by_id

    def of_pod(self, pod_id: str) -> tuple["Assignment", ...]:
        """Return the containers of one pod, oldest first."""
        return self._by_pod[_shelf(pod_id)].get(pod_id, ())

    def of_pool(self, pool: str) -> list["Assignment"]:
        """Return the containers whose assignment names a pool, by shelf, then in the order in which they joined it."""
        shelves = zip(self._by_id, self._by_pool, strict=True)
        return [shelf[k] for shelf, pools in shelves if pool in pools for k in pools[pool]]

    def ids_of_pool(self, pool: str) -> Iterator[str]:
        """Return the ids of the containers whose assignment names a pool, in the order of `of_pool`."""
        return chain.from_iterable([pools[pool] for pools in self._by_pool if pool in pools])

    def in_pool(self, pool: str) -> int:
        """Return the number of containers whose assignment names a pool."""
        return sum([len(pools[pool]) for pools in self._by_pool if pool in pools])

    def news(self, before: "Crowd") -> Iterator["Assignment"]:
        """Yield assignments that are new or changed since another crowd. Shelves that both share are skipped."""
        for shelf, former in zip(self._by_id, before.shelves, strict=True):
            if shelf is not former:
                yield from (a for k, a in shelf.items() if former.get(k) is not a)

    def adding(self, assignment: "Assignment") -> "Crowd":
        """Return a copy with an assignment added, or in place of the one with its id."""
        by_id, by_pool = self._by_id.copy(), self._by_pool
        container_id, pool = assignment.container.id, assignment.pool
        number = _shelf(container_id)
        shelf = by_id[number] = by_id[number].copy()
        former = shelf.get(container_id)
        if former is None:
            by_pool = _with(by_pool, number, pool, container_id)
        elif former.pool != pool:
            by_pool = _with(_less(by_pool, number, former.pool, container_id), number, pool, container_id)
        shelf[container_id] = assignment
        unmanaged = self.unmanaged
        if assignment.is_managed == (container_id in unmanaged):
            unmanaged ^= {container_id}
        return Crowd(by_id, self._in_its_pod(assignment, former), by_pool, unmanaged)

    def _in_its_pod(self, assignment: "Assignment", former: "Assignment | None") -> Index["Assignment"]:
        """Return the containers by pod with an assignment in the place of the former one, or as the youngest."""
        by_pod, pod_id = self._by_pod, assignment.container.pod_id
        number = _shelf(pod_id)
        if former is not None and former.container.pod_id == pod_id:
            by_pod = by_pod.copy()
            shelf = by_pod[number] = by_pod[number].copy()
            shelf[pod_id] = tuple([assignment if a is former else a for a in shelf[pod_id]])
            return by_pod
        if former is not None:
            by_pod = _less(by_pod, _shelf(former.container.pod_id), former.container.pod_id, former)
        return _with(by_pod, number, pod_id, assignment)

    def without(self, container_id: str) -> "Crowd":
        """Return a copy without a container, or the crowd itself if it is not there."""
        number = _shelf(container_id)
        if container_id not in self._by_id[number]:
            return self
        by_id = self._by_id.copy()
        shelf = by_id[number] = by_id[number].copy()
        gone = shelf.pop(container_id)
        pod_id = gone.container.pod_id
        by_pod = _less(self._by_pod, _shelf(pod_id), pod_id, gone)
        by_pool = _less(self._by_pool, number, gone.pool, container_id)
        unmanaged = self.unmanaged
        if container_id in unmanaged:
            unmanaged -= {container_id}
        return Crowd(by_id, by_pod, by_pool, unmanaged)


def _with(index: Index[_T], number: int, key: str, item: _T) -> Index[_T]:
    index = index.copy()
    shelf = index[number] = index[number].copy()
    shelf[key] = (*shelf.get(key, ()), item)
    return index


def _less(index: Index[_T], number: int, key: str, item: _T) -> Index[_T]:
    index = index.copy()
    shelf = index[number] = index[number].copy()
    items = shelf.pop(key)
    if len(items) > 1:
        at = items.index(item)
        shelf[key] = items[:at] + items[at + 1 :]
    return index


class _Values(ValuesView["Assignment"]):
    __slots__ = ()
    _mapping: Crowd

    def __iter__(self) -> Iterator["Assignment"]:
        return chain.from_iterable(shelf.values() for shelf in self._mapping.shelves)


class _Items(ItemsView[str, "Assignment"]):
    __slots__ = ()
    _mapping: Crowd

    def __iter__(self) -> Iterator[tuple[str, "Assignment"]]:
        return chain.from_iterable(shelf.items() for shelf in self._mapping.shelves)


def _shelf(id_: str) -> int:
    return ord(id_[-1]) % _SHELVES if id_ else 0


EMPTY: Final = Crowd([{}] * _SHELVES, [{}] * _SHELVES, [{}] * _SHELVES, frozenset())
"""Its shelves are one dict each: a shelf is never changed in place, and half of them stay empty."""

DEDICATED: Final = "dedicated"
RESERVED: Final = "reserved"
SYSTEM: Final = "system"
SHARE: Final = "share"
RECLAIM: Final = "reclaim"
POOLS: Final = (RESERVED, DEDICATED, SYSTEM, SHARE, RECLAIM)
"""The pools that always exist, in display order."""


ENDED: Final = 64
"""Number of ended containers that are remembered.

The runtime may report a container's start some milliseconds after its end. In that time this many containers may end.
"""


class Asked(NamedTuple):
    """The requests of a pool's or a pod's containers.

    milli: sum, thousandths of a CPU.
    members: number of containers.
    """

    milli: int
    members: int


class Tally(NamedTuple):
    """The requests of one pod's containers, as they count for the operator's pools.

    members: the containers that were counted.
    milli: the sum of their requests, thousandths of a CPU.
    by_pool: the requests of those whose CPUs the policy chooses, by pool.
    counted: the part of `Pools.asked` that comes from this pod.
    """

    members: tuple["Assignment", ...] = ()
    milli: int = 0
    by_pool: Mapping[str, Asked] = {}
    counted: Mapping[str, Asked] = {}


@value
class Pools:
    """The CPU set of every pool. It is computed again when owned CPUs, members' requests or the machine change.

    kept: not a pool: CPUs that the kubelet's CPU manager has pinned. No pool contains them.
    tiers: CPUs of the operator's pools by name; a pool with groups has an entry for each group that has a member. A
        pool without CPUs of its own has the CPUs of `share` (or `system`).
    plan: input: the operator's pools.
    asked: input: members' requests by tier.
    counts: input: number of CPUs that the fast loop set for a pool (`decisions.PoolsSized`). Without an entry for
        `reclaim` it has the CPUs of `share`; with an entry for `share` the two are apart.
    claimed: input: CPUs that dedicated containers had and will get again while a list is replayed.
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
        """Return a pool's CPUs; for an unknown name the CPUs of `share`, so that every container has CPUs."""
        return getattr(self, pool) if pool in POOLS else self.tiers.get(pool, self.share)

    @property
    def allocatable(self) -> CPUMask:
        """The CPUs of the online pools and the reclaim pool together."""
        return self.system & ~self.reserved

    @property
    def free(self) -> CPUMask:
        """CPUs that a dedicated container may take; reclaimed pods never prevent it."""
        return self.share | self.reclaim


@value
class Assignment:
    """The placement of one container. At most one of `exclusive` and `follows` is set.

    exclusive: owned CPUs; 0 for none.
    follows: id of a container of the same pod on whose CPUs it runs; "" for none.
    mems: memory nodes; 0 for all of them.
    hands_off: the policy leaves its CPUs alone.
    by_file: no answer of ours to its creation reached the runtime, so files must carry every value.
    original: values that the runtime's spec held before our first change, for `restore`.
    granted: values of a loan that differ from the annotation's because less can be lent.
    returned: original values of knobs that are no longer ours; they apply unless something else is ordered.
    admitted_in: the state's generation in which it was placed first; the container with the lower number is older.
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
        return self.container.id

    @property
    def is_managed(self) -> bool:
        """Return whether its own cgroup gets CPUs of the policy: it is not left alone, and its pod runs in no VM."""
        return not self.hands_off and self.wish.handler == "container"


class Unstarted(NamedTuple):
    """A container that has not started, and the CPUs that the runtime's specification of it names."""

    container_id: str
    cpus: CPUMask


@value
class PodPlace:
    """A pod and its own wish.

    boxed: the pod's cgroup is one of the reclaim cgroups: the pod is reclaimed, and no annotation gives one of its
        containers another class.
    told: annotations already reported as ignored, see `placing.lifecycle`.
    unstarted: containers whose CPUs the pod's cgroup must have until they start (`placing.starts`). Not compared,
        because each change of it comes with a change of the container.
    """

    pod: Pod
    wish: Wish = DEFAULT_WISH
    boxed: bool = False
    told: tuple[Finding, ...] = ()
    unstarted: tuple[Unstarted, ...] = field(default=(), compare=False)

    @property
    def cpus_until_start(self) -> CPUMask:
        """Return the CPUs that the pod's cgroup must have for containers that have not started, 0 for none."""
        return reduce(or_, (each.cpus for each in self.unstarted), 0)


@value
class NodeState:
    """The whole state of the policy.

    pods: by id, oldest first.
    containers: assignments by id.
    owners: owned CPUs by container id. It repeats the assignments, so that no query for owners reads all containers.
    generation: number that each adopted event raises.
    box: ids of the pods whose cgroups are reclaim cgroups. It repeats the pods, so that no query for them reads all
        pods.
    ended: ids of ended containers, latest last, at most `ENDED`.
    facts: facts of the companion about pods, also about pods that have not started yet.
    tallies: by pod id, the requests that make up `pools.asked`. So no pod leaves a part there when it changes or ends,
        and a pod of many containers is not counted again for each change of one.
    """

    topology: Topology
    pools: Pools
    pods: Mapping[str, PodPlace] = field(default_factory=dict)
    containers: Crowd = field(default_factory=lambda: EMPTY)
    owners: Mapping[str, CPUMask] = field(default_factory=dict)
    generation: int = 0
    box: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    facts: PodFacts = NO_FACTS
    tallies: Mapping[str, Tally] = field(default_factory=dict, compare=False)

    def of_pod(self, pod_id: str) -> tuple[Assignment, ...]:
        return self.containers.of_pod(pod_id)

    def owners_of_pod(self, pod_id: str) -> list[Assignment]:
        """Return the containers of a pod that own CPUs. A node has at most one for each CPU, a pod any number."""
        members = self.of_pod(pod_id)
        if len(members) <= len(self.owners):
            return [a for a in members if a.exclusive]
        found = map(self.containers.get, self.owners)
        return [a for a in found if a is not None and a.exclusive and a.container.pod_id == pod_id]

    def owners_beside(self, container: Container) -> list[Assignment]:
        """Return the other containers of its pod that own CPUs."""
        return [a for a in self.owners_of_pod(container.pod_id) if a.id != container.id]

    def cpu_request_of(self, pod_id: str) -> int | None:
        """Return a pod's CPU request, thousandths of a CPU; None if unknown."""
        place = self.pods.get(pod_id)
        return None if place is None else place.pod.cpu_request

    def lent_to(self, assignment: Assignment) -> Lent | None:
        """Return the lent amounts in a container's spec; None if the companion has not reported its pod."""
        place = self.pods.get(assignment.container.pod_id)
        return None if place is None else self.facts.lent(place.pod, assignment.container.name)

    def boxed(self, pod_id: str) -> bool:
        """Return whether a pod's cgroup is one of the reclaim cgroups."""
        place = self.pods.get(pod_id)
        return place is not None and place.boxed

    def mems_of(self, assignment: Assignment) -> CPUMask:
        """Return the memory nodes of a container: its bound nodes, else the nodes of its owned CPUs, else all.

        Memory comes from the node of the CPU that touches it first while that node has some, bound or not. A container
        in a VM is bound as its pod is.
        """
        is_unit = assignment.wish.handler == "pod"
        bound = self.mems_bound(assignment.container.pod_id) if is_unit else assignment.mems
        near = self.topology.nodes_of(assignment.exclusive) & self.topology.all_mems
        return bound or near or self.topology.all_mems

    def mems_bound(self, pod_id: str) -> CPUMask:
        """Return the memory nodes that a pod's containers together are bound to, 0 if one of them is not bound."""
        mems = [each.mems for each in self.of_pod(pod_id) if not each.hands_off]
        return reduce(or_, mems, 0) if all(mems) else 0

    def cpus_of(self, assignment: Assignment) -> CPUMask:
        """Return the CPUs that a container may use; never empty."""
        if assignment.exclusive:
            return assignment.exclusive
        main = self.containers.get(assignment.follows) if assignment.follows else None
        if main is not None and main.exclusive:
            return main.exclusive
        if assignment.pool == DEDICATED:
            # a follower whose main container is gone; never CPUs of another container
            return self.pools.share
        return self.pools.cpus(assignment.pool) or self.pools.share
