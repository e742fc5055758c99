"""Choose CPUs for a dedicated container, grow or shrink its set, and give the reason with all figures used.

The reason names the shape of the set (a whole node, whole cores, threads, across nodes). `inputs` has the free CPUs,
the wish and, for a binding, the memory. `test_because.py` derives each choice again from them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_ROOM, Considered, Room
from nri_coloc.core.reasons import Reason
from nri_coloc.core.topology import NumaNode, Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import ISOLATED, Numa, Placement, QoSClass, Wish
from nri_coloc.placing import nodes, search
from nri_coloc.placing.nodes import MEMORY, Binding
from nri_coloc.placing.search import Field

_TIGHTEST: Final = "tightest fit of free threads on"
_THREADS: Final[Mapping[Placement, str]] = MappingProxyType(
    {
        Placement.PACKED: _TIGHTEST,
        Placement.FULL_CORES: _TIGHTEST,
        Placement.SPREAD: "as far apart as possible on",
        Placement.ONE_THREAD_PER_CORE: "one thread of each free core of",
    }
)


@dataclass(frozen=True, slots=True)
class Grant:
    """CPUs for a container, and the reason for them.

    cpus: the chosen CPUs.
    because: the CPUs and their cause, for the audit.
    mems: memory nodes to bind memory to, 0 for no binding.
    lost: demands of the wish that were dropped, in the words of its keys.
    """

    cpus: CPUMask
    reason: Reason
    because: str
    mems: CPUMask = 0
    lost: tuple[str, ...] = ()


def of(topology: Topology, considered: Considered, chosen: CPUMask, binding: Binding) -> Grant:
    """Return a choice of CPUs with its reason, its sentence and its memory nodes."""
    homes = [n for n in topology.nodes if n.cpus & chosen]
    if len(homes) == 1:
        reason, what = _on_node(topology, considered, chosen, homes[0])
    else:
        reason, what = Reason.ACROSS_NODES, _across(topology, considered, chosen)
    mems = 0
    if MEMORY in binding.lost:
        reason = Reason.MEMORY_UNBOUND
    elif considered.wish.numa is not Numa.NONE:
        mems = (binding.mems or topology.nodes_of(chosen)) & topology.all_mems
    words = f"own CPUs {cpuset.render(chosen)}: {what}{_kind(topology, chosen)}{_given_up(binding)}"
    return Grant(chosen, reason, words, mems, binding.lost)


def _across(topology: Topology, considered: Considered, chosen: CPUMask) -> str:
    ids = cpuset.render(topology.nodes_of(chosen))
    usable = usable_by(topology, considered.free, considered.wish.placement)
    single = any((n.cpus & usable).bit_count() >= considered.count for n in topology.nodes)
    if single:
        return f"its annotations ask for several nodes, here {ids}"
    return f"on nodes {ids}, because no single node has {considered.count} fitting free CPUs"


def usable_by(topology: Topology, free: CPUMask, placement: Placement) -> CPUMask:
    """Return the part of the free CPUs that a placement can use."""
    if placement is Placement.FULL_CORES:
        return topology.whole_cores(free)
    return topology.first_threads(free) if placement is Placement.ONE_THREAD_PER_CORE else free


def _on_node(
    topology: Topology, considered: Considered, chosen: CPUMask, node: NumaNode
) -> tuple[Reason, str]:
    """Return the reason and the words for CPUs of one node."""
    size = node.cpus if chosen & topology.aside else node.cpus & topology.usable
    reason, what = _shape(topology, considered, chosen, node.cpus, size)
    return reason, f"{what} node {node.id}"


def _shape(
    topology: Topology, considered: Considered, chosen: CPUMask, node: CPUMask, size: CPUMask
) -> tuple[Reason, str]:
    if chosen == size:
        return Reason.WHOLE_NODE, "all CPUs of"
    if topology.whole_cores(chosen) != chosen:
        return Reason.THREADS, _THREADS[considered.wish.placement]
    cores = topology.first_threads(chosen)
    if cores & (cores - 1):
        return Reason.WHOLE_CORES, f"{cores.bit_count()} free whole cores of"
    free = topology.first_threads(considered.free & node)
    if free & -free == cores:
        return Reason.WHOLE_CORE, "lowest free whole core of"
    return Reason.WHOLE_CORE, "tightest fit of the free whole cores of"


def _kind(topology: Topology, chosen: CPUMask) -> str:
    """Return words for the kind of cores on a hybrid machine; empty on any other."""
    if len(topology.kinds) < 2:
        return ""
    for rank, kind in enumerate(topology.kinds):
        if chosen & ~kind == 0:
            return (
                ", on its fastest cores"
                if rank == 0
                else f", on cores of kind {rank}, where kind 0 is fastest"
            )
    return ", on cores of several kinds, because no kind has enough"


def _given_up(binding: Binding) -> str:
    return f"; wishes not met: {', '.join(binding.lost)}" if binding.lost else ""


def inputs(topology: Topology, considered: Considered, chosen: CPUMask) -> dict[str, int | str]:
    """Return by name every figure that a choice used; the same figures give the same choice again.

    `node` and `node_free` are present if the CPUs lie on one memory node. The keys of a binding are present only with
    one.
    """
    room = considered.room
    found: dict[str, int | str] = {"n": considered.count, "free": cpuset.render(considered.free)}
    homes = [node for node in topology.nodes if node.cpus & chosen]
    if len(homes) == 1:
        found |= {"node": homes[0].id, "node_free": (homes[0].cpus & considered.free).bit_count()}
    found |= wished(considered.wish)
    if considered.wish.numa is Numa.NONE:
        return found
    found |= {"memory_bytes": room.bytes, "ownable": cpuset.render(room.ownable)}
    return found | {f"memory_left_bytes_node_{node}": left for node, left in room.left}


def wished(wish: Wish) -> dict[str, int | str]:
    """Return by name the parts of a wish that affect the choice; empty for a wish without demands."""
    found: dict[str, int | str] = {}
    if wish.placement is not Placement.PACKED:
        found["placement"] = wish.placement.value
    if wish.pool == ISOLATED:
        found["pool"] = ISOLATED
    if wish.numa is Numa.NONE:
        return found
    found |= {
        "numa": wish.numa.value,
        "numa_count": wish.numa_count,
        "numa_ids": cpuset.render(wish.numa_ids),
    }
    return found | {"numa_evenly": int(wish.evenly), "one_socket": int(wish.one_socket)}


def allocate(topology: Topology, free: CPUMask, count: int, wish: Wish, room: Room = NO_ROOM) -> Grant | None:
    """Return `count` of the free CPUs, chosen by the wish; None if there are too few.

    If a binding does not fit, its demands are dropped one after another. The grant names the dropped demands.
    """
    considered = Considered(free, count, wish, room)
    found = _chosen(topology, considered)
    return None if found is None else of(topology, considered, *found)


def choose(topology: Topology, free: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Return `count` of the free CPUs without a reason; 0 if there are too few."""
    found = _chosen(topology, Considered(free, count, wish))
    return 0 if found is None else found[0]


