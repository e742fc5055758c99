"""What a dedicated container may be given: free CPUs of the pools or isolated ones, and memory by node.

Memory is counted where it is bound: a container's limit belongs to the nodes that it is bound to, and
`node.reservedMemory` to all nodes by their size. What is not bound may lie anywhere and is counted nowhere.
"""

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.decisions import NO_ROOM, Room
from nri_coloc.model.state import DEDICATED, NodeState
from nri_coloc.model.workload import ISOLATED, Container, Numa, Wish
from nri_coloc.policy import record
from nri_coloc.policy.search import levelled

_UNLIMITED = 1 << 62
"""cgroup v1 says "no limit" as the largest page-aligned int64; no machine has an eighth of this."""


def isolated(state: NodeState) -> CPUMask:
    """Return the isolated CPUs that nobody owns."""
    return state.topology.aside & ~state.pools.dedicated & ~state.pools.kept


def claimable(state: NodeState, wish: Wish) -> CPUMask:
    """Return every free CPU that a wish could own, not looking at what must be left to `share`."""
    return state.pools.free | isolated(state) if wish.pool == ISOLATED else state.pools.free


def sources(state: NodeState, wish: Wish, count: int) -> tuple[CPUMask, ...]:
    """Return the sets to choose from, in order: isolated ones if asked for, then `share` but for its last CPU."""
    found = []
    if wish.pool == ISOLATED and isolated(state).bit_count() >= count:
        found.append(isolated(state))
    if count < state.pools.free.bit_count():
        found.append(state.pools.free)
    return tuple(found)


def short_of_isolated(state: NodeState, wish: Wish, chosen: CPUMask) -> str:
    """Return words for isolated CPUs that could not be had; empty where they could, or none were asked for."""
    if wish.pool != ISOLATED or chosen & state.topology.aside:
        return ""
    left = cpuset.render(isolated(state)) or "none"
    return f"; asked for isolated CPUs, of which free and fit for it: too few of {left}"


def room(state: NodeState, container: Container, wish: Wish, reserved_bytes: int) -> Room:
    """Return what a binding to memory nodes goes by; nothing for a wish without one."""
    if wish.numa is Numa.NONE:
        return NO_ROOM
    asked = memory_of(container, wish)
    return Room(asked, _left(state, reserved_bytes) if asked else (), _ownable(state, wish))


def _ownable(state: NodeState, wish: Wish) -> CPUMask:
    ours = state.topology.usable & ~state.pools.reserved
    if wish.pool == ISOLATED:
        ours |= state.topology.aside
    return ours & ~state.pools.kept


def memory_of(container: Container, wish: Wish) -> int:
    """Return the memory that a container may come to use, in bytes: its limit, ours before the kubelet's.

    0 without a limit: the runtime is not told the request.
    """
    limit = wish.knobs.memory_limit or record.before_us(container).resources.memory_limit or 0
    return limit if 0 < limit < _UNLIMITED else 0


def _left(state: NodeState, reserved_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return by node what of its memory is neither reserved nor promised to a bound container; never below 0.

    Who is bound to several nodes may use any of them, and fills up what those leave who have one only.
    """
    nodes = {n.id: n.memory_bytes for n in state.topology.nodes if n.memory_bytes}
    total = sum(nodes.values())
    left = {node: size - -(-reserved_bytes * size // total) for node, size in nodes.items()}
    bound = [a for a in state.containers.of_pool(DEDICATED) if a.mems]
    for assignment in sorted(bound, key=lambda a: (a.mems.bit_count(), a.id)):
        homes = [node for node in cpuset.members(assignment.mems) if node in left]
        promised = memory_of(assignment.container, assignment.wish)
        for node, part in zip(homes, _parts([left[node] for node in homes], promised), strict=True):
            left[node] -= part
    return tuple((node, max(0, amount)) for node, amount in left.items())


def _parts(left: list[int], promised: int) -> list[int]:
    """Divide a promise so that what is left is level; one beyond all of it takes all."""
    room = [max(0, amount) for amount in left]
    return levelled(room, promised) if promised < sum(room) else room
