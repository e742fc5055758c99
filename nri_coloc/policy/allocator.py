"""Choosing CPUs for a dedicated container: one search that narrows level by level.

At each level (NUMA node, L3 group, core) the tightest group that still holds the request wins, so that what
stays free stays whole; where no single group holds it, the largest is taken whole and the rest is searched
again. Whole cores go before threads. Every choice ends in the lowest CPU id, so equal inputs give equal sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.reasons import Reason
from nri_coloc.model.topology import Topology
from nri_coloc.model.workload import Numa, Placement, Wish


@dataclass(frozen=True, slots=True)
class Grant:
    """CPUs found, why these, and in words with the figures that were compared."""

    cpus: CPUMask
    reason: Reason
    because: str


def allocate(topology: Topology, free: CPUMask, count: int, wish: Wish) -> Grant | None:
    """Choose `count` of the free CPUs as the wish says; None if that many cannot be had.

    A binding to one node that no node can hold falls back to the tightest spread over nodes.
    """
    left = _placeable(topology, free, count, wish)
    if count < 1 or left.bit_count() < count:
        return None
    if wish.numa is Numa.EXCLUSIVE:
        whole = _whole_nodes(topology, left)
        left = whole if whole.bit_count() >= count else left
    nodes = _domains(topology, left, count, wish)
    chosen = 0
    for domain, part in nodes:
        if wish.placement is Placement.SPREAD:
            chosen |= _spread(topology, domain, part)
        else:
            chosen |= _fill(_search(topology, domain), 0, domain, part)
    return _explained(topology, _Choice(free, left, chosen, count), wish)


def _placeable(topology: Topology, free: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Narrow the free set to what the wish's placement and node list leave."""
    if wish.numa is not Numa.NONE and wish.numa_ids:
        listed = cpuset.of(
            c for n in topology.nodes if wish.numa_ids >> n.id & 1 for c in cpuset.members(n.cpus)
        )
        if (free & listed).bit_count() >= count:
            free &= listed
    if wish.placement is Placement.FULL_CORES:
        return _whole_cores(topology, free)
    if wish.placement is Placement.ONE_THREAD_PER_CORE:
        return cpuset.of(_first(core) for core in topology.cores if core & free == core)
    return free