def _chosen(topology: Topology, considered: Considered) -> tuple[CPUMask, Binding] | None:
    wish = considered.wish
    field = field_of(topology, considered.free, considered.count, wish)
    if field is None:
        return None
    if wish.numa is Numa.NONE:
        binding = Binding(((field.free, considered.count),))
    else:
        binding = nodes.bind(field, considered)
    chosen = 0
    take = search.spread if wish.placement is Placement.SPREAD else search.packed
    for cpus, number in binding.parts:
        chosen |= take(field if cpus == field.free else field.within(cpus), number)
    return (chosen, binding) if chosen.bit_count() == considered.count else None


def field_of(topology: Topology, free: CPUMask, count: int, wish: Wish) -> Field | None:
    """Return the CPUs that the placement can use, of one kind of core if one has enough; None if there are too few."""
    if not 0 < count <= free.bit_count():
        return None
    look = {
        Placement.FULL_CORES: Field.of_cores,
        Placement.ONE_THREAD_PER_CORE: Field.of_single_threads,
    }.get(wish.placement, Field.of)
    for cpus in _kinds(topology, free):
        field = look(topology, cpus)
        if field.holds(count):
            return field
    return None


def _kinds(topology: Topology, free: CPUMask) -> Iterator[CPUMask]:
    """Yield the free CPUs of each kind of core, the fastest kind first, and last all free CPUs.

    Kinds are not mixed while one of them has enough: threads that wait for each other are as fast as the slowest
    core.
    """
    if len(topology.kinds) > 1:
        yield from (free & kind for kind in topology.kinds)
    yield free


_PACKED: Final = Wish(QoSClass.DEDICATED)
_SPREAD: Final = replace(_PACKED, placement=Placement.SPREAD)
_CORES: Final = replace(_PACKED, placement=Placement.FULL_CORES)

Step = tuple[CPUMask, bool]
"""The CPUs to search next, and whether to take whole cores only."""


def grow(topology: Topology, free: CPUMask, owned: CPUMask, count: int, wish: Wish) -> Grant | None:
    """Return `count` CPUs that include the owned CPUs; None if there are too few, or if none are missing."""
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
        f"own CPUs {cpuset.render(cpus)}: kept {cpuset.render(owned)}, added the nearest free CPUs "
        f"{cpuset.render(taken)}{_crossing(topology, owned, taken)}"
    )
    return Grant(cpus, Reason.GROWN, because)


