"""What DESIGN §3 demands of CPUs and memory nodes, looked at from outside: the kernel's files, never the plugin's word.

A scenario says who is what; `Crowd.breaches` says in words what does not hold, with the number of the invariant.
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
    """`owners` have CPUs of their own, `boxed` are the reclaimed pods' containers, `others` are everybody else."""

    owners: tuple[Container, ...] = ()
    boxed: tuple[Container, ...] = ()
    others: tuple[Container, ...] = ()

    def breaches(self) -> list[str]:
        """Every sentence that is true in two looks: what moves just then shows in half of one."""
        first = self._look()
        return [words for words in self._look() if words in first] if first else []

    def _look(self) -> list[str]:
        everybody = (*self.owners, *self.boxed, *self.others)
        found = [words for container in everybody for words in _of(container)]
        found += [words for owner in self.owners for words in _of_owner(owner)]
        return [*found, *self._overlaps(), *self._of_the_box()]

    def _overlaps(self) -> Iterator[str]:
        """Yield who runs on an owner's CPUs, and whether they are all owned."""
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
        """Yield what the offline pods have that is not the box's: one set, cores that no online pod has a part of
        unless it is all that is left, the smallest weight."""
        sets = {container.pod_cgroup("cpuset.cpus") for container in self.boxed}
        if len(sets) > 1:
            yield f"3: the box's members have different CPUs: {sorted(sets)}"
        left = cgroups.online().difference(*map(_set, self.owners))
        for text in sets:
            box = cpus(text)
            if box != left and (broken := {cpu for cpu in box if not core_of(cpu) <= box}):
                yield f"3: the box has {text}, and of the cores of {sorted(broken)} a part"
        for container in self.boxed:
            if (weight := container.pod_cgroup("cpu.weight")) != "1":
                yield f"3: the pod of {_name(container)} has the weight {weight}"
            if own := container.cgroup("cpuset.cpus"):
                yield f"3: {_name(container)} has CPUs {own} of its own, inside of the box"


def nodes() -> dict[int, frozenset[int]]:
    """The CPUs of each memory node."""
    listed = cpus((_NODES / "online").read_text())
    return {node: cpus((_NODES / f"node{node}/cpulist").read_text()) for node in sorted(listed)}


def nodes_of(members: frozenset[int]) -> frozenset[int]:
    """The memory nodes that these CPUs are of."""
    return frozenset(node for node, here in nodes().items() if here & members)


def core_of(cpu: int) -> frozenset[int]:
    """A CPU with its siblings."""
    return cpus(Path(_SIBLINGS.format(cpu)).read_text())


def _of(container: Container) -> Iterator[str]:
    """Yield what is wrong with anybody's CPUs and memory nodes, and which processes may run elsewhere."""
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
    """Yield where an owner's set is not its own, or its memory neither everywhere nor where its CPUs are."""
    if cpus(owner.cgroup("cpuset.cpus")) != _set(owner):
        yield f"1: {_name(owner)} was given {owner.cgroup('cpuset.cpus')} and has {sorted(_set(owner))}"
    memory = cpus(owner.cgroup("cpuset.mems.effective"))
    if memory not in (nodes_of(_set(owner)), frozenset(nodes())):
        yield f"1: {_name(owner)} on CPUs {sorted(_set(owner))} has the memory nodes {sorted(memory)}"


def _set(container: Container) -> frozenset[int]:
    return cpus(container.cgroup("cpuset.cpus.effective"))


def _name(container: Container) -> str:
    return container.pod.name
