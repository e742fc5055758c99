"""The invariants of DESIGN §3 for CPUs and memory nodes, read from the kernel's files and never from the plugin.

A scenario lists its containers. `Crowd.breaches` returns each broken invariant in words, with its number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from tests.rig import cgroups
from tests.vm.node import Container, cpus

_NODES: Final = Path("/sys/devices/system/node")
_SIBLINGS: Final = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True, slots=True)
class Crowd:
    """Hold the containers of a scenario.

    owners: containers with CPUs of their own.
    boxed: containers of reclaimed pods.
    others: all other containers.
    """

    owners: tuple[Container, ...] = ()
    boxed: tuple[Container, ...] = ()
    others: tuple[Container, ...] = ()

    def breaches(self) -> list[str]:
        """Return every sentence that is true in two readings: a move that is under way shows in half of one."""
        first = self._look()
        return [words for words in self._look() if words in first] if first else []

    def _look(self) -> list[str]:
        everybody = (*self.owners, *self.boxed, *self.others)
        found = [words for container in everybody for words in _of(container)]
        found += [words for owner in self.owners for words in _of_owner(owner)]
        return [*found, *self._overlaps(), *self._of_the_box()]

    def _overlaps(self) -> Iterator[str]:
        """Yield the containers that run on an owner's CPUs, and whether all CPUs are owned."""
        for one, other in combinations(self.owners, 2):
            if both := _set(one) & _set(other):
                yield f"1: CPUs {sorted(both)} are {_name(one)}'s and {_name(other)}'s"
        owned = frozenset().union(*map(_set, self.owners))
        for container in (*self.boxed, *self.others):
            if both := owned & (_set(container) | cpus(container.pod_cgroup("cpuset.cpus"))):
                yield f"1: {_name(container)} may run on CPUs {sorted(both)}, which are dedicated"
        if owned >= cgroups.online():
            yield "1: nothing is left to share"

    def _of_the_box(self) -> Iterator[str]:
        """Yield the broken rules of the reclaim cgroups.

        All have one set of CPUs, with whole cores unless it is all that is left, and the smallest weight.
        """
        sets = {container.pod_cgroup("cpuset.cpus") for container in self.boxed}
        if len(sets) > 1:
            yield f"3: reclaim cgroups have different CPUs: {sorted(sets)}"
        left = cgroups.online().difference(*map(_set, self.owners))
        for text in sets:
            box = cpus(text)
            if box != left and (broken := {cpu for cpu in box if not core_of(cpu) <= box}):
                yield f"3: the reclaim pool has {text}, and of the cores of {sorted(broken)} a part"
        for container in self.boxed:
            if (weight := container.pod_cgroup("cpu.weight")) != "1":
                yield f"3: the pod of {_name(container)} has the weight {weight}"
            if own := container.cgroup("cpuset.cpus"):
                yield f"3: {_name(container)} has CPUs {own} of its own, inside the reclaim cgroups"


def nodes() -> dict[int, frozenset[int]]:
    """Return the CPUs of each memory node."""
    listed = cpus((_NODES / "online").read_text())
    return {node: cpus((_NODES / f"node{node}/cpulist").read_text()) for node in sorted(listed)}


def nodes_of(members: frozenset[int]) -> frozenset[int]:
    """Return the memory nodes of these CPUs."""
    return frozenset(node for node, here in nodes().items() if here & members)


def core_of(cpu: int) -> frozenset[int]:
    """Return a CPU with its siblings."""
    return cpus(Path(_SIBLINGS.format(cpu)).read_text())


def _of(container: Container) -> Iterator[str]:
    """Yield the faults in a container's CPUs and memory nodes, and its processes that may run elsewhere."""
    allowed, memory = _set(container), cpus(container.cgroup("cpuset.mems.effective"))
    if not allowed or not allowed <= cgroups.online():
        yield f"1: {_name(container)} has the CPUs {sorted(allowed)}"
    if not memory or not memory <= cpus((_NODES / "has_memory").read_text()):
        yield f"1: {_name(container)} has the memory nodes {sorted(memory)}"
    for pid in cgroups.pids(container.path):
        elsewhere = (cgroups.allowed_cpus(pid) or frozenset()) - allowed
        if elsewhere and allowed == _set(container):
            yield f"1: process {pid} of {_name(container)} may run on {sorted(elsewhere)}, beside its set"


def _of_owner(owner: Container) -> Iterator[str]:
    """Yield the faults of an owner: its set is not the one it was given, or its memory is on unexpected nodes.

    Its memory may be on all nodes, or on the nodes of its CPUs.
    """
    if cpus(owner.cgroup("cpuset.cpus")) != _set(owner):
        yield f"1: {_name(owner)} was given {owner.cgroup('cpuset.cpus')} and has {sorted(_set(owner))}"
    memory = cpus(owner.cgroup("cpuset.mems.effective"))
    if memory not in (nodes_of(_set(owner)), frozenset(nodes())):
        yield f"1: {_name(owner)} on CPUs {sorted(_set(owner))} has the memory nodes {sorted(memory)}"


def _set(container: Container) -> frozenset[int]:
    return cpus(container.cgroup("cpuset.cpus.effective"))


def _name(container: Container) -> str:
    return container.pod.name
