"""Return the CPUs that pools and dedicated containers had, before the runtime's list is replayed."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import or_

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.events import Synchronized
from nri_coloc.core.state import DEDICATED, POOLS, SHARE, SYSTEM, NodeState, Pools
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, QoSClass, Wish
from nri_coloc.placing import claim, record, request, tiers
from nri_coloc.placing.claim import Claim


def recalled(state: NodeState, listed: Iterable[tuple[Container, Wish]]) -> Pools:
    """Return the pools with their earlier CPUs if this process does not know their containers.

    A pool's earlier CPUs are the set that most of its containers that we placed have in the runtime's spec.
    """
    seen: dict[str, Counter[CPUMask]] = defaultdict(Counter)
    for container, wish in listed:
        if container.record and container.id not in state.containers:
            seen[tiers.pool_of(wish)][claim.in_spec(container)] += 1
    had = {
        pool: max(sets, key=lambda cpus: (sets[cpus], cpus))
        for pool, sets in seen.items()
        if pool not in (*POOLS, *state.pools.asked) and tiers.bounds(state.pools, pool).sized
    }
    return replace(state.pools, tiers={**state.pools.tiers, **had}) if had else state.pools


_Claimant = tuple[Container, Claim]


def claims(state: NodeState, near: Pools, event: Synchronized) -> CPUMask:
    """Return all CPUs that dedicated containers own or, if this process does not know them, claim.

    near: the pools as recalled.

    A record that the spec contradicts claims nothing of a pool: its container follows another or lives in `share`.
    """
    if not state.pools.plan:
        return state.pools.dedicated  # there is no operator's pool from which a claim could take CPUs
    requests = {pod.id: pod.cpu_request for pod, _ in event.pods}
    unknown = [
        (c, claim.of(c, wish, requests.get(c.pod_id)))
        for c, wish in event.containers
        if c.id not in state.containers
    ]
    recorded = (found.cpus for _, found in unknown if found.recorded and not found.is_belied)
    owned = reduce(or_, recorded, state.pools.dedicated)
    by_spec = [(c, found) for c, found in unknown if found.cpus & ~owned and not found.recorded]
    return owned | _by_spec(state, near, owned, by_spec, event) if by_spec else owned


def _by_spec(
    state: NodeState, near: Pools, owned: CPUMask, by_spec: list[_Claimant], event: Synchronized
) -> CPUMask:
    contested = named_twice(event.containers, {c.pod_id for c, _ in by_spec})
    alone = reduce(or_, (found.cpus for _, found in by_spec if not found.cpus & contested), 0)
    if any(_lives_in_share(state.pools, c, wish) for c, wish in event.containers):
        return alone
    of_pools, idle = _pools_have(state.pools, near)
    left = state.pools.system & ~state.pools.reserved & ~owned & ~alone & ~of_pools
    return alone if left.bit_count() > idle else 0


def named_twice(listed: tuple[tuple[Container, Wish], ...], pods: set[str]) -> CPUMask:
    """Return the CPUs that the specs of two containers name, both placed by us.

    A container that may follow a claimant in its pod does not count.
    """
    once = twice = 0
    for container, wish in listed:
        if _lives_by_pools(container, wish) and not (
            container.pod_id in pods and _may_follow(container, wish)
        ):
            cpus = claim.in_spec(container)
            twice |= once & cpus
            once |= cpus
    return twice


def _lives_by_pools(container: Container, wish: Wish) -> bool:
    return bool(container.record) and wish.handler == "container" and "cpu" not in wish.preserve


def _lives_in_share(pools: Pools, container: Container, wish: Wish) -> bool:
    """Return whether a container is in `share` or `system`, so that its spec names all CPUs of `share` or more."""
    if wish.qos not in (QoSClass.SHARED, QoSClass.SYSTEM) or not claim.in_spec(container):
        return False
    planned = {each.name for each in pools.plan}.difference((SHARE, SYSTEM))
    return _lives_by_pools(container, wish) and tiers.base(tiers.pool_of(wish)) not in planned


def _may_follow(container: Container, wish: Wish) -> bool:
    """Return whether a container may run on the CPUs of another one of its pod, by its request or by its record."""
    memory = record.read(container.record)
    followed = memory is not None and memory.pool == DEDICATED and not memory.exclusive
    is_small = not request.of_container(container, wish).whole
    return wish.qos is QoSClass.DEDICATED and (is_small or followed)


def _pools_have(now: Pools, near: Pools) -> tuple[CPUMask, int]:
    """Return the CPUs of the pools that have containers, and the number of CPUs that the other pools keep."""
    peopled = {k: cpus for k, cpus in near.tiers.items() if k in now.asked or cpus != now.tiers.get(k)}
    names = {tiers.base(k) for k in peopled}.union(POOLS)
    return reduce(or_, peopled.values(), 0), sum(each.minimum for each in now.plan if each.name not in names)