def shrink(topology: Topology, owned: CPUMask, count: int, wish: Wish) -> Grant:
    """Return the `count` owned CPUs to keep; `count` is at least 1 and less than the number of owned CPUs."""
    if wish.placement is Placement.SPREAD:
        returned = owned & ~choose(topology, owned, count, _SPREAD)
    else:
        give = owned.bit_count() - count
        returned = _evenly_returned(topology, owned, count, wish) or _returned(topology, owned, give)
    kept = owned & ~returned
    if wish.placement is Placement.FULL_CORES and topology.whole_cores(kept) != kept:
        kept = choose(topology, owned, count, _CORES) or kept
        returned = owned & ~kept
    because = f"own CPUs {cpuset.render(kept)}: returned CPUs {cpuset.render(returned)}"
    return Grant(kept, Reason.SHRUNK, because)


def fit(topology: Topology, free: CPUMask, owned: CPUMask, count: int, wish: Wish) -> Grant | None:
    """Return `count` CPUs that overlap the owned CPUs as far as possible; None if there are too few."""
    if owned.bit_count() > count:
        return shrink(topology, owned, count, wish)
    if owned.bit_count() == count:
        return Grant(owned, Reason.RESTORED, f"own CPUs {cpuset.render(owned)}: kept, as many as it asks for")
    return grow(topology, free, owned, count, wish)


# ---- growth ----


def _permitted(topology: Topology, free: CPUMask, owned: CPUMask, need: int, wish: Wish) -> CPUMask:
    """Return the free CPUs that the wish permits.

    The placement always restricts them. Ordered CPUs, listed nodes, one socket and whole nodes restrict them only if
    enough CPUs remain.
    """
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
    """Return up to `need` free CPUs, taken step by step."""
    by = {Placement.SPREAD: _SPREAD, Placement.FULL_CORES: _CORES}.get(wish.placement, _PACKED)
    taken = 0
    for where, whole_only in _steps(topology, owned, wish):
        part = where & free & ~taken
        count = need - taken.bit_count()
        if not count:
            break
        if whole_only:
            part = topology.whole_cores(part)
            count = topology.lowest_cores(part, count).bit_count()
        taken |= part if count >= part.bit_count() else choose(topology, part, count, by)
    return taken


def _steps(topology: Topology, owned: CPUMask, wish: Wish) -> Iterator[Step]:
    """Yield the CPUs to search, nearest first; the placement `spread` looks for room instead of nearness."""
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
    """Return the missing CPUs in even parts on the owned nodes; 0 if that was not wished or a node has too few."""
    parts = _even_parts(topology, owned, count, wish)
    if not parts or any(
        not own.bit_count() <= part <= (own | free & node).bit_count() for node, own, part in parts
    ):
        return 0
    alone = replace(wish, numa_count=0)
    return _union(
        _taken(topology, free & node, own, part - own.bit_count(), alone) for node, own, part in parts
    )


def _crossing(topology: Topology, owned: CPUMask, taken: CPUMask) -> str:
    """Return words for growth beyond the nodes of the owned CPUs; empty if there was none."""
    nodes = _touching((n.cpus for n in topology.nodes), owned)
    beyond = taken & ~nodes
    if not beyond:
        return ""
    had, more = cpuset.render(topology.nodes_of(owned)), cpuset.render(topology.nodes_of(beyond))
    return f", some on nodes {more}, because nodes {had} have too few free CPUs"


# ---- shrinking ----


def _evenly_returned(topology: Topology, owned: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Return the CPUs to give up so that even parts remain on the owned nodes; 0 if that was not wished."""
    parts = _even_parts(topology, owned, count, wish)
    if any(part > own.bit_count() for _, own, part in parts):
        return 0
    return _union(_returned(topology, own, own.bit_count() - part) for _, own, part in parts)


def _returned(topology: Topology, owned: CPUMask, give: int) -> CPUMask:
    """Return the `give` owned CPUs to give up: whole small parts of a level, then CPUs within the next part."""
    returned = 0
    for groups in topology.near:
        parts = sorted(
            (p for g in groups if (p := g & owned)), key=lambda p: (p.bit_count(), -search.first(p))
        )
        while parts[0].bit_count() <= give:
            give -= parts[0].bit_count()
            returned |= parts.pop(0)
        owned = parts[0]
        if not give:
            return returned
    return returned | _returned_of_cores(topology.cores, owned, give)


def _returned_of_cores(cores: Sequence[CPUMask], owned: CPUMask, give: int) -> CPUMask:
    """Return `give` CPUs: whole cores before single threads, the highest first; a core is split only for the rest."""
    parts = sorted((p for c in cores if (p := c & owned)), key=lambda p: (-p.bit_count(), -search.first(p)))
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
    """Return (node, owned CPUs there, its part of `count`), the largest first.

    The list is empty unless the wish asks for even parts on exactly the nodes that are owned now, two or more.
    """
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
