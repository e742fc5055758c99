"""What dedicated containers may be taken to own before a list is replayed; the operator's pools keep off it.

After a restart the loop's counts are unknown and a pool has its plan's size at once, while owners come back one by
one. A record says what is owned. A spec alone (its container got CPUs after its creation) says it only if it cannot
be what `share` had: nobody else's spec names those CPUs, and either somebody lived in `share` meanwhile, or there is
more left for it than pools without members have.
"""

from functools import reduce
from operator import or_

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.events import Synchronized
from nri_coloc.model.state import DEDICATED, POOLS, SHARE, SYSTEM, NodeState, Pools
from nri_coloc.model.workload import Container, QoSClass, Wish
from nri_coloc.policy import claim, membership, record, request, tiers
from nri_coloc.policy.claim import Claim

_Claimant = tuple[Container, Claim]


def claims(state: NodeState, near: Pools, event: Synchronized) -> CPUMask:
    """Return all that dedicated containers own or, not known to us, say they own. `near`: the pools as recalled.

    A record alone, which the spec belies, claims nothing of a pool: its container follows another or lives in `share`.
    """
    if not state.pools.plan:
        return state.pools.dedicated  # no pool has CPUs that it could take
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
    """Return the CPUs that the specs of two containers name which we placed; who may follow a claimant of its pod does
    not count."""
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
    """Whether a spec names all that `share` has, or more: that of a member, or of one of `system`."""
    if wish.qos not in (QoSClass.SHARED, QoSClass.SYSTEM) or not claim.in_spec(container):
        return False
    planned = {each.name for each in pools.plan}.difference((SHARE, SYSTEM))
    return _lives_by_pools(container, wish) and tiers.base(membership.pool_of(wish)) not in planned


def _may_follow(container: Container, wish: Wish) -> bool:
    """Whether a container may run on the CPUs of another one of its pod, by its request or by its record."""
    memory = record.read(container.record)
    followed = memory is not None and memory.pool == DEDICATED and not memory.exclusive
    is_small = not request.of_container(container, wish).whole
    return wish.qos is QoSClass.DEDICATED and (is_small or followed)


def _pools_have(now: Pools, near: Pools) -> tuple[CPUMask, int]:
    """Return what the pools with members have, and how many CPUs those without keep."""
    peopled = {k: cpus for k, cpus in near.tiers.items() if k in now.asked or cpus != now.tiers.get(k)}
    names = {tiers.base(k) for k in peopled}.union(POOLS)
    return reduce(or_, peopled.values(), 0), sum(each.minimum for each in now.plan if each.name not in names)
