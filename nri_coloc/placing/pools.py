"""Derive the pools from the machine, the operator's reserve and the CPUs that dedicated containers own.

The reclaim pool gets whole cores of `share`: two tenants on the threads of one core slow each other down more than
any weight can help. Its CPUs are as far from owned CPUs as possible: never beside one on a core while there are other
cores, then on other L3 groups, then at the upper end, because owned CPUs are taken from below. Each memory node gives
the same part of its CPUs. A growing pool keeps its CPUs, a shrinking pool gets no new ones.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import POOLS, RECLAIM, SHARE, NodeState, Pools
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Wish
from nri_coloc.placing import tiers
from nri_coloc.placing.claim import InPool

_HAD: Final = 0
_WHOLE: Final = 1
_BROKEN: Final = 2
_BESIDE_DEDICATED: Final = 3
_RANKS: Final = (_HAD, _WHOLE, _BROKEN, _BESIDE_DEDICATED)
"""The order in which a core's free threads are lent. A broken core has a sibling thread outside of `share`."""


def choose(
    topology: Topology, share: CPUMask, dedicated: CPUMask, count: int, former: CPUMask = 0
) -> CPUMask:
    """Return at most `count` CPUs of `share` for the reclaim pool, but at least the free threads of one core.

    `count` is rounded down to whole cores; lending has rounded parts of a core up before.
    former: CPUs that the reclaim pool had, 0 if none were chosen yet.
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
    """Return whether a reclaim pool of the right size can keep its CPUs.

    All of them must be in `share`, and none of its cores may have an owned CPU or a CPU of `share` outside of the
    pool.
    """
    divided = share & ~box | dedicated
    return box & ~share == 0 and not box & topology.cores_around(divided)


class _Node:
    """A memory node's CPUs in `share`.

    parts: by rank the free parts of its cores, the best one last. The first value of each part says that no owned CPU
        is in its L3 group.
    """

    __slots__ = ("_lent", "_size", "parts")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lent = 0
        self.parts: tuple[list[tuple[bool, CPUMask]], ...] = tuple([] for _ in _RANKS)

    def after_next(self, rank: int) -> float:
        """Return the part of the node (0 to 1) that is lent after it has given its next part of this rank."""
        return (self._lent + self.parts[rank][-1][1].bit_count()) / self._size

    def take(self, rank: int) -> CPUMask:
        """Remove and return the best part of a rank."""
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


_NONE: Final = Pools()


def reserved_cpus(topology: Topology, tuning: Tuning) -> CPUMask:
    """Return the CPUs for system pods and the node: the operator's list, or a number of CPUs from the lowest cores.

    At least one usable CPU is always left over; CPUs that the kubelet keeps are not counted.
    """
    ours = topology.usable & ~kept_cpus(topology, tuning)
    wanted = tuning.reserved & ours or _lowest_cores(topology, ours, tuning.reserved_count)
    if wanted & ours != ours:
        return wanted
    return cpuset.lowest(wanted, wanted.bit_count() - 1)


def kept_cpus(topology: Topology, tuning: Tuning) -> CPUMask:
    """Return the CPUs that the kubelet has pinned and may keep.

    If the kubelet has pinned all of them, the lowest is still used by pools: no pool may be empty, and a kubelet always
    leaves some CPUs to the node.
    """
    masks = (cpus for containers in tuning.kept_by_kubelet.values() for cpus in containers.values())
    kept = reduce(or_, masks, 0) & topology.online
    return kept & ~cpuset.lowest(topology.usable, 1) if topology.usable & ~kept == 0 else kept


def _lowest_cores(topology: Topology, ours: CPUMask, count: int) -> CPUMask:
    chosen = 0
    for core in topology.cores:
        chosen |= cpuset.lowest(core & ours, count - chosen.bit_count())
        if chosen.bit_count() >= count:
            break
    return chosen


def derive(
    topology: Topology, reserved: CPUMask, dedicated: CPUMask, kept: CPUMask = 0, former: Pools = _NONE
) -> Pools:
    """Return every pool's CPUs; `former` holds the plan, the requests and counts, and the CPUs to stay near."""
    ours = topology.usable & ~kept
    free = ours & ~reserved & ~dedicated
    laid_out = tiers.layout(former)
    carved = tiers.carve(topology, free & ~former.claimed, former, laid_out.wants)
    free &= ~reduce(or_, carved.values(), 0)
    share, reclaim = _divided(topology, free, dedicated, former)
    system = ours & ~dedicated
    return Pools(
        reserved=reserved,
        dedicated=dedicated,
        system=system,
        share=share,
        reclaim=reclaim,
        kept=kept,
        tiers=tiers.named(laid_out, former.asked, carved, system, share),
        plan=former.plan,
        asked=former.asked,
        counts=former.counts,
        claimed=former.claimed,
    )


