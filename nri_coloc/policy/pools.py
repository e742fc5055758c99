"""How the pools follow from the machine, the operator's reserve and what dedicated containers own.

share = online − isolated − reserved − dedicated, reclaim the same until CPUs are lent, system = online −
isolated − dedicated (DESIGN 4.2). A reserve that would leave `share` nothing is cut from its upper end.
"""

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.state import NodeState, Pools
from nri_coloc.model.topology import Topology
from nri_coloc.model.tuning import Tuning


def reserved_cpus(topology: Topology, tuning: Tuning) -> CPUMask:
    """Return the CPUs kept for system pods and the node: the operator's list, or a count of lowest cores.

    At least one usable CPU is always left over.
    """
    wanted = tuning.reserved & topology.usable or _lowest_cores(topology, tuning.reserved_count)
    if wanted & topology.usable != topology.usable:
        return wanted
    return cpuset.lowest(wanted, wanted.bit_count() - 1)


def _lowest_cores(topology: Topology, count: int) -> CPUMask:
    chosen = 0
    for core in topology.cores:
        usable = core & topology.usable
        chosen |= cpuset.lowest(usable, count - chosen.bit_count())
        if chosen.bit_count() >= count:
            break
    return chosen


def derive(topology: Topology, reserved: CPUMask, dedicated: CPUMask) -> Pools:
    """Compute every pool's set."""
    share = topology.usable & ~reserved & ~dedicated
    return Pools(
        reserved=reserved,
        dedicated=dedicated,
        system=topology.usable & ~dedicated,
        share=share,
        reclaim=share,
    )


def initial(topology: Topology, tuning: Tuning) -> NodeState:
    """Return the state of a node on which nothing runs."""
    return NodeState(topology, derive(topology, reserved_cpus(topology, tuning), 0))
