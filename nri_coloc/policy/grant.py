"""What was found for a dedicated container, and in words why, with every figure that the choice went by.

The reason names the shape of the set (a whole node, whole cores, threads, across nodes); the sentence ends in the
free CPUs, the wish, and for a binding the memory. `test_because.py` derives each choice again from its sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.decisions import Considered
from nri_coloc.model.reasons import Reason
from nri_coloc.model.topology import NumaNode, Topology
from nri_coloc.model.workload import ISOLATED, Numa, Placement, Wish
from nri_coloc.policy.nodes import MEMORY, Binding

_TIGHTEST: Final = "the tightest fit of free threads in"
_THREADS: Final[Mapping[Placement, str]] = MappingProxyType(
    {
        Placement.PACKED: _TIGHTEST,
        Placement.FULL_CORES: _TIGHTEST,
        Placement.SPREAD: "as far apart as they can be in",
        Placement.ONE_THREAD_PER_CORE: "a thread each of free cores of",
    }
)


@dataclass(frozen=True, slots=True)
class Grant:
    """CPUs found, why these, in words with the figures that were compared, and nodes to bind memory to (0: none)."""

    cpus: CPUMask
    reason: Reason
    because: str
    mems: CPUMask = 0


def of(topology: Topology, considered: Considered, chosen: CPUMask, binding: Binding) -> Grant:
    """Explain a choice."""
    homes = [n for n in topology.nodes if n.cpus & chosen]
    if len(homes) == 1:
        reason, what = _on_node(topology, considered, chosen, homes[0])
    else:
        reason, what = Reason.ACROSS_NODES, _across(topology, considered, chosen, homes)
    mems = 0
    if MEMORY in binding.lost:
        reason = Reason.MEMORY_UNBOUND
    elif considered.wish.numa is not Numa.NONE:
        mems = (binding.mems or topology.nodes_of(chosen)) & topology.all_mems
    words = (what, _kind(topology, chosen), _given_up(binding), figures(considered))
    return Grant(chosen, reason, "".join(words), mems)


def _across(topology: Topology, considered: Considered, chosen: CPUMask, homes: list[NumaNode]) -> str:
    ids = ", ".join(str(n.id) for n in homes)
    usable = usable_by(topology, considered.free, considered.wish.placement)
    single = any((n.cpus & usable).bit_count() >= considered.count for n in topology.nodes)
    why = "as the wish says" if single else f"no single node has {considered.count} CPUs free"
    return f"CPUs {cpuset.render(chosen)} lie on nodes {ids}: {why}"


def usable_by(topology: Topology, free: CPUMask, placement: Placement) -> CPUMask:
    """Return what of the free CPUs a placement can use."""
    if placement is Placement.FULL_CORES:
        return topology.whole_cores(free)
    return topology.first_threads(free) if placement is Placement.ONE_THREAD_PER_CORE else free


def _on_node(
    topology: Topology, considered: Considered, chosen: CPUMask, node: NumaNode
) -> tuple[Reason, str]:
    """Return the reason and the words for CPUs of one node."""
    size = node.cpus if chosen & topology.aside else node.cpus & topology.usable
    free = node.cpus & considered.free
    of_node = f"node {node.id}, which has {free.bit_count()} of {size.bit_count()} CPUs free"
    reason, what = _shape(topology, considered, chosen, node.cpus, size)
    return reason, f"{what} {of_node}"


def _shape(
    topology: Topology, considered: Considered, chosen: CPUMask, node: CPUMask, size: CPUMask
) -> tuple[Reason, str]:
    cpus = cpuset.render(chosen)
    if chosen == size:
        return Reason.WHOLE_NODE, f"CPUs {cpus} are all of"
    if topology.whole_cores(chosen) != chosen:
        return Reason.THREADS, f"CPUs {cpus} are {_THREADS[considered.wish.placement]}"
    cores = topology.first_threads(chosen)
    if cores & (cores - 1):
        return Reason.WHOLE_CORES, f"CPUs {cpus} are {cores.bit_count()} whole cores of"
    free = topology.first_threads(considered.free & node)
    if free & -free == cores:
        return Reason.WHOLE_CORE, f"core {cpus} is the lowest free whole core of"
    return Reason.WHOLE_CORE, f"core {cpus} is the tightest fit of the free whole cores of"


def _kind(topology: Topology, chosen: CPUMask) -> str:
    """Say on which cores of a hybrid machine; empty on any other."""
    if len(topology.kinds) < 2:
        return ""
    for rank, kind in enumerate(topology.kinds):
        if chosen & ~kind == 0:
            return ", on its fastest cores" if rank == 0 else f", on cores of kind {rank} (0 is the fastest)"
    return ", on cores of several kinds, for no one kind has enough"


def _given_up(binding: Binding) -> str:
    return f"; could not be kept: {', '.join(binding.lost)}" if binding.lost else ""


def figures(considered: Considered) -> str:
    """Return what was chosen from, in words: the free CPUs, the wish and the room."""
    room, wish = considered.room, considered.wish
    words = f"; free were {cpuset.render(considered.free)}{wished(wish)}"
    if wish.numa is Numa.EXCLUSIVE and room.ownable:
        words += f"; nodes are whole with CPUs {cpuset.render(room.ownable)}"
    if room.bytes:
        left = ", ".join(f"{node}={amount}" for node, amount in room.left) or "none"
        words += f"; asked {room.bytes} bytes of memory, left by node {left}"
    return words


def inputs(topology: Topology, considered: Considered, chosen: CPUMask) -> dict[str, int | str]:
    """Return by name every figure that a choice used; the same figures give the same choice again.

    `node`, `node_free`: where the CPUs lie, if that is one memory node. Keys of a binding are there only with one.
    """
    wish, room = considered.wish, considered.room
    found: dict[str, int | str] = {"n": considered.count, "free": cpuset.render(considered.free)}
    homes = [node for node in topology.nodes if node.cpus & chosen]
    if len(homes) == 1:
        found |= {"node": homes[0].id, "node_free": (homes[0].cpus & considered.free).bit_count()}
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
    found |= {"numa_evenly": int(wish.evenly), "one_socket": int(wish.one_socket)}
    found |= {"memory_bytes": room.bytes, "ownable": cpuset.render(room.ownable)}
    return found | {f"memory_left_bytes_node_{node}": left for node, left in room.left}


def wished(wish: Wish) -> str:
    """Return what of a wish steered the choice, for the audit; empty for one that left it to us."""
    numa = wish.numa is not Numa.NONE
    parts = (
        (wish.placement is not Placement.PACKED, f"placement {wish.placement.value}"),
        (wish.pool == ISOLATED, f"cpu-pool {ISOLATED}"),
        (numa, f"numa {wish.numa.value}"),
        (numa and wish.numa_count > 0, f"numa-count {wish.numa_count}"),
        (numa and wish.numa_ids > 0, f"numa-ids {cpuset.render(wish.numa_ids)}"),
        (numa and wish.evenly, "numa-parts even"),
        (numa and wish.one_socket, "numa-sockets one"),
    )
    said = ", ".join(words for counts, words in parts if counts)
    return f"; wished were {said}" if said else ""
