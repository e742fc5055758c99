"""Return the CPUs that pools and dedicated containers had, before the runtime's list is replayed."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Synchronized
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
    recorded = [(c, found) for c, found in unknown if found.recorded and not found.is_belied]
    owned = _recorded(state, near, recorded, event)
    by_spec = [(c, found) for c, found in unknown if found.cpus & ~owned and not found.recorded]
    return owned | _by_spec(state, near, owned, by_spec, event) if by_spec else owned


def _recorded(state: NodeState, near: Pools, recorded: list[_Claimant], event: Synchronized) -> CPUMask:
    """Return the CPUs that are owned by record.

    A container that returned its CPUs since may have, by chance, a set of `share` that agrees with its record. If the
    claims would leave `share` without a CPU, claims to CPUs that another container's spec names have lapsed.
    """
    owned = reduce(or_, (found.cpus for _, found in recorded), state.pools.dedicated)
    if _leaves_share(state, near, owned):
        return owned
    contested = named_twice(event.containers, {c.pod_id for c, _ in recorded})
    holding = (found.cpus for _, found in recorded if not found.cpus & contested)
    return reduce(or_, holding, state.pools.dedicated)


def _leaves_share(state: NodeState, near: Pools, owned: CPUMask) -> bool:
    """Return whether `share` has a CPU beside these owned CPUs and the CPUs of the pools."""
    of_pools, idle = _pools_have(state.pools, near)
    left = state.pools.system & ~state.pools.reserved & ~owned & ~of_pools
    return left.bit_count() > idle


def _by_spec(
    state: NodeState, near: Pools, owned: CPUMask, by_spec: list[_Claimant], event: Synchronized
) -> CPUMask:
    alone = reduce(or_, _uncontested(by_spec, event.containers), 0)
    if any(_lives_in_share(state.pools, c, wish) for c, wish in event.containers):
        return alone
    return alone if _leaves_share(state, near, owned | alone) else 0


def _uncontested(by_spec: list[_Claimant], listed: tuple[tuple[Container, Wish], ...]) -> list[CPUMask]:
    """Return the claims to CPUs that no other container's spec names.

    Our record on a container shows that its own spec is one of those that we placed. Without it, one other spec is
    enough to contest the claim: the container's pod may hide the record to look like an owner.
    """
    names = _named(listed, {c.pod_id for c, _ in by_spec})
    of_strangers = _Names().adding(found.cpus for c, found in by_spec if not c.record)
    without_record = names.once | of_strangers.twice
    return [
        found.cpus for c, found in by_spec if not found.cpus & (names.twice if c.record else without_record)
    ]


class _Names(NamedTuple):
    """CPUs that at least one spec names, and CPUs that at least two specs name."""

    once: CPUMask = 0
    twice: CPUMask = 0

    def adding(self, specs: Iterable[CPUMask]) -> "_Names":
        return reduce(
            lambda names, cpus: _Names(names.once | cpus, names.twice | names.once & cpus), specs, self
        )


def named_twice(listed: tuple[tuple[Container, Wish], ...], pods: set[str]) -> CPUMask:
    """Return the CPUs that the specs of two containers name, both placed by us.

    A container that may follow a claimant in its pod does not count.
    """
    return _named(listed, pods).twice


def _named(listed: tuple[tuple[Container, Wish], ...], pods: set[str]) -> _Names:
    return _Names().adding(
        claim.in_spec(container)
        for container, wish in listed
        if _lives_by_pools(container, wish)
        and not (container.pod_id in pods and _may_follow(container, wish))
    )


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
