"""Which pool a container is in, and what a pool may have had before we came.

The operator's pools hold containers of class shared or system; a wish names only what those may name (see
`config.membership`). A reclaimed container is in the box, a dedicated one that got no CPUs of its own in `share`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.state import POOLS, RECLAIM, SHARE, SYSTEM, Assignment, NodeState, Pools
from nri_coloc.model.workload import Container, QoSClass, Wish
from nri_coloc.policy import change, claim, tiers

_OF_CLASS: Final[Mapping[QoSClass, str]] = MappingProxyType(
    {
        QoSClass.DEDICATED: SHARE,
        QoSClass.SHARED: SHARE,
        QoSClass.RECLAIMED: RECLAIM,
        QoSClass.SYSTEM: SYSTEM,
    }
)
_WITH_TIERS: Final = (QoSClass.SHARED, QoSClass.SYSTEM)


def pool_of(wish: Wish) -> str:
    """Return the pool of a container that has no CPUs of its own."""
    return wish.pool if wish.pool and wish.qos in _WITH_TIERS else _OF_CLASS[wish.qos]


def housed(pools: Pools, assignment: Assignment) -> Assignment:
    """Return the assignment in a pool that exists: the class's own where its pool went with other settings."""
    if assignment.pool in POOLS or assignment.pool in pools.tiers:
        return assignment
    return replace(assignment, pool=_OF_CLASS[assignment.qos])


def with_member(state: NodeState, container: Container, wish: Wish) -> NodeState:
    """Return the state in which a container's pool is as large as it will be with it, before it is placed: its own
    CPUs are the pool's."""
    pool = pool_of(wish)
    if not state.pools.plan or pool in POOLS or wish.handler == "ignore" or "cpu" in wish.preserve:
        return state
    return change.with_container(state, Assignment(container, wish.qos, pool, wish=wish))


def recalled(state: NodeState, listed: Iterable[tuple[Container, Wish]]) -> Pools:
    """Return the pools with the CPUs that those had whose members we do not remember: the set that most of the
    containers which we placed carry in the runtime's spec."""
    seen: dict[str, Counter[CPUMask]] = defaultdict(Counter)
    for container, wish in listed:
        if container.record and container.id not in state.containers:
            seen[pool_of(wish)][claim.in_spec(container)] += 1
    had = {
        pool: max(sets, key=lambda cpus: (sets[cpus], cpus))
        for pool, sets in seen.items()
        if pool not in (*POOLS, *state.pools.asked) and tiers.bounds(state.pools, pool).sized
    }
    return replace(state.pools, tiers={**state.pools.tiers, **had}) if had else state.pools
