"""Choosing CPUs for a dedicated container: what of the free ones serves the wish, on which nodes, and which.

In three steps: the wish's placement and, on a hybrid machine, the kind of core narrow the free set; a binding
chooses memory nodes (`nodes`); the search takes the CPUs (`search`). `grant` says why. docs/placement.md
explains it with a picture.
"""

from collections.abc import Iterator

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.decisions import NO_ROOM, Considered, Room
from nri_coloc.model.topology import Topology
from nri_coloc.model.workload import Numa, Placement, Wish
from nri_coloc.policy import grant, nodes, search
from nri_coloc.policy.grant import Grant
from nri_coloc.policy.nodes import Binding
from nri_coloc.policy.search import Field


def allocate(topology: Topology, free: CPUMask, count: int, wish: Wish, room: Room = NO_ROOM) -> Grant | None:
    """Choose `count` of the free CPUs as the wish says; None if that many cannot be had.

    A binding that cannot be kept is loosened step by step; the grant says what was given up.
    """
    considered = Considered(free, count, wish, room)
    found = _chosen(topology, considered)
    return None if found is None else grant.of(topology, considered, *found)


def choose(topology: Topology, free: CPUMask, count: int, wish: Wish) -> CPUMask:
    """Return the CPUs alone, for whoever has words of its own; 0 if so many cannot be had."""
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
    return chosen, binding


def field_of(topology: Topology, free: CPUMask, count: int, wish: Wish) -> Field | None:
    """Return what the placement can use, of one kind of core if one has enough; None if it is too little."""
    if not 0 < count <= free.bit_count():
        return None
    look = {
        Placement.FULL_CORES: Field.of_cores,
        Placement.ONE_THREAD_PER_CORE: Field.of_single_threads,
    }.get(wish.placement, Field.of)
    for cpus in _kinds(topology, free):
        field = look(topology, cpus)
        if field.free.bit_count() >= count:
            return field
    return None


def _kinds(topology: Topology, free: CPUMask) -> Iterator[CPUMask]:
    """Yield the free CPUs by kind of core, the fastest first, and at last all of them.

    A container whose threads wait for each other is as fast as its slowest core, so kinds are not mixed while
    one of them has enough.
    """
    if len(topology.kinds) > 1:
        yield from (free & kind for kind in topology.kinds)
    yield free
