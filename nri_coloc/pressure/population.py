"""Tell the pods of a node apart: online pods that are judged, and reclaimed pods that may be suspected; pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core import workload
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.workload import QoSClass, Tolerance
from nri_coloc.pressure.action import Place
from nri_coloc.repair import targets

_ONLINE: Final = (QoSClass.DEDICATED, QoSClass.SHARED)
_LEAST_FIRST: Final = (Tolerance.LOW, Tolerance.NORMAL, Tolerance.HIGH)


class Online(NamedTuple):
    """An online pod.

    path: its own cgroup.
    held_back: the cgroups whose quotas may hold it back, also of containers that may be degraded.
    limited: the cgroups whose memory limits may hold it back.
    tolerance: the least of its containers.
    qos: the class of its first online container.
    may_be_degraded: whether its annotations allow it.
    """

    path: str
    held_back: tuple[str, ...]
    limited: tuple[str, ...]
    tolerance: Tolerance
    qos: QoSClass
    may_be_degraded: bool


class Reclaimed(NamedTuple):
    """A reclaimed pod.

    path: its own cgroup.
    avoidance: the actions that its annotations allow; None is the default of its class.
    """

    path: str
    avoidance: frozenset[str] | None

    def allows(self, action: str) -> bool:
        """Return whether the pod may be acted on in this way."""
        return self.avoidance is None or action in self.avoidance


class Population(NamedTuple):
    """The pods that have a cgroup of their own, by id.

    pods, containers: the parts of the state that this was made of.
    cpus: number of CPUs of the machine.
    """

    pods: Mapping[str, PodPlace]
    containers: Crowd
    online: Mapping[str, Online]
    reclaimed: Mapping[str, Reclaimed]
    cpus: int

    def owner(self, path: str) -> str:
        """Return the id of the pod that a cgroup belongs to, "" if there is none."""
        for pod_id, place in self.pods.items():
            own = targets.pod_path(place.pod)
            if own and (path == own or path.startswith(f"{own}/")):
                return pod_id
        return ""


class LatestPopulation:
    """Keeps the population of the latest state, because pods and containers seldom change. For one thread."""

    def __init__(self) -> None:
        self._latest: Population | None = None

    def of(self, state: NodeState) -> Population:
        """Return the population of a state; the same object until a pod, a container or the CPUs change."""
        if self._latest is None or not _is_of(self._latest, state):
            self._latest = of(state)
        return self._latest


def _is_of(population: Population, state: NodeState) -> bool:
    """Return whether a population was made of the same pods, containers and CPUs."""
    same = population.pods is state.pods and population.containers is state.containers
    return same and population.cpus == state.topology.machine.bit_count()


def place(state: NodeState, pod_id: str, devices: tuple[str, ...] = ()) -> Place:
    """Return the cgroups of a pod, also of one that is not reclaimed any more: its limit must be removed."""
    found = state.pods.get(pod_id)
    path = "" if found is None else targets.pod_path(found.pod)
    return Place(path, tuple(_paths(state.of_pod(pod_id))), devices)


def of(state: NodeState) -> Population:
    """Return the population of a state."""
    online: dict[str, Online] = {}
    reclaimed: dict[str, Reclaimed] = {}
    for pod_id, place in state.pods.items():
        path, members = targets.pod_path(place.pod), state.of_pod(pod_id)
        if not path:
            continue
        if _is_reclaimed(place, members):
            reclaimed[pod_id] = Reclaimed(path, _avoidance(place, members))
        classes = [one.qos for one in members if one.qos in _ONLINE]
        if classes and not place.boxed:
            may = "degrade" in (_avoidance(place, members) or ())
            held = (one for one in members if may or one.container.resources.cpu_quota)
            online[pod_id] = Online(
                path=path,
                held_back=(path, *_paths(held)),
                limited=(path, *_paths(one for one in members if _has_memory_limit(one))),
                tolerance=_tolerance(members),
                qos=classes[0],
                may_be_degraded=may,
            )
    return Population(
        pods=state.pods,
        containers=state.containers,
        online=online,
        reclaimed=reclaimed,
        cpus=state.topology.machine.bit_count(),
    )


def _is_reclaimed(place: PodPlace, members: tuple[Assignment, ...]) -> bool:
    """Return whether a pod counts as reclaimed: it is in the reclaim cgroups, or all its containers are reclaimed.

    A pod that had a container of another class stays out of the reclaim cgroups, and still counts if all its present
    containers are reclaimed. A pod does not count while the kubelet has pinned one of its containers to CPUs, because
    a limit on the pod would reach that container.
    """
    if place.boxed:
        return True
    return bool(members) and all(one.qos is QoSClass.RECLAIMED and not one.wish.kept for one in members)


def _avoidance(place: PodPlace, members: Iterable[Assignment]) -> frozenset[str] | None:
    """Return the actions that the pod and all its containers allow."""
    wished = [place.wish.avoidance, *(one.wish.avoidance for one in members)]
    named = [avoidance for avoidance in wished if avoidance is not None]
    return frozenset.intersection(*named) if named else None


def _has_memory_limit(one: Assignment) -> bool:
    return bool(one.knobs.memory_limit or workload.known_memory_limit(one.container))


def _paths(members: Iterable[Assignment]) -> Iterable[str]:
    return filter(None, (targets.container_path(one) for one in members))


def _tolerance(members: Iterable[Assignment]) -> Tolerance:
    wished = {one.wish.tolerance for one in members}
    return next((one for one in _LEAST_FIRST if one in wished), Tolerance.NORMAL)
