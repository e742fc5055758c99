"""How the pools follow from the machine, the operator's reserve and what dedicated containers own.

share = online − isolated − reserved − dedicated, reclaim the same until CPUs are lent, system = online −
isolated − dedicated (DESIGN 4.2). A reserve that would leave `share` nothing is cut from its upper end.
The operator's pools are carved out of `share` (see `tiers`), what is lent lies in it or beside it (see `lent`). CPUs
that the kubelet's own CPU manager keeps are in none of them.
"""

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.state import RECLAIM, SHARE, NodeState, Pools
from nri_coloc.model.topology import Topology
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import lent, tiers

_NONE: Final = Pools()


def reserved_cpus(topology: Topology, tuning: Tuning) -> CPUMask:
    """Return the CPUs kept for system pods and the node: the operator's list, or a count of lowest cores.

    At least one usable CPU is always left over, not counting those that the kubelet keeps.
    """
    ours = topology.usable & ~kept_cpus(topology, tuning)
    wanted = tuning.reserved & ours or _lowest_cores(topology, ours, tuning.reserved_count)
    if wanted & ours != ours:
        return wanted
    return cpuset.lowest(wanted, wanted.bit_count() - 1)


def kept_cpus(topology: Topology, tuning: Tuning) -> CPUMask:
    """Return the CPUs that the kubelet has pinned and may keep.

    Where that would be every one, the lowest is ours all the same: a set of ours is never empty, and a kubelet
    always leaves some to the node.
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
    """Compute every pool's set; `former` holds what sizes follow from, and the choices to stay near."""
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
    """Return the sets of `share` and `reclaim`: the same while nobody told a count, one inside of the other while only
    the box has one, and apart where `share` has one too; where that is one core, both have it."""
    if not former.counts.keys() & {SHARE, RECLAIM}:
        return free, free
    # a box that had all of `share` was no choice of CPUs
    chosen = former.reclaim if former.reclaim != former.share else 0
    limits = tiers.bounds(former, RECLAIM)
    least, most = limits.minimum, limits.maximum or free.bit_count()
    if SHARE not in former.counts:
        count = min(max(former.counts[RECLAIM], least), most)
        return free, lent.choose(topology, free, dedicated, count, chosen)
    of_share = max(former.counts[SHARE], tiers.bounds(former, SHARE).minimum, 1)
    count = min(max(free.bit_count() - of_share, least), most, free.bit_count() - 1)
    box = lent.choose(topology, free, dedicated, count, chosen)
    return free & ~box or free, box


def claimed(state: NodeState, near: Pools, claims: CPUMask) -> NodeState:
    """Return the state for a replay: no pool grows into the claims of those who are about to get their CPUs again."""
    return _derived_near(state, near, claims) if state.pools.plan else state


def settled(state: NodeState, near: Pools) -> NodeState:
    """Return the state after a replay, in which members leave and come back one by one: its pools are as near as can
    be to what they were before."""
    return _derived_near(state, near, 0) if state.pools.plan or state.pools.counts else state


def _derived_near(state: NodeState, near: Pools, claims: CPUMask) -> NodeState:
    now = state.pools
    told = replace(now, tiers=near.tiers, share=near.share, reclaim=near.reclaim, claimed=claims)
    derived = derive(state.topology, now.reserved, now.dedicated, now.kept, told)
    return state if derived == now else replace(state, pools=derived)


def as_told(former: Pools, tuning: Tuning) -> Pools:
    """Return the former pools with the plan, and with those of their counts that hold, under other settings."""
    held = {RECLAIM} if not tuning.reclaim.partition else former.counts.keys()
    counts = {k: n for k, n in former.counts.items() if k in held} if tuning.reclaim.enabled else {}
    return replace(former, plan=tuning.pools, counts=counts)


def initial(topology: Topology, tuning: Tuning) -> NodeState:
    """Return the state of a node on which nothing runs."""
    reserved, kept = reserved_cpus(topology, tuning), kept_cpus(topology, tuning)
    return NodeState(topology, derive(topology, reserved, 0, kept, Pools(plan=tuning.pools)))
