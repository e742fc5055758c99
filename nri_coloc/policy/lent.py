"""Which CPUs the reclaim box has when it may have so many.

Whole cores of `share`: two tenants on the threads of one core slow each other down more than any weight can help.
As far from dedicated CPUs as can be (never beside one on a core while there are others, then on other L3 groups,
then at the upper end, for dedicated ones are taken from below), each memory node giving the same part of what it
has, and as many as possible of those that the box had: a growing box keeps its CPUs, a shrinking one gets no new ones.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.topology import Topology

_HAD: Final = 0
_WHOLE: Final = 1
_BROKEN: Final = 2
_BESIDE_DEDICATED: Final = 3
_RANKS: Final = (_HAD, _WHOLE, _BROKEN, _BESIDE_DEDICATED)
"""The order in which a core's free threads are lent; those of a broken core have a sibling outside of `share`."""


def choose(
    topology: Topology, share: CPUMask, dedicated: CPUMask, count: int, former: CPUMask = 0
) -> CPUMask:
    """Return at most `count` CPUs of `share`, but at least what is free of one core.

    What is left of `count` and is less than a core has threads is not lent. `former`: what the box had, 0 for no
    choice yet.
    """
    threads = topology.threads_per_core
    count = max(count, threads)
    if count >= share.bit_count():
        return share
    size = former.bit_count()
    if size and 0 <= count - size < threads and _is_sound(topology, share, dedicated, former):
        return former
    nodes = _nodes(topology, share, dedicated, former)
    chosen = 0
    for rank in _RANKS:
        # ties go to the upper node
        heap = [(node.after_next(rank), -at) for at, node in enumerate(nodes) if node.parts[rank]]
        heapify(heap)
        while heap and count >= threads:
            at = heappop(heap)[1]
            part = nodes[-at].take(rank)
            chosen |= part
            count -= part.bit_count()
            if nodes[-at].parts[rank]:
                heappush(heap, (nodes[-at].after_next(rank), at))
    return chosen


def _is_sound(topology: Topology, share: CPUMask, dedicated: CPUMask, box: CPUMask) -> bool:
    """Whether a box of the right size can stay: all of it in `share`, no core of it divided, none beside a dedicated
    CPU."""
    divided = share & ~box | dedicated
    return box & ~share == 0 and not any(core & box and core & divided for core in topology.cores)


class _Node:
    """A memory node's CPUs in `share`: by rank the free parts of its cores, the best one last."""

    __slots__ = ("_lent", "_size", "parts")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lent = 0
        self.parts: tuple[list[tuple[bool, CPUMask]], ...] = tuple([] for _ in _RANKS)

    def after_next(self, rank: int) -> float:
        """Return the part of the node that is lent once it has given its next part of this rank."""
        return (self._lent + self.parts[rank][-1][1].bit_count()) / self._size

    def take(self, rank: int) -> CPUMask:
        """Give the best part of a rank."""
        part = self.parts[rank].pop()[1]
        self._lent += part.bit_count()
        return part


def _nodes(topology: Topology, share: CPUMask, dedicated: CPUMask, former: CPUMask) -> list[_Node]:
    near = 0
    for group in topology.l3_groups:
        if group & dedicated:
            near |= group
    nodes = []
    for here in [node.cpus & share for node in topology.nodes if node.cpus & share]:
        node = _Node(here.bit_count())
        for core in topology.cores:
            if part := core & here:
                node.parts[_rank(core, part, dedicated, former)].append((not part & near, part))
        for parts in node.parts:
            parts.sort()
        nodes.append(node)
    return nodes


def _rank(core: CPUMask, part: CPUMask, dedicated: CPUMask, former: CPUMask) -> int:
    if core & dedicated:
        return _BESIDE_DEDICATED
    if part & former:
        return _HAD
    return _WHOLE if part == core else _BROKEN
