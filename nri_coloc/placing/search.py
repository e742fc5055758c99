"""The search for CPUs on bitmasks: from the narrowest group that holds them all, or evenly from all groups.

Knows levels, cores and threads; knows nothing of memory, wishes or words. Every choice ends in the lowest CPU
id, so equal inputs give equal sets. docs/placement.md draws it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.topology import Level, Topology


@dataclass(frozen=True, slots=True)
class Field:
    """CPUs to choose from.

    free: all of them.
    whole: CPUs whose core is free with all its threads.
    threads: number of threads of the widest core.
    only_cores: no core may be divided.
    """

    topology: Topology
    free: CPUMask
    whole: CPUMask
    threads: int
    only_cores: bool = False

    @classmethod
    def of(cls, topology: Topology, free: CPUMask) -> "Field":
        """Return the field of any free CPUs, threads and all."""
        return cls(topology, free, topology.whole_cores(free), topology.threads_per_core)

    @classmethod
    def of_cores(cls, topology: Topology, free: CPUMask) -> "Field":
        """Return the field without the cores that are not free as a whole."""
        whole = topology.whole_cores(free)
        return cls(topology, whole, whole, topology.threads_per_core, only_cores=True)

    def holds(self, count: int) -> bool:
        """Return whether `count` CPUs can be taken."""
        if self.only_cores:
            return bool(self.topology.cores_of(self.whole, count))
        return self.free.bit_count() >= count

    @classmethod
    def of_single_threads(cls, topology: Topology, free: CPUMask) -> "Field":
        """Return the field of the first thread of each free core, which stands for the core."""
        firsts = topology.first_threads(free)
        return cls(topology, firsts, firsts, 1)

    def within(self, cpus: CPUMask) -> "Field":
        """Return the part of the field in a set of CPUs, which may cut cores."""
        free = self.free & cpus
        whole = free if self.threads == 1 else self.topology.whole_cores(free)
        return Field(self.topology, free, whole, self.threads, self.only_cores)


def packed(field: Field, count: int) -> CPUMask:
    """Return `count` CPUs as close together as possible; the field has enough.

    They come from the narrowest group that holds them. Of several such groups, the group with the fewest free CPUs is
    used, so that free groups stay whole. Whole cores go before threads, but one memory node goes before whole cores.
    """
    if count >= field.free.bit_count():
        return field.free
    home, narrower = _home(field, count)
    cores = count - count % field.threads
    whole = home & field.whole
    if whole.bit_count() < cores:
        return _taken(narrower, home, count, _loose(field))
    chosen = _taken(narrower, whole, cores, _cores(field)) if cores else 0
    if chosen.bit_count() < cores:  # cores of several widths do not make up every number
        chosen |= _loose(field)(home & ~chosen, cores - chosen.bit_count())
    chosen |= _odd(field, home & ~chosen, chosen, count - cores)
    if field.only_cores and field.topology.whole_cores(chosen) != chosen:
        return field.topology.cores_of(whole, count) or field.topology.cores_of(field.whole, count)
    return chosen


Taker = Callable[[CPUMask, int], CPUMask]


def _home(field: Field, count: int) -> tuple[CPUMask, tuple[Level, ...]]:
    """Return the group to take from, and the levels that lie inside of it.

    A node that has only threads left goes before two nodes with whole cores: memory is farther than a sibling.
    """
    near, far = field.topology.near, field.topology.far
    best = _holding(field, count)
    wide = best if best.bit_count() >= (count - count % field.threads or count) else field.free
    for levels, inside, holds in ((near, (), best), (near, (), field.free), (far, near, wide)):
        for depth in range(len(levels) - 1, -1, -1):
            group = _tightest(field, levels[depth], holds, count)
            if group:
                return group, (*levels[depth + 1 :], *inside)
    return field.free, (*far, *near)


def _holding(field: Field, count: int) -> CPUMask:
    """Return the CPUs that count first: of whole cores or, for less than a core, of broken and narrow cores."""
    return field.whole if count >= field.threads else field.free & ~field.topology.full_cores(field.free)


def _tightest(field: Field, level: Level, holds: CPUMask, count: int) -> CPUMask:
    """Return the group of a level with the fewest free CPUs that holds the request, 0 if none does.

    The free CPUs of its node count first: filling a node that is in use keeps another one whole.
    """
    needed = count - count % field.threads or count
    free, node_of = field.free, field.topology.node_around
    on_node: dict[CPUMask, int] = {}
    best, best_rank = 0, (0, 0)
    for group in level:
        if (group & holds).bit_count() < needed:
            continue
        part = group & free
        size = part.bit_count()
        if size < count:
            continue
        node = node_of.get(group, group)
        if node not in on_node:
            on_node[node] = (node & free).bit_count()
        rank = (on_node[node], size)
        if not best or rank < best_rank:
            best, best_rank = part, rank
    return best


def _taken(levels: tuple[Level, ...], part: CPUMask, count: int, take: Taker) -> CPUMask:
    """Return `count` CPUs of a part: whole groups of the next level, the largest first, and the rest of one group."""
    if not levels or count >= part.bit_count():
        return take(part, count)
    groups = [inside for group in levels[0] if (inside := group & part)]
    chosen = 0
    while True:
        holding = [g for g in groups if g.bit_count() >= count]
        if holding:
            tightest = min(holding, key=lambda g: (g.bit_count(), first(g)))
            return chosen | _taken(levels[1:], tightest, count, take)
        largest = max(groups, key=lambda g: (g.bit_count(), -first(g)))
        groups.remove(largest)
        chosen |= largest
        count -= largest.bit_count()


def _cores(field: Field) -> Taker:
    """Return the function that takes whole cores; if one thread stands for its core, it takes threads."""
    return cpuset.lowest if field.threads == 1 else field.topology.lowest_cores


def _loose(field: Field) -> Taker:
    """Return the function that takes threads: whole cores first, then the threads of the most broken cores."""

    def take(part: CPUMask, count: int) -> CPUMask:
        cores = count - count % field.threads
        chosen = field.topology.lowest_cores(field.topology.whole_cores(part), cores) if cores else 0
        return chosen | _of_broken(field, part & ~chosen, count - chosen.bit_count())

    return take


def _odd(field: Field, rest: CPUMask, chosen: CPUMask, count: int) -> CPUMask:
    """Return the threads beyond whole cores: of broken cores, close to the chosen CPUs, before a core is broken."""
    if not count:
        return 0
    close = _around(field, chosen) & rest
    broken = rest & ~field.whole
    parts = (close & broken, broken, close, rest)
    return _of_broken(field, next(part for part in parts if part.bit_count() >= count), count)


def _around(field: Field, chosen: CPUMask) -> CPUMask:
    """Return the narrowest groups that contain chosen CPUs."""
    around = 0
    for group in field.topology.near[-1] if field.topology.near else ():
        if group & chosen:
            around |= group
    return around


def _of_broken(field: Field, part: CPUMask, count: int) -> CPUMask:
    """Return `count` threads, of the cores with the fewest free threads first, so that fuller cores stay full."""
    if field.threads <= 2:
        broken = part & ~field.topology.full_cores(part) if field.threads == 2 else 0
        chosen = cpuset.lowest(broken, count)
        return chosen | cpuset.lowest(part & ~chosen, count - chosen.bit_count())
    chosen = 0
    for core in sorted(_cores_in(field, part), key=lambda c: (c.bit_count(), first(c))):
        chosen |= cpuset.lowest(core, count - chosen.bit_count())
    return chosen


def _cores_in(field: Field, part: CPUMask) -> list[CPUMask]:
    """Return the threads of each core that lie in a part, by lowest CPU."""
    cores = []
    while part:
        core = field.topology.core_of[first(part)] & part
        cores.append(core)
        part ^= core
    return cores


def spread(field: Field, count: int) -> CPUMask:
    """Return `count` free CPUs as far apart as possible; the field must have that many.

    The result is as if CPUs were taken one by one, each from the socket, node, L3 group and core with the most free
    CPUs.
    """
    return _spread(field, (*field.topology.far, *field.topology.near), field.free, count)


def _spread(field: Field, levels: tuple[Level, ...], part: CPUMask, count: int) -> CPUMask:
    """Return `count` CPUs, divided among the groups of each level.

    Dividing at once gives the same result as one CPU after another, and is not slower for many.
    """
    if levels:
        groups = [inside for group in levels[0] if (inside := group & part)]
    else:
        groups = _cores_in(field, part)
    chosen = 0
    for group, share in zip(groups, levelled([g.bit_count() for g in groups], count), strict=True):
        if share:
            chosen |= _spread(field, levels[1:], group, share) if levels else cpuset.lowest(group, share)
    return chosen


def levelled(sizes: list[int], count: int) -> list[int]:
    """Return the parts of `count`, one a size, that leave the sizes as level as possible; the first ones give one more.

    The sizes hold that many. The result equals taking one at a time from the largest, the first of several.
    """
    low, high = 0, max(sizes)  # the rest above `high` is never too much, above `low` it may be
    while low < high:
        middle = (low + high) // 2
        if sum(size - middle for size in sizes if size > middle) <= count:
            high = middle
        else:
            low = middle + 1
    shares = [max(0, size - low) for size in sizes]
    extra = count - sum(shares)
    for at, size in enumerate(sizes):
        if extra and size >= low > 0:
            shares[at] += 1
            extra -= 1
    return shares


def first(mask: CPUMask) -> int:
    """Return the lowest CPU of a set."""
    return (mask & -mask).bit_length() - 1
