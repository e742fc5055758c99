"""Return where containers may run, and to which of three sets each CPU belongs.

Only the use of lendable CPUs counts against lent CPU. Every CPU is lendable, `owned` or `beyond`. The use of owned
CPUs is read from their owners' cgroups. The use of CPUs beyond is read from the CPUs' own counters. A container
counts as on owned CPUs only if it runs on no others: so no use is subtracted twice, and unknown use is not subtracted.
"""

from functools import reduce
from operator import or_

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import RECLAIM, Assignment, NodeState, PodPlace, Pools
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing import claim


def lendable(pools: Pools, tuning: ReclaimTuning) -> CPUMask:
    """Return the CPUs that reclaimed tasks may use: of all tiers if pools are sized by load, else of `share`."""
    return pools.allocatable if tuning.enabled and tuning.partition else pools.free


def owned(pools: Pools, lendable: CPUMask) -> CPUMask:
    """Return the CPUs of dedicated containers and of pools with CPUs of their own, and those pinned by the kubelet."""
    apart = [cpus for cpus in pools.tiers.values() if not cpus & pools.free]
    return reduce(or_, apart, pools.dedicated | pools.kept) & ~lendable


def beyond(state: NodeState, lendable: CPUMask) -> CPUMask:
    """Return the CPUs that no container owns and that are not lent: reserved, free isolated, and out of pods' reach."""
    return state.topology.machine & ~lendable & ~owned(state.pools, lendable)


def of(state: NodeState, assignment: Assignment) -> CPUMask:
    """Return the CPUs that a container may run on: all, if it is left alone and its spec names none."""
    if not assignment.hands_off:
        return state.cpus_of(assignment)
    return claim.in_spec(assignment.container) & state.topology.online or state.topology.online


def is_on_owned(state: NodeState, assignment: Assignment, owned: CPUMask) -> bool:
    """Return whether a container runs on `owned` CPUs and nowhere else."""
    return not of(state, assignment) & ~owned


def is_held_to_box(place: PodPlace) -> bool:
    """Return whether a pod runs on the reclaim pool's CPUs and no others.

    A reclaimed pod that preserves its CPU runs on its earlier CPUs.
    """
    return place.boxed and "cpu" not in place.wish.preserve


def is_lent_to(place: PodPlace, assignment: Assignment) -> bool:
    """Return whether a container runs on the reclaim pool although its pod has no reclaim cgroup."""
    return not place.boxed and assignment.qos is QoSClass.RECLAIMED and assignment.pool == RECLAIM
