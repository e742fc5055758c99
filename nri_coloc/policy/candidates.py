"""The memory nodes that a dedicated container could have got its CPUs from, and what ruled each out.

For the audit and `explain` only: it is worked out after the reply has left, from what the decision noted (the free
CPUs, the request, the wish) and from its result. It never decides anything; where the words here and the allocator's
search disagree, the search is right and this file is to be mended.
"""

from dataclasses import dataclass, replace
from typing import Any

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.decisions import Considered
from nri_coloc.model.topology import NumaNode, Topology
from nri_coloc.model.workload import Numa, Placement, Wish


@dataclass(frozen=True, slots=True)
class Candidate:
    """One node: CPUs that were free there, how many whole cores they made, and why it was taken or not."""

    node: int
    free: int
    whole_cores: int
    verdict: str

    def as_json(self) -> dict[str, Any]:
        """Return it as the audit writes it."""
        return {
            "node": self.node,
            "free": self.free,
            "whole_cores": self.whole_cores,
            "verdict": self.verdict,
        }


def candidates(topology: Topology, considered: Considered, chosen: CPUMask) -> tuple[Candidate, ...]:
    """Return every node that has CPUs, lowest first; `chosen` is 0 if the request could not be met."""
    nodes = [_Node.of(topology, node, considered) for node in topology.nodes if node.cpus & topology.usable]
    won = [node for node in nodes if node.cpus & chosen]
    considered = replace(considered, wish=_kept_of(considered.wish, won))
    return tuple(
        Candidate(
            node.id, node.free.bit_count(), len(node.whole), _verdict(topology, node, considered, chosen, won)
        )
        for node in nodes
    )


@dataclass(frozen=True, slots=True)
class _Node:
    """`free` is what was free there, `fit` what of that the wish's placement can use, `whole` its whole cores."""

    id: int
    cpus: CPUMask
    free: CPUMask
    fit: int
    whole: tuple[CPUMask, ...]

    @classmethod
    def of(cls, topology: Topology, node: NumaNode, considered: Considered) -> "_Node":
        free = node.cpus & considered.free
        whole = tuple(core for core in topology.cores if core & free == core)
        fit = free.bit_count()
        if considered.wish.placement is Placement.FULL_CORES:
            fit = sum(core.bit_count() for core in whole)
        elif considered.wish.placement is Placement.ONE_THREAD_PER_CORE:
            fit = len(whole)
        return cls(node.id, node.cpus & topology.usable, free, fit, whole)


def _kept_of(wish: Wish, won: list[_Node]) -> Wish:
    """Return the wish as far as it could be kept: where the listed or whole nodes did not do, any did."""
    if any(not wish.numa_ids >> node.id & 1 for node in won):
        wish = replace(wish, numa_ids=0)
    if wish.numa is Numa.EXCLUSIVE and any(node.free != node.cpus for node in won):
        wish = replace(wish, numa=Numa.SINGLE)
    return wish


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
    """Return what a node lacked for the whole request, "" if nothing."""
    count, wish = considered.count, considered.wish
    if not node.free:
        return "no CPU is free"
    if wish.numa is not Numa.NONE and wish.numa_ids and not wish.numa_ids >> node.id & 1:
        return f"not among the wished nodes {cpuset.render(wish.numa_ids)}"
    if wish.numa is Numa.EXCLUSIVE and node.free != node.cpus:
        return f"not a whole free node: {node.free.bit_count()} of {node.cpus.bit_count()} CPUs are free"
    if node.fit < count:
        return f"{node.fit} CPUs are free{_usable_as(wish)}, {count} are asked for"
    return ""


def _usable_as(wish: Wish) -> str:
    return "" if wish.placement in (Placement.PACKED, Placement.SPREAD) else f" for {wish.placement.value}"


def _outdone(topology: Topology, node: _Node, considered: Considered, won: list[_Node]) -> str:
    """Say why a node that could have held the request was not taken."""
    if not won:
        return "it would hold the request, but the last CPU of share is never taken"
    if len(won) > 1:
        return "the wish asks for several nodes, and others were tighter or lower"
    (winner,) = won
    if considered.wish.placement is Placement.SPREAD:
        return f"fewer or as many CPUs are free here as on node {winner.id}"
    cores = considered.count // topology.threads_per_core
    if len(node.whole) < cores <= len(winner.whole):
        return (
            f"its free CPUs make {len(node.whole)} whole cores, {cores} are needed; node {winner.id} has them"
        )
    if node.free.bit_count() > winner.free.bit_count():
        return f"looser: {node.free.bit_count()} CPUs are free, on node {winner.id} {winner.free.bit_count()}"
    if node.free.bit_count() == winner.free.bit_count():
        return f"as good as node {winner.id}, which is lower"
    if considered.count < topology.threads_per_core:
        return f"a whole core would be broken here, on node {winner.id} none is"
    return f"node {winner.id} keeps more cores whole"
