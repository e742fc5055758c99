"""Follow the available memory of the node, of kubepods, and of the NUMA nodes to which online pods are bound."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from nri_coloc.core import memory_margin
from nri_coloc.core.cpuset import members
from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import MemoryLeft, MemoryReading
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.pressure import shortage
from nri_coloc.pressure.population import Reclaimed
from nri_coloc.pressure.shortage import NO_COURSE, Course
from nri_coloc.repair import targets

NODE: Final = "node"
_NUMA: Final = "numa "


class LeftFiles(Protocol):
    """Reads the memory that is left; returns None for a file that cannot be read."""

    def machine(self, at: float) -> MemoryLeft | None: ...
    def below_limit(self, path: str, at: float) -> MemoryLeft | None: ...


class MemoryFiles(LeftFiles, Protocol):
    """Reads memory; returns None for a file that cannot be read."""

    def numa_node(self, number: int, at: float, machine_bytes: int) -> MemoryLeft | None: ...
    def held(self, path: str, at: float) -> MemoryReading | None: ...
    def unreclaimable_on(self, path: str, number: int) -> int: ...


class Scope(NamedTuple):
    """One scope and its last reading, None if that failed.

    name: "node", the path of a cgroup of all pods, or "numa " and a number.
    """

    name: str
    left: MemoryLeft | None
    known: Bounds


class Short(NamedTuple):
    """A scope in which memory is short; `missing` in bytes."""

    scope: str
    left: MemoryLeft
    known: Bounds
    missing: int


class MemoryShortages:
    """Belongs to one thread."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self._courses: Mapping[str, Course] = {}

    def forget(self) -> None:
        """Forget all earlier readings."""
        self._courses = {}

    def follow(self, state: NodeState, tuning: Tuning, now: float) -> list[Short]:
        """Read all scopes; return those in which memory is short and does not come back."""
        found, up = self._scopes(state, tuning.reclaim.memory_watermark, now), tuning.pressure.memory.up
        before = self._courses
        self._courses = {
            one.name: shortage.followed(before.get(one.name, NO_COURSE), one.left, one.known, up)
            for one in found
        }
        return [
            Short(one.name, one.left, one.known, missing)
            for one in found
            if one.left is not None and (missing := shortage.missing(self._courses[one.name], one.known))
        ]

    def uses(self, pods: Mapping[str, Reclaimed], scope: str, now: float) -> dict[str, float]:
        """Return the bytes that the end of each pod frees in a scope, without page cache."""
        return {pod_id: float(self._use(one.path, scope, now)) for pod_id, one in pods.items()}

    def _use(self, path: str, scope: str, now: float) -> int:
        if scope.startswith(_NUMA):
            return self._files.unreclaimable_on(path, int(scope.removeprefix(_NUMA)))
        if scope != NODE and not path.startswith(f"{scope}/"):
            return 0
        held = self._files.held(path, now)
        return 0 if held is None else held.unreclaimable

    def _scopes(self, state: NodeState, watermark: float, now: float) -> list[Scope]:
        found = scopes(self._files, state, watermark, now)
        total = 0 if found[0].left is None else found[0].left.total
        for number in members(_bound_numa_nodes(state)):
            part = self._files.numa_node(number, now, total)
            size = 0 if part is None else part.total
            found.append(Scope(f"{_NUMA}{number}", part, memory_margin.of_numa_node(size, watermark)))
        return found


def scopes(files: LeftFiles, state: NodeState, watermark: float, now: float) -> list[Scope]:
    """Read the node, and kubepods if it has a limit of its own; with pods of several kubelets each kubepods."""
    machine = files.machine(now)
    total = 0 if machine is None else machine.total
    found = [Scope(NODE, machine, memory_margin.of_node(total, watermark))]
    for path in targets.kubepods(state):
        below = files.below_limit(path, now)
        if below is not None and below.total < total:
            found.append(Scope(path, below, memory_margin.of_limit(below.total)))
    return found


def _bound_numa_nodes(state: NodeState) -> int:
    """Return the memory nodes, as a mask, to which online containers are bound.

    A full node hurts only these: the kernel gives other containers memory of the next node.
    """
    if len(state.topology.nodes) < 2:
        return 0
    found = 0
    for one in state.containers.values():
        if one.mems and not state.boxed(one.container.pod_id):
            found |= one.mems
    return found
