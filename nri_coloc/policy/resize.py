"""CPUs for a container that has some already: growth beside them, and what is kept when it asks for less.

Growth takes nothing away: siblings of its own cores first, then whole cores of its L3 groups and of its nodes, then
single threads there, and only then what lies farther. Shrinking gives back the smallest parts first (the few CPUs on
a second node, then in a second L3 group), and within those whole cores before threads, so that what is kept is one
place and what comes back is of use to others. Where two CPUs are as good, the lower one is owned.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.reasons import Reason
from nri_coloc.model.topology import Topology
from nri_coloc.model.workload import Numa, Placement, QoSClass, Wish
from nri_coloc.policy import allocator
from nri_coloc.policy.grant import Grant, wished

_PACKED: Final = Wish(QoSClass.DEDICATED)
_SPREAD: Final = replace(_PACKED, placement=Placement.SPREAD)

Step = tuple[CPUMask, bool]
"""Where to look next, and whether for whole cores only."""


def grow(topology: Topology, free: CPUMask, owned: CPUMask, count: int, wish: Wish) -> Grant | None:
    """Return `count` CPUs that include the owned ones; None if so many cannot be had, or none are missing."""
    need = count - owned.bit_count()
    left = _permitted(topology, free, owned, need, wish)
    if need < 1 or left.bit_count() < need:
        return None
    taken = _evenly_taken(topology, left, owned, count, wish)
    if taken.bit_count() < need:
        taken = _taken(topology, left, owned, need, wish)
    if taken.bit_count() < need:
        return None
    cpus = owned | taken
    because = (
        f"it keeps CPUs {cpuset.render(owned)} and takes {cpuset.render(taken)} beside them"
        f"{_crossing(topology, free, owned, taken)}; free were {cpuset.render(free)}{wished(wish)}"
    )
    return Grant(cpus, Reason.GROWN, because)


def shrink(topology: Topology, owned: CPUMask, count: int, wish: Wish) -> Grant:
    """Return `count` of the owned CPUs, the ones to keep; `count` is at least 1 and less than there are."""
    if wish.placement is Placement.SPREAD:
        returned = owned & ~allocator.choose(topology, owned, count, _SPREAD)
    else:
        give = owned.bit_count() - count
        returned = _evenly_returned(topology, owned, count, wish) or _returned(topology, owned, give)
    kept = owned & ~returned
    because = f"it keeps CPUs {cpuset.render(kept)} and returns {cpuset.render(returned)}"
    return Grant(kept, Reason.SHRUNK, because + wished(wish))


def fit(topology: Topology, free: CPUMask, owned: CPUMask, count: int, wish: Wish) -> Grant | None:
    """Return `count` CPUs that overlap the owned ones as far as can be; None if so many cannot be had."""
    if owned.bit_count() > count:
        return shrink(topology, owned, count, wish)
    if owned.bit_count() == count:
        return Grant(owned, Reason.RESTORED, f"it keeps CPUs {cpuset.render(owned)}")
    return grow(topology, free, owned, count, wish)


# ---- growth ----


def _permitted(topology: Topology, free: CPUMask, owned: CPUMask, need: int, wish: Wish) -> CPUMask:
    """Narrow the free set to what the wish leaves: its placement always, an order or nodes where they hold the need."""
    if (free & wish.cpus_ordered).bit_count() >= need:
        free &= wish.cpus_ordered
    if wish.numa is not Numa.NONE and wish.numa_ids:
        listed = _union(n.cpus for n in topology.nodes if wish.numa_ids >> n.id & 1)
        free = free & listed if (free & listed).bit_count() >= need else free
    if wish.numa is not Numa.NONE and wish.one_socket:
        near = free & _touching(topology.packages, owned)
        free = near if near.bit_count() >= need else free
    if wish.numa is Numa.EXCLUSIVE:
        nodes = [n.cpus & topology.usable for n in topology.nodes]
        whole = _union(cpus for cpus in nodes if cpus & owned or cpus & free == cpus)
        free = free & whole if (free & whole).bit_count() >= need else free
    if wish.placement is Placement.ONE_THREAD_PER_CORE:
        return topology.first_threads(free)
    return free


def _taken(topology: Topology, free: CPUMask, owned: CPUMask, need: int, wish: Wish) -> CPUMask:
    """Take step by step until there is enough, or nothing is left."""
    by = _SPREAD if wish.placement is Placement.SPREAD else _PACKED
    taken = 0
    for where, whole_only in _steps(topology, owned, wish):
        part = where & free & ~taken
        count = need - taken.bit_count()
        if not count:
            break
        if whole_only:
            part = topology.whole_cores(part)
            count -= count % topology.threads_per_core
        taken |= part if count >= part.bit_count() else allocator.choose(topology, part, count, by)
    return taken


def _steps(topology: Topology, owned: CPUMask, wish: Wish) -> Iterator[Step]:
    """Yield where to look, nearest first; a wish to be spread looks for room, not for nearness."""
    nodes = _touching((n.cpus for n in topology.nodes), owned)
    anywhere = topology.online
    if wish.placement is Placement.SPREAD:
        yield from ((nodes, False), (anywhere, False)) if wish.numa is not Numa.NONE else ((anywhere, False),)
        return
    yield topology.cores_around(owned), False
    for level, beyond in ((topology.l3_groups, nodes), (topology.packages, anywhere)):
        rings = (_touching(level, owned), beyond)
        yield from ((ring, True) for ring in rings)
        if wish.placement is not Placement.FULL_CORES:
            yield from ((ring, False) for ring in rings)


def _evenly_taken(topology: Topology, free: CPUMask, owned: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Keep `numa-count` nodes at even parts; 0 if there is no such wish or a node has too few."""
    parts = _even_parts(topology, owned, count, wish)
    if not parts or any(
        not own.bit_count() <= part <= (own | free & node).bit_count() for node, own, part in parts
    ):
        return 0
    alone = replace(wish, numa_count=0)
    return _union(
        _taken(topology, free & node, own, part - own.bit_count(), alone) for node, own, part in parts
    )


