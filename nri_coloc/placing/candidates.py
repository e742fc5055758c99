"""Return for each memory node the reason why a dedicated container got its CPUs there or not.

Only the audit and `explain` use this. It is computed after the reply was sent, from the figures of the decision (the
free CPUs, the request, the wish) and its result. It decides nothing. If a verdict here disagrees with the allocator's
search, the search is right and this module must be corrected.
"""

from dataclasses import dataclass
from typing import Any

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_ROOM, Considered
from nri_coloc.core.texts import counted
from nri_coloc.core.topology import NumaNode, Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Numa, Placement, Wish
from nri_coloc.placing import allocator
from nri_coloc.placing.search import Field


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory node.

    node: id of the node.
    free: CPUs that were free on it.
    whole_cores: whole cores among the free CPUs.
    verdict: why it was chosen or not.
    """

    node: int
    free: int
    whole_cores: int
    verdict: str

    def as_json(self) -> dict[str, Any]:
        """Return the candidate as an object of the audit record."""
        return {
            "node": self.node,
            "free": self.free,
            "whole_cores": self.whole_cores,
            "verdict": self.verdict,
        }


def candidates(topology: Topology, considered: Considered, chosen: CPUMask) -> tuple[Candidate, ...]:
    """Return a candidate for each node that has CPUs, lowest id first; `chosen` is 0 if the request was not met."""
    field = allocator.field_of(topology, considered.free, considered.count, considered.wish)
    usable = topology.aside if considered.free & topology.aside else topology.usable
    nodes = [_node(topology, node, considered, field) for node in topology.nodes if node.cpus & usable]
    won = [node for node in nodes if node.cpus & chosen]
    considered = _kept_of(considered, won)
    return tuple(
        Candidate(
            node.id,
            node.free.bit_count(),
            node.whole_cores,
            _verdict(topology, node, considered, chosen, won),
        )
        for node in nodes
    )


@dataclass(frozen=True, slots=True)
class _Node:
    """One memory node at the time of the choice.

    free: CPUs that were free on it.
    fit: the free CPUs that the wish could use.
    whole_cores: whole cores among the free CPUs.
    whole: every CPU of the node that may be owned was free.
    bytes: memory left on it, None if memory did not matter.
    """

    id: int
    cpus: CPUMask
    free: CPUMask
    fit: CPUMask
    whole_cores: int
    whole: bool
    bytes: int | None


def _node(topology: Topology, node: NumaNode, considered: Considered, field: Field | None) -> _Node:
    free, room = node.cpus & considered.free, considered.room
    usable = topology.aside if considered.free & topology.aside else topology.usable
    fit = (
        field.free if field else allocator.usable_by(topology, considered.free, considered.wish.placement)
    ) & node.cpus
    return _Node(
        id=node.id,
        cpus=node.cpus,
        free=free,
        fit=fit,
        whole_cores=topology.first_threads(free).bit_count(),
        whole=node.cpus & usable & (room.ownable or usable) & ~considered.free == 0,
        bytes=dict(room.left).get(node.id, node.memory_bytes) if room.bytes else None,
    )


def _kept_of(considered: Considered, won: list[_Node]) -> Considered:
    """Return the free CPUs and the demands of the wish that were kept, derived from the chosen nodes.

    A demand for listed nodes, whole nodes or memory is left out if the chosen nodes do not meet it. If the request
    was divided, count and memory are the part of one node.
    """
    wish, room, count = considered.wish, considered.room, considered.count
    if any(not wish.numa_ids >> node.id & 1 for node in won):
        wish = replace(wish, numa_ids=0)
    if wish.numa is Numa.EXCLUSIVE and any(not node.whole for node in won):
        wish = replace(wish, numa=Numa.SINGLE)
    if sum(node.bytes or 0 for node in won) < room.bytes:
        room = NO_ROOM
    if won and (len(won) == wish.numa_count or (wish.evenly and len(won) > 1)):
        count = -(-count // len(won))
        room = replace(room, bytes=-(-room.bytes // len(won)))
    return Considered(considered.free, count, wish, room)


def _verdict(
    topology: Topology, node: _Node, considered: Considered, chosen: CPUMask, won: list[_Node]
) -> str:
    here = (node.cpus & chosen).bit_count()
    if here == chosen.bit_count() and here:
        return "chosen"
    if here:
        return f"{here} of the {chosen.bit_count()} CPUs are from here"
    return _short_of(node, considered) or _outdone(topology, node, considered, won)


def _short_of(node: _Node, considered: Considered) -> str:
    """Return words for the demand that a node could not meet, whole or its part of it; empty if it met all."""
    count, wish, room = considered.count, considered.wish, considered.room
    if not node.free:
        return "no CPU is free"
    if wish.numa is not Numa.NONE and wish.numa_ids and not wish.numa_ids >> node.id & 1:
        return f"not among the wished nodes {cpuset.render(wish.numa_ids)}"
    if wish.numa is Numa.EXCLUSIVE and not node.whole:
        return f"not a whole free node: {node.free.bit_count()} of {node.cpus.bit_count()} CPUs are free"
    if node.fit.bit_count() < count:
        return f"{_free(node.fit)}{_usable_as(node, wish)}, {count} {_are(count)} asked for"
    if node.bytes is not None and node.bytes < room.bytes:
        return f"{node.bytes} bytes of memory are left, {room.bytes} are asked for"
    return ""


def _free(cpus: CPUMask) -> str:
    count = cpus.bit_count()
    return f"{counted(count, 'CPU')} {_are(count)} free"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _usable_as(node: _Node, wish: Wish) -> str:
    if wish.placement in (Placement.FULL_CORES, Placement.ONE_THREAD_PER_CORE):
        return f" for {wish.placement.value}"
    return "" if node.fit == node.free else " on cores of that kind"


def _outdone(topology: Topology, node: _Node, considered: Considered, won: list[_Node]) -> str:
    """Return words for why a node that could have held the request was not chosen."""
    if not won:
        return "it would hold the request, but the last CPU of share is never taken"
    if len(won) > 1:
        return "several nodes are needed: the chosen ones share a socket, have fewer free CPUs or lower ids"
    (winner,) = won
    if considered.wish.placement is Placement.SPREAD:
        return f"fewer or as many CPUs are free here as on node {winner.id}"
    count = considered.count
    if _has_group(topology, winner, count) and not _has_group(topology, node, count):
        return f"no group of cores with one cache holds it here, on node {winner.id} one does"
    cores = count // topology.threads_per_core
    if node.whole_cores < cores <= winner.whole_cores:
        return f"its free CPUs make {node.whole_cores} whole cores, {cores} are needed; node {winner.id} has them"
    if node.free.bit_count() > winner.free.bit_count():
        compared = f"{_free(node.free)} here, {winner.free.bit_count()} on node {winner.id}"
        return f"looser fit: {compared}, and fuller nodes go first"
    if node.free.bit_count() == winner.free.bit_count():
        return f"equal to node {winner.id}; the lower id wins"
    if count < topology.threads_per_core:
        return f"a whole core would be broken here, on node {winner.id} none is"
    return f"node {winner.id} keeps more cores whole"


def _has_group(topology: Topology, node: _Node, count: int) -> bool:
    """Return whether one group of cores inside of the node has `count` usable CPUs."""
    return any((group & node.fit).bit_count() >= count for level in topology.near[1:] for group in level)
