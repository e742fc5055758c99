"""How the pools follow from the machine, the operator's reserve and what dedicated containers own.

share = online − isolated − reserved − dedicated, reclaim the same until CPUs are lent, system = online −
isolated − dedicated (DESIGN 4.2). A reserve that would leave `share` nothing is cut from its upper end.
CPUs that the kubelet's own CPU manager keeps are in none of them.
"""

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.state import RECLAIM, NodeState, Pools
from nri_coloc.model.topology import Topology
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import lent

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
    """Compute every pool's set; `former` holds the counts that were told, and the choices to stay near."""
    ours = topology.usable & ~kept
    share = ours & ~reserved & ~dedicated
    return Pools(
        reserved=reserved,
        dedicated=dedicated,
        system=ours & ~dedicated,
        share=share,
        reclaim=_lent(topology, share, dedicated, former),
        kept=kept,
        counts=former.counts,
    )


def _lent(topology: Topology, share: CPUMask, dedicated: CPUMask, former: Pools) -> CPUMask:
    """Return the box's CPUs: so many as were told, or all of `share` while nobody told."""
    if RECLAIM not in former.counts:
        return share
    # a box that had all of `share` was no choice of CPUs
    chosen = former.reclaim if former.reclaim != former.share else 0
    return lent.choose(topology, share, dedicated, former.counts[RECLAIM], chosen)


def as_told(former: Pools, tuning: Tuning) -> Pools:
    """Return the former pools with those of their counts that still hold under other settings."""
    return former if tuning.reclaim.enabled else replace(former, counts={})


def initial(topology: Topology, tuning: Tuning) -> NodeState:
    """Return the state of a node on which nothing runs."""
    reserved, kept = reserved_cpus(topology, tuning), kept_cpus(topology, tuning)
    return NodeState(topology, derive(topology, reserved, 0, kept))