def _crossing(topology: Topology, free: CPUMask, owned: CPUMask, taken: CPUMask) -> str:
    """Say why growth left the nodes that it had, "" if it did not."""
    nodes = _touching((n.cpus for n in topology.nodes), owned)
    beyond = taken & ~nodes
    if not beyond:
        return ""
    had, more = cpuset.render(topology.nodes_of(owned)), cpuset.render(topology.nodes_of(beyond))
    return f", some on nodes {more}: of its nodes {had} only CPUs {cpuset.render(free & nodes) or 'none'} were free"


# ---- shrinking ----


def _evenly_returned(topology: Topology, owned: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Return from each of `numa-count` nodes so many that even parts are left; 0 if there is no such wish."""
    parts = _even_parts(topology, owned, count, wish)
    if any(part > own.bit_count() for _, own, part in parts):
        return 0
    return _union(_returned(topology, own, own.bit_count() - part) for _, own, part in parts)


def _returned(topology: Topology, owned: CPUMask, give: int) -> CPUMask:
    """Choose `give` of the owned CPUs to give back: whole small parts of a level, then within the next one."""
    returned = 0
    for groups in topology.near:
        parts = sorted((p for g in groups if (p := g & owned)), key=lambda p: (p.bit_count(), -_first(p)))
        while parts[0].bit_count() <= give:
            give -= parts[0].bit_count()
            returned |= parts.pop(0)
        owned = parts[0]
        if not give:
            return returned
    return returned | _returned_of_cores(topology.cores, owned, give)


def _returned_of_cores(cores: Sequence[CPUMask], owned: CPUMask, give: int) -> CPUMask:
    """Choose whole cores before single threads, the highest first; a core is broken only for what remains."""
    parts = sorted((p for c in cores if (p := c & owned)), key=lambda p: (-p.bit_count(), -_first(p)))
    returned = 0
    for part in parts:
        if part.bit_count() <= give - returned.bit_count():
            returned |= part
    missing = give - returned.bit_count()
    broken = next((p for p in parts if not p & returned), 0)
    return returned | broken & ~cpuset.lowest(broken, broken.bit_count() - missing)


# ---- both ----


def _even_parts(
    topology: Topology, owned: CPUMask, count: int, wish: Wish
) -> list[tuple[CPUMask, CPUMask, int]]:
    """Return (node, owned there, its part of `count`), largest first; [] without a wish for so many nodes, or for even
    parts on those that it has."""
    nodes = sorted((n.cpus for n in topology.nodes if n.cpus & owned), key=lambda c: -(c & owned).bit_count())
    wanted = wish.numa_count or (len(nodes) if wish.evenly else 0)
    if wish.numa is Numa.NONE or wanted != len(nodes) or not 2 <= wanted <= count:
        return []
    return [(c, c & owned, count // wanted + (i < count % wanted)) for i, c in enumerate(nodes)]


def _touching(groups: Iterable[CPUMask], owned: CPUMask) -> CPUMask:
    return _union(group for group in groups if group & owned)


def _union(masks: Iterable[CPUMask]) -> CPUMask:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _first(mask: CPUMask) -> int:
    return (mask & -mask).bit_length() - 1