def _domains(topology: Topology, free: CPUMask, count: int, wish: Wish) -> list[tuple[CPUMask, int]]:
    """Return where to search and for how many: one domain, or `numa-count` nodes with even parts."""
    if wish.numa is Numa.NONE or not 2 <= wish.numa_count <= count:
        return [(free, count)]
    sized = sorted(((n.cpus & free).bit_count(), n.cpus & free) for n in topology.nodes if n.cpus & free)
    parts = [count // wish.numa_count + (i < count % wish.numa_count) for i in range(wish.numa_count)]
    fitting = [mask for size, mask in sized if size >= parts[0]]
    if len(fitting) < wish.numa_count:
        return [(free, count)]
    return list(zip(fitting, parts, strict=False))


def _whole_nodes(topology: Topology, free: CPUMask) -> CPUMask:
    return cpuset.of(
        c
        for n in topology.nodes
        if n.cpus and n.cpus & topology.usable == n.cpus & free
        for c in cpuset.members(n.cpus & free)
    )


def _whole_cores(topology: Topology, free: CPUMask) -> CPUMask:
    whole = 0
    for core in topology.cores:
        if core & free == core:
            whole |= core
    return whole


@dataclass(frozen=True, slots=True)
class _Search:
    """What stays the same on the way down: the levels, the wholly free cores, threads of a core."""

    levels: Sequence[Sequence[CPUMask]]
    whole: CPUMask
    threads: int


def _search(topology: Topology, free: CPUMask) -> _Search:
    return _Search(topology.levels, _whole_cores(topology, free), topology.threads_per_core)


def _fill(search: _Search, depth: int, free: CPUMask, count: int) -> CPUMask:
    """Take `count` CPUs out of `free`, keeping to as few and as tight groups of each level as possible."""
    if depth == len(search.levels) or count >= free.bit_count():
        return cpuset.lowest(free, count)
    groups = [part for group in search.levels[depth] if (part := group & free)]
    whole, cores = free & search.whole, count - count % search.threads
    if whole != free and 0 < cores <= whole.bit_count() and all(g.bit_count() < count for g in groups):
        # no group holds it: of several groups, too, whole cores go before threads
        chosen = _fill(search, depth, whole, cores)
        return chosen | _fill(search, depth, free & ~chosen, count - cores)
    chosen = 0
    while count > 0:
        holding = [g for g in groups if g.bit_count() >= count]
        if holding:
            tightest = min(holding, key=lambda g: _looseness(search, g, count))
            return chosen | _fill(search, depth + 1, tightest, count)
        largest = max(groups, key=lambda g: ((g & search.whole).bit_count(), g.bit_count(), -_first(g)))
        groups.remove(largest)
        chosen |= largest
        count -= largest.bit_count()
    return chosen


def _looseness(search: _Search, group: CPUMask, count: int) -> tuple[bool, int, int]:
    """Order groups that hold the request: enough whole cores first, then fewest free, then lowest id.

    A request below one core prefers a core that is already broken, so that whole cores stay whole.
    """
    whole = (group & search.whole).bit_count()
    if count < search.threads:
        enough = group.bit_count() - whole >= count
    else:
        enough = whole >= count - count % search.threads
    return (not enough, group.bit_count(), _first(group))


def _spread(topology: Topology, free: CPUMask, count: int) -> CPUMask:
    """Take CPUs one by one from the node, L3 group and core with the most left."""
    chosen = 0
    for _ in range(count):
        domain = free
        for level in topology.levels:
            parts = [part for group in level if (part := group & domain)]
            domain = max(parts, key=lambda g: (g.bit_count(), -_first(g)), default=domain)
        pick = domain & -domain
        chosen |= pick
        free ^= pick
    return chosen


def _first(mask: CPUMask) -> int:
    return (mask & -mask).bit_length() - 1


@dataclass(frozen=True, slots=True)
class _Choice:
    """What was free, what of it the wish left over, what was taken of that, and how many were asked for."""

    free: CPUMask
    left: CPUMask
    chosen: CPUMask
    count: int


def _explained(topology: Topology, choice: _Choice, wish: Wish) -> Grant:
    """Name the shape of what was found, with the free CPUs and the wish that it was chosen by."""
    chosen = choice.chosen
    nodes = [n for n in topology.nodes if n.cpus & chosen]
    figures = f"; free were {cpuset.render(choice.free)}{wished(wish)}"
    if len(nodes) != 1:
        why = _across(topology, choice)
        ids = ", ".join(str(n.id) for n in nodes)
        because = f"CPUs {cpuset.render(chosen)} lie on nodes {ids}: {why}{figures}"
        return Grant(chosen, Reason.ACROSS_NODES, because)
    node = nodes[0]
    size = node.cpus & topology.usable
    of = f"node {node.id}, which has {(node.cpus & choice.free).bit_count()} of {size.bit_count()} CPUs free"
    reason, what = _shape(topology, choice, node.cpus, size)
    return Grant(chosen, reason, f"{what} {of}{figures}")


def _across(topology: Topology, choice: _Choice) -> str:
    if any((n.cpus & choice.left).bit_count() >= choice.count for n in topology.nodes):
        return "as the wish says"
    return f"no single node has {choice.count} CPUs free"


def _shape(topology: Topology, choice: _Choice, node: CPUMask, size: CPUMask) -> tuple[Reason, str]:
    """Return the reason and the words for CPUs of one node."""
    chosen, cpus = choice.chosen, cpuset.render(choice.chosen)
    cores = [core for core in topology.cores if core & chosen]
    if chosen == size:
        return Reason.WHOLE_NODE, f"CPUs {cpus} are all of"
    if any(core & chosen != core for core in cores):
        return Reason.THREADS, f"CPUs {cpus} are the tightest fit of free threads in"
    if len(cores) > 1:
        return Reason.WHOLE_CORES, f"CPUs {cpus} are {len(cores)} whole cores of"
    whole = _whole_cores(topology, choice.left & node)
    if _first(whole) == _first(chosen):
        return Reason.WHOLE_CORE, f"core {cpus} is the lowest free whole core of"
    return Reason.WHOLE_CORE, f"core {cpus} is the tightest fit of the free whole cores of"


def wished(wish: Wish) -> str:
    """Return what of a wish steered the choice, for the audit; empty for one that left it to us."""
    numa = wish.numa is not Numa.NONE
    parts = (
        (wish.placement is not Placement.PACKED, f"placement {wish.placement.value}"),
        (numa, f"numa {wish.numa.value}"),
        (numa and wish.numa_count > 0, f"numa-count {wish.numa_count}"),
        (numa and wish.numa_ids > 0, f"numa-ids {cpuset.render(wish.numa_ids)}"),
    )
    said = ", ".join(words for counts, words in parts if counts)
    return f"; wished were {said}" if said else ""
