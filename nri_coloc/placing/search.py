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
    """CPUs to choose from. `whole`: those whose core is free with all its threads; `threads`: of a core."""

    topology: Topology
    free: CPUMask
    whole: CPUMask
    threads: int

    @classmethod
    def of(cls, topology: Topology, free: CPUMask) -> "Field":
        """Look at any CPUs, threads and all."""
        return cls(topology, free, topology.whole_cores(free), topology.threads_per_core)

    @classmethod
    def of_cores(cls, topology: Topology, free: CPUMask) -> "Field":
        """Leave out the threads of cores that somebody else has a part of."""
        whole = topology.whole_cores(free)
        return cls(topology, whole, whole, topology.threads_per_core)

    @classmethod
    def of_single_threads(cls, topology: Topology, free: CPUMask) -> "Field":
        """Look at the first thread of each free core, as if it were the core."""
        firsts = topology.first_threads(free)
        return cls(topology, firsts, firsts, 1)

    def within(self, cpus: CPUMask) -> "Field":
        """Return the part of the field that lies in a set, which may cut cores."""
        free = self.free & cpus
        whole = free if self.threads == 1 else self.topology.whole_cores(free)
        return Field(self.topology, free, whole, self.threads)


def packed(field: Field, count: int) -> CPUMask:
    """Take `count` CPUs as close together as they can be had; the field has so many.

    They come from the narrowest group that holds them, of these from the one with the fewest CPUs free, so that
    what stays free stays whole. Whole cores go before threads, but never before one memory node.
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
    return chosen | _odd(field, home & ~chosen, chosen, count - cores)


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
    """Return the CPUs that count first: of whole cores or, for less than a core, of broken and narrow ones."""
    return field.whole if count >= field.threads else field.free & ~field.topology.full_cores(field.free)


def _tightest(field: Field, level: Level, holds: CPUMask, count: int) -> CPUMask:
    """Return the group of a level with the fewest free CPUs that holds the request, 0 if none does.

    Its node counts first: filling up a node that is in use keeps another one whole.
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
    """Take `count` out of a part: whole groups of the next level, the largest first, and the rest of one."""
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
    """Take whole cores; where one thread stands for the core, that."""
    return cpuset.lowest if field.threads == 1 else field.topology.lowest_cores


def _loose(field: Field) -> Taker:
    """Take threads: whole cores first, then what is left of the most broken ones."""

    def take(part: CPUMask, count: int) -> CPUMask:
        cores = count - count % field.threads
        chosen = field.topology.lowest_cores(field.topology.whole_cores(part), cores) if cores else 0
        return chosen | _of_broken(field, part & ~chosen, count - chosen.bit_count())

    return take


def _odd(field: Field, rest: CPUMask, chosen: CPUMask, count: int) -> CPUMask:
    """Take the threads beyond whole cores: of broken cores, close to what was chosen, before one is broken."""
    if not count:
        return 0
    close = _around(field, chosen) & rest
    broken = rest & ~field.whole
    parts = (close & broken, broken, close, rest)
    return _of_broken(field, next(part for part in parts if part.bit_count() >= count), count)


def _around(field: Field, chosen: CPUMask) -> CPUMask:
    """Return the narrowest groups that chosen CPUs lie in."""
    around = 0
    for group in field.topology.near[-1] if field.topology.near else ():
        if group & chosen:
            around |= group
    return around


def _of_broken(field: Field, part: CPUMask, count: int) -> CPUMask:
    """Take threads of the cores with the fewest free ones first, so that the fuller ones stay so."""
    if field.threads <= 2:
        broken = part & ~field.topology.full_cores(part) if field.threads == 2 else 0
        chosen = cpuset.lowest(broken, count)
        return chosen | cpuset.lowest(part & ~chosen, count - chosen.bit_count())
    chosen = 0
    for core in sorted(_cores_in(field, part), key=lambda c: (c.bit_count(), first(c))):
        chosen |= cpuset.lowest(core, count - chosen.bit_count())
    return chosen


def _cores_in(field: Field, part: CPUMask) -> list[CPUMask]:
    """Return what of each core lies in a part, by lowest CPU."""
    cores = []
    while part:
        core = field.topology.core_of[first(part)] & part
        cores.append(core)
        part ^= core
    return cores


def spread(field: Field, count: int) -> CPUMask:
    """Take `count` CPUs as far apart as they can be had, one by one from the package, node, L3 group and core
    with the most left; the field has so many."""
    return _spread(field, (*field.topology.far, *field.topology.near), field.free, count)


def _spread(field: Field, levels: tuple[Level, ...], part: CPUMask, count: int) -> CPUMask:
    """Divide a number among the groups of each level at once: the same as one by one, and no slower for many."""
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
    """Divide `count` so that what is left of the sizes is as level as can be, the first ones giving one more.

    The sizes hold so many. Equal to taking one at a time from the largest, the first of several.
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