def _divided(topology: Topology, free: CPUMask, dedicated: CPUMask, former: Pools) -> tuple[CPUMask, CPUMask]:
    """Return the CPUs of `share` and of `reclaim`.

    They are the same without a count. If only `reclaim` has a count, it is inside of `share`. If `share` has one too,
    they are apart; a single core, if that is all, is in both.
    """
    if not former.counts.keys() & {SHARE, RECLAIM}:
        return free, free
    # a reclaim pool with all of `share` was no choice of CPUs
    chosen = former.reclaim if former.reclaim != former.share else 0
    limits = tiers.bounds(former, RECLAIM)
    least, most = limits.minimum, limits.maximum or free.bit_count()
    if SHARE not in former.counts:
        count = min(max(former.counts[RECLAIM], least), most)
        return free, choose(topology, free, dedicated, count, chosen)
    of_share = max(former.counts[SHARE], tiers.bounds(former, SHARE).minimum, 1)
    count = min(max(free.bit_count() - of_share, least), most, free.bit_count() - 1)
    box = choose(topology, free, dedicated, count, chosen)
    return free & ~box or free, box


def recalled(
    state: NodeState, listed: Iterable[tuple[Container, Wish]], places: Mapping[str, InPool]
) -> Pools:
    """Return the pools with their earlier CPUs if this process does not know their containers.

    A pool's earlier CPUs are the set that most of its containers that we placed have in the runtime's spec.

    places: of the listed containers, by id (`claim.in_pools`).
    """
    seen: dict[str, Counter[CPUMask]] = defaultdict(Counter)
    for container, wish in listed:
        if container.id not in state.containers and (cpus := places[container.id].cpus):
            seen[tiers.pool_of(wish)][cpus] += 1
    had = {
        pool: max(sets, key=lambda cpus: (sets[cpus], cpus))
        for pool, sets in seen.items()
        if pool not in (*POOLS, *state.pools.asked) and tiers.bounds(state.pools, pool).sized
    }
    return replace(state.pools, tiers={**state.pools.tiers, **had}) if had else state.pools


def claimed(state: NodeState, near: Pools, claims: CPUMask) -> NodeState:
    """Return the state for a replay: no pool grows into the CPUs that containers are about to get again."""
    return _derived_near(state, near, claims) if state.pools.plan else state


def settled(state: NodeState, near: Pools) -> NodeState:
    """Return the state after a replay, with pools as near as possible to their CPUs before it.

    In a replay containers leave and return one by one.
    """
    return _derived_near(state, near, 0) if state.pools.plan or state.pools.counts else state


def _derived_near(state: NodeState, near: Pools, claims: CPUMask) -> NodeState:
    now = state.pools
    told = replace(now, tiers=near.tiers, share=near.share, reclaim=near.reclaim, claimed=claims)
    derived = derive(state.topology, now.reserved, now.dedicated, now.kept, told)
    return state if derived == now else replace(state, pools=derived)


def as_told(former: Pools, tuning: Tuning) -> Pools:
    """Return the former pools with the plan of other settings, and with the counts that hold under them."""
    held = {RECLAIM} if not tuning.reclaim.partition else former.counts.keys()
    counts = {k: n for k, n in former.counts.items() if k in held} if tuning.reclaim.enabled else {}
    return replace(former, plan=tuning.pools, counts=counts)


def initial(topology: Topology, tuning: Tuning) -> NodeState:
    """Return the state of a node on which nothing runs."""
    reserved, kept = reserved_cpus(topology, tuning), kept_cpus(topology, tuning)
    return NodeState(topology, derive(topology, reserved, 0, kept, Pools(plan=tuning.pools)))
