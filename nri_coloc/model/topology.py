"""The machine as the placement sees it: packages, NUMA nodes, L3 groups, cores and threads.

Pure values; reading `/sys` is `sampling`'s business. Every level is a tuple of CPU masks, sorted by
lowest member, holding online CPUs only, so that a level is searched with `&` and `bit_count()`.
A kernel without NUMA is one node 0 with everything; a CPU whose level is unknown is a group of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask


@dataclass(frozen=True, slots=True)
class CPU:
    """One online logical CPU; `core` and `l3` are any hashable label that its siblings share."""

    id: int
    package: int = 0
    node: int = 0
    l3: str = ""
    core: str = ""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One memory node; `cpus` may be empty (memory only), `memory_bytes` may be 0 (CPUs only)."""

    id: int
    cpus: CPUMask
    memory_bytes: int = 0


@dataclass(frozen=True)
class Topology:
    """Masks by level. `online` includes `isolated` (the kernel's isolcpus=)."""

    online: CPUMask
    isolated: CPUMask
    packages: tuple[CPUMask, ...]
    nodes: tuple[NumaNode, ...]
    l3_groups: tuple[CPUMask, ...]
    cores: tuple[CPUMask, ...]

    @classmethod
    def build(
        cls, cpus: Iterable[CPU], memory: Mapping[int, int] | None = None, isolated: CPUMask = 0
    ) -> "Topology":
        """Group CPUs by their labels; `memory` is bytes by node and may name nodes without CPUs."""
        cpus = tuple(cpus)
        memory = memory or {}
        by_node = {
            node: cpuset.of(c.id for c in cpus if c.node == node)
            for node in {c.node for c in cpus} | memory.keys()
        }
        return cls(
            online=cpuset.of(c.id for c in cpus),
            isolated=isolated & cpuset.of(c.id for c in cpus),
            packages=_grouped(cpus, lambda c: c.package),
            nodes=tuple(NumaNode(node, mask, memory.get(node, 0)) for node, mask in sorted(by_node.items())),
            l3_groups=_grouped(cpus, lambda c: c.l3 or f"cpu{c.id}"),
            cores=_grouped(cpus, lambda c: c.core or f"cpu{c.id}"),
        )

    @cached_property
    def usable(self) -> CPUMask:
        """Online CPUs that the kernel schedules on; all of them where only isolated ones are left online."""
        return self.online & ~self.isolated or self.online

    @cached_property
    def threads_per_core(self) -> int:
        """Threads of the widest core: 2 on a machine with SMT, and on hybrid ones."""
        return max((core.bit_count() for core in self.cores), default=1)

    @cached_property
    def levels(self) -> tuple[tuple[CPUMask, ...], ...]:
        """The groups to search, from the widest down: nodes, L3 groups, cores.

        A level whose groups would split a core is left out: what some firmware and hypervisors report.
        """
        levels = (tuple(n.cpus for n in self.nodes), self.l3_groups)
        return (*(level for level in levels if not self._splits_a_core(level)), self.cores)

    def _splits_a_core(self, groups: tuple[CPUMask, ...]) -> bool:
        return any(core & group and core & ~group for group in groups for core in self.cores)

    @cached_property
    def all_mems(self) -> CPUMask:
        """Every node that has memory; a kernel that reports none has node 0."""
        return cpuset.of(n.id for n in self.nodes if n.memory_bytes) or cpuset.of(n.id for n in self.nodes)

    def nodes_of(self, cpus: CPUMask) -> CPUMask:
        """Return the ids, as a mask, of the nodes that these CPUs belong to."""
        return cpuset.of(n.id for n in self.nodes if n.cpus & cpus)


def _grouped(cpus: tuple[CPU, ...], label: Callable[[CPU], object]) -> tuple[CPUMask, ...]:
    groups: dict[object, CPUMask] = {}
    for cpu in cpus:
        groups[label(cpu)] = groups.get(label(cpu), 0) | 1 << cpu.id
    return tuple(sorted(groups.values(), key=lambda mask: mask & -mask))
