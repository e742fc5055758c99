"""The machine as the placement sees it: packages, dies, NUMA nodes, L3 groups, cores and threads.

Pure values; `host.sysfs` reads `/sys`. Every level is a tuple of CPU masks of online CPUs, sorted by lowest member, so
that a level is searched with `&` and `bit_count()`. A kernel without NUMA is one node 0 with everything; a CPU whose
level is unknown is a group of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.value import replace

Level = tuple[CPUMask, ...]


@dataclass(frozen=True, slots=True)
class CPU:
    """One online logical CPU; `core` and `l3` are any hashable label that its siblings share.

    `die` counts within its package; `kind` ranks the cores of a hybrid machine, 0 the fastest.
    """

    id: int
    package: int = 0
    node: int = 0
    l3: str = ""
    core: str = ""
    die: int = 0
    kind: int = 0


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One memory node; `cpus` may be empty (memory only), `memory_bytes` may be 0 (CPUs only)."""

    id: int
    cpus: CPUMask
    memory_bytes: int = 0


@dataclass(frozen=True)
class Topology:
    """Masks by level.

    online: the CPUs that pods may have, with the isolated ones.
    isolated: the kernel's isolcpus=.
    kinds: fastest first.
    outside: online CPUs that no pod may have, because a cgroup above the pods lacks them; in no other mask.
    mems_outside: memory nodes that no pod may be bound to, for the same reason.
    """

    online: CPUMask
    isolated: CPUMask
    packages: Level
    nodes: tuple[NumaNode, ...]
    l3_groups: Level
    cores: Level
    dies: Level = ()
    kinds: Level = ()
    outside: CPUMask = 0
    mems_outside: CPUMask = 0

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
            dies=_grouped(cpus, lambda c: (c.package, c.die)),
            kinds=tuple(
                cpuset.of(c.id for c in cpus if c.kind == kind) for kind in sorted({c.kind for c in cpus})
            ),
        )

    def within(self, cpus: CPUMask, mems: CPUMask = -1) -> "Topology":
        """Return the part of the machine that has these CPUs and memory nodes.

        All CPUs stay if these leave no usable CPU, all nodes if these leave no node.
        """
        if (kept := self.all_mems & mems) not in (0, self.all_mems):
            return replace(self, mems_outside=self.all_mems & ~kept).within(cpus)
        left = self.online & cpus
        if left == self.online or not self.usable & left:
            return self
        return replace(
            self,
            online=left,
            packages=_cut(self.packages, left),
            nodes=tuple(replace(node, cpus=node.cpus & left) for node in self.nodes),
            l3_groups=_cut(self.l3_groups, left),
            cores=_cut(self.cores, left),
            dies=_cut(self.dies, left),
            kinds=tuple(kind & left for kind in self.kinds if kind & left),
            outside=self.online & ~left,
        )

    @cached_property
    def machine(self) -> CPUMask:
        """Every online CPU, also the CPUs that no pod may have."""
        return self.online | self.outside

    @cached_property
    def usable_by_all(self) -> CPUMask:
        """The machine's CPUs that the kernel schedules on, also the CPUs that no pod may have."""
        return self.machine & ~self.isolated or self.machine

    @cached_property
    def usable(self) -> CPUMask:
        """Online CPUs that the kernel schedules on; all of them where only isolated ones are left online."""
        return self.online & ~self.isolated or self.online

    @cached_property
    def aside(self) -> CPUMask:
        """Isolated CPUs, which no pool has: only a container that asks for them gets them."""
        return self.online & ~self.usable

    @cached_property
    def threads_per_core(self) -> int:
        """Threads of the widest core: 2 on a machine with SMT, and on hybrid ones."""
        return max((core.bit_count() for core in self.cores), default=1)

    @cached_property
    def core_of(self) -> Mapping[int, CPUMask]:
        """Each CPU's core, by CPU id."""
        return {cpu: core for core in self.cores for cpu in cpuset.members(core)}

    @cached_property
    def node_level(self) -> Level:
        """The nodes that have CPUs."""
        return tuple(node.cpus for node in self.nodes if node.cpus)

    @cached_property
    def near(self) -> tuple[Level, ...]:
        """Nodes and the levels that divide them, widest first: dies (of some machines) and L3 groups.

        A level whose groups would split a core is left out; some firmware and hypervisors report such levels. A level
        that divides nothing further is left out too.
        """
        levels = [self.node_level] if self.keeps_cores(self.node_level) else []
        for level in sorted((self.dies, self.l3_groups), key=len):
            if _divides(self.node_level, level) and self.keeps_cores(level) and level not in levels:
                levels.append(level)
        return tuple(levels)

    @cached_property
    def node_around(self) -> Mapping[CPUMask, CPUMask]:
        """The node that each group of the near levels lies in."""
        groups = {group for level in self.near for group in level}
        return {group: node for node in self.node_level for group in groups if group & ~node == 0}

    @cached_property
    def far(self) -> tuple[Level, ...]:
        """The levels above the nodes, widest first: packages, dies, L3 groups that span nodes."""
        levels: list[Level] = []
        for level in sorted((self.packages, self.dies, self.l3_groups), key=len):
            if len(level) > 1 and level not in (*levels, *self.near) and self.keeps_cores(level):
                levels.append(level)
        return tuple(levels)

    def keeps_cores(self, level: Level) -> bool:
        """Return whether no core lies in two groups of a level."""
        return all(self.whole_cores(group) == group for group in level)

    @cached_property
    def _shapes(self) -> tuple[tuple[CPUMask, tuple[int, ...]], ...]:
        """Cores of one shape each: their first threads, and how far behind them the other threads' ids lie."""
        shapes: dict[tuple[int, ...], CPUMask] = {}
        for core in self.cores:
            first, *others = cpuset.members(core)
            behind = tuple(other - first for other in others)
            shapes[behind] = shapes.get(behind, 0) | 1 << first
        return tuple((firsts, behind) for behind, firsts in shapes.items())

    @cached_property
    def _firsts_by_width(self) -> tuple[tuple[int, CPUMask], ...]:
        """The first threads of all cores with so many threads, widest first."""
        widths: dict[int, CPUMask] = {}
        for firsts, behind in self._shapes:
            widths[len(behind) + 1] = widths.get(len(behind) + 1, 0) | firsts
        return tuple(sorted(widths.items(), reverse=True))

    def first_threads(self, cpus: CPUMask) -> CPUMask:
        """Return of each core of which all threads are among these its first thread.

        All cores of one shape are looked at in one operation: `cpus` shifted lays siblings over each other.
        """
        found = 0
        for firsts, behind in self._shapes:
            whole = firsts & cpus
            for distance in behind:
                whole &= cpus >> distance
            found |= whole
        return found

    def with_siblings(self, first_threads: CPUMask) -> CPUMask:
        """Return the whole cores that these are the first threads of."""
        cores = first_threads
        for firsts, behind in self._shapes:
            here = first_threads & firsts
            for distance in behind:
                cores |= here << distance
        return cores

    def whole_cores(self, cpus: CPUMask) -> CPUMask:
        """Return the CPUs of every core that lies in this set with all its threads."""
        return self.with_siblings(self.first_threads(cpus))

    def cores_around(self, cpus: CPUMask) -> CPUMask:
        """Return the CPUs of every core that one of these is a thread of."""
        touched = 0
        for firsts, behind in self._shapes:
            here = cpus
            for distance in behind:
                here |= cpus >> distance
            touched |= here & firsts
        return self.with_siblings(touched)

    def around(self, cpus: CPUMask) -> Iterator[CPUMask]:
        """Yield what lies near these CPUs, ever wider: their cores, L3 groups and nodes."""
        yield self.cores_around(cpus)
        for level in (self.l3_groups, self.node_level):
            yield reduce(or_, (group for group in level if group & cpus), 0)

    def full_cores(self, cpus: CPUMask) -> CPUMask:
        """Return the CPUs of the whole cores that have as many threads as any."""
        return self.with_siblings(self.first_threads(cpus) & self._firsts_by_width[0][1])

    def lowest_cores(self, whole: CPUMask, count: int) -> CPUMask:
        """Return whole cores of at most `count` CPUs out of a set of such: the widest, of these the lowest."""
        chosen = 0
        for width, firsts in self._firsts_by_width:
            cores = self.with_siblings(cpuset.lowest(firsts & whole, count // width))
            chosen |= cores
            count -= cores.bit_count()
        return chosen

    def cores_of(self, whole: CPUMask, count: int) -> CPUMask:
        """Return whole cores of exactly `count` CPUs out of a set of such, the widest and lowest; 0 if none add up."""
        free = [(width, firsts & whole) for width, firsts in self._firsts_by_width]
        numbers = _adding_up([(width, firsts.bit_count()) for width, firsts in free], count)
        chosen = 0
        for (_, firsts), number in zip(free, numbers, strict=False):
            chosen |= cpuset.lowest(firsts, number)
        return self.with_siblings(chosen)

    @cached_property
    def all_mems(self) -> CPUMask:
        """Every node with memory that pods may have; a kernel that reports none has node 0."""
        has_memory = cpuset.of(n.id for n in self.nodes if n.memory_bytes)
        return has_memory & ~self.mems_outside or cpuset.of(n.id for n in self.nodes)

    @cached_property
    def memory_bytes(self) -> int:
        """Return the memory of all nodes, bytes; 0 if the kernel reports none."""
        return sum(node.memory_bytes for node in self.nodes)

    @cached_property
    def tells_memory(self) -> bool:
        """Whether the kernel says of any node how much memory it has."""
        return any(node.memory_bytes for node in self.nodes)

    def nodes_of(self, cpus: CPUMask) -> CPUMask:
        """Return the ids, as a mask, of the nodes that these CPUs belong to."""
        return cpuset.of(n.id for n in self.nodes if n.cpus & cpus)


def _adding_up(widths: Sequence[tuple[int, int]], count: int) -> tuple[int, ...]:
    """Return how many cores of each (width, number) make up `count` CPUs, most of the first width; () if none do."""
    (width, number), *others = widths
    for cores in range(min(number, count // width), -1, -1):
        rest = count - cores * width
        if not rest:
            return (cores,)
        if others and (found := _adding_up(others, rest)):
            return (cores, *found)
    return ()


def _divides(wide: Level, narrow: Level) -> bool:
    """Return whether each narrow group lies in one wide group, as far as the wide ones reach."""
    return not any(part & group and part & ~group for group in wide for part in narrow)


def _cut(level: Level, cpus: CPUMask) -> Level:
    return tuple(sorted((group & cpus for group in level if group & cpus), key=lambda mask: mask & -mask))


def _grouped(cpus: tuple[CPU, ...], label: Callable[[CPU], object]) -> Level:
    groups: dict[object, CPUMask] = {}
    for cpu in cpus:
        groups[label(cpu)] = groups.get(label(cpu), 0) | 1 << cpu.id
    return tuple(sorted(groups.values(), key=lambda mask: mask & -mask))
