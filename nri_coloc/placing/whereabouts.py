"""Where containers may run, and whose the CPUs are that are not lent.

What runs on lendable CPUs is a claim on what is lent, and nothing else is. All CPUs are one of three: lendable;
`owned` by somebody whose cgroup tells their use; or `beyond`, whose use only the CPUs themselves tell. A container
counts as `apart` on owned ones alone, so that no use is ever taken off twice, and none where we do not know.
"""

from functools import reduce
from operator import or_

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import RECLAIM, Assignment, NodeState, PodPlace, Pools
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing import claim


def lendable(pools: Pools, tuning: ReclaimTuning) -> CPUMask:
    """Return the CPUs that reclaimed tasks may come to: of all tiers where pools are sized by load, else of `share`."""
    return pools.allocatable if tuning.enabled and tuning.partition else pools.free


def owned(pools: Pools, lendable: CPUMask) -> CPUMask:
    """Return the CPUs of dedicated containers, of pools with CPUs of their own, and what the kubelet has pinned."""
    apart = [cpus for cpus in pools.tiers.values() if not cpus & pools.free]
    return reduce(or_, apart, pools.dedicated | pools.kept) & ~lendable


def beyond(state: NodeState, lendable: CPUMask) -> CPUMask:
    """Return the CPUs that no container owns and that are not lent: reserved, free isolated, and out of pods' reach."""
    return state.topology.machine & ~lendable & ~owned(state.pools, lendable)


def of(state: NodeState, assignment: Assignment) -> CPUMask:
    """Return the CPUs that a container may run on: all, where we leave it alone and its spec names none."""
    if not assignment.hands_off:
        return state.cpus_of(assignment)
    return claim.in_spec(assignment.container) & state.topology.online or state.topology.online


def is_apart(state: NodeState, assignment: Assignment, owned: CPUMask) -> bool:
    """Whether a container runs on `owned` CPUs and nowhere else."""
    return not of(state, assignment) & ~owned


def is_held_to_box(place: PodPlace) -> bool:
    """Whether a pod runs on the box's CPUs and no others: a member that preserves its CPU runs wherever it did."""
    return place.boxed and "cpu" not in place.wish.preserve


def is_lent_to(place: PodPlace, assignment: Assignment) -> bool:
    """Whether a container has what the box has, and its pod, which is no member, has not."""
    return not place.boxed and assignment.qos is QoSClass.RECLAIMED and assignment.pool == RECLAIM
