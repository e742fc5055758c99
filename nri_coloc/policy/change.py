"""From one state to the next: derive the pools again and say who has to move.

A change of exclusive CPUs touches the members of every pool that shrank or grew, and the reclaim box; the
cost is one pass that compares pool names, however large the sets are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.decisions import NOBODY, Decision, Moves
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, SHARE, SYSTEM, Asked, Assignment, NodeState, PodPlace, Pools
from nri_coloc.policy import pools, tiers

_MEMBERS_OF = (SHARE, RECLAIM, SYSTEM)


def adopt(
    state: NodeState,
    containers: Mapping[str, Assignment],
    pods: Mapping[str, PodPlace] | None = None,
) -> NodeState:
    """Return the state with these containers; the pools follow from what they own and ask for."""
    owners = {k: a.exclusive for k, a in containers.items() if a.exclusive}
    asked = state.pools.asked
    if state.pools.plan:
        asked = tiers.asked(state.pools, tiers.replaced(state.containers, containers))
    derived = _derived(state, reduce(or_, owners.values(), 0), asked)
    pods = state.pods if pods is None else pods
    return NodeState(state.topology, derived, pods, containers, owners, state.generation + 1)


def with_container(state: NodeState, assignment: Assignment) -> NodeState:
    """Return the state with one container added or replaced."""
    containers = {**state.containers, assignment.id: assignment}
    owners, derived = state.owners, state.pools
    if assignment.exclusive:
        owners = {**owners, assignment.id: assignment.exclusive}
    elif assignment.id in owners:
        owners = {k: cpus for k, cpus in owners.items() if k != assignment.id}
    asked = derived.asked
    if derived.plan:
        asked = tiers.asked(derived, ((state.containers.get(assignment.id), assignment),))
    owned = derived.dedicated if owners is state.owners else reduce(or_, owners.values(), 0)
    derived = _derived(state, owned, asked)
    return NodeState(state.topology, derived, state.pods, containers, owners, state.generation + 1)


def _derived(state: NodeState, owned: CPUMask, asked: Mapping[str, Asked]) -> Pools:
    """Derive the pools again if other CPUs are owned or the members ask for another amount."""
    now = state.pools
    if owned == now.dedicated and asked == now.asked:
        return now
    told = now if asked == now.asked else replace(now, asked=asked)
    return pools.derive(state.topology, now.reserved, owned, now.kept, told)


def with_pod(state: NodeState, place: PodPlace) -> NodeState:
    """Return the state with one pod added or replaced."""
    return replace(state, pods={**state.pods, place.pod.id: place}, generation=state.generation + 1)


def without(state: NodeState, container_ids: frozenset[str]) -> NodeState:
    """Return the state without these containers; who followed one of them returns to `share`."""
    containers = dict(state.containers)
    for gone in container_ids & containers.keys():
        del containers[gone]
    for orphan in followers(state, container_ids):
        containers[orphan.id] = replace(orphan, pool=SHARE, follows="", mems=0)
    return adopt(state, containers)


def followers(state: NodeState, container_ids: frozenset[str]) -> list[Assignment]:
    """Return who runs on the CPUs of one of these containers and is none of them itself."""
    return [
        a
        for a in state.containers.values()
        if a.follows and a.follows in container_ids and a.id not in container_ids
    ]


def moved(before: NodeState, after: NodeState) -> Moves:
    """Return who runs on other CPUs than before: pods of the box as pods, all others one by one."""
    names = pool_names(before, after)
    changed = {pool for pool in names if before.pools.cpus(pool) != after.pools.cpus(pool)}
    reowned = {
        k for k in before.owners.keys() | after.owners.keys() if before.owners.get(k) != after.owners.get(k)
    }
    if not changed and not reowned:
        return NOBODY
    boxed = tuple(k for k, place in after.pods.items() if place.boxed)
    inherit = set(boxed)
    staying = reowned - before.containers.keys()
    # who followed an owner moves even where another pool than its new one took the owner's CPUs
    reowned |= {a.id for a in before.containers.values() if a.follows in reowned}
    affected = [
        a
        for k, a in after.containers.items()
        if (a.pool in changed or a.follows in reowned or k in reowned)
        and not a.hands_off
        and a.container.pod_id not in inherit
        and k not in staying
    ]
    as_pods = {a.container.pod_id for a in affected if a.wish.handler == "pod"}
    pods = (*(boxed if RECLAIM in changed else ()), *sorted(as_pods))
    return Moves(pods, tuple(a.container.id for a in affected if a.wish.handler == "container"))


def pool_names(before: NodeState, after: NodeState) -> tuple[str, ...]:
    """Return the pools that may have changed: those that others' CPUs are taken from, and the operator's."""
    if not after.pools.tiers and not before.pools.tiers:
        return _MEMBERS_OF
    return (*_MEMBERS_OF, *sorted(before.pools.tiers.keys() | after.pools.tiers.keys()))


def pool_decisions(before: NodeState, after: NodeState, reason: Reason, cause: str) -> tuple[Decision, ...]:
    """Say which pools changed, for the audit; pools without members are said only for `share` and
    where the loop told a size."""
    counts = Counter(a.pool for a in after.containers.values())
    return tuple(
        Decision(
            AuditEvent.POOL_RESIZE,
            reason,
            _because(after, pool, cause, counts[pool]),
            pool=pool,
            before=Knobs(cpus=cpuset.render(old)),
            after=Knobs(cpus=cpuset.render(new)),
        )
        for pool in pool_names(before, after)
        if (old := before.pools.cpus(pool)) != (new := after.pools.cpus(pool))
        and (counts[pool] or pool == SHARE or pool in after.pools.counts)
    )


def _because(state: NodeState, pool: str, cause: str, members: int) -> str:
    short = tiers.shortage(state.pools, pool)
    follow = f"{members} {'member follows' if members == 1 else 'members follow'}"
    return f"{cause}; {short}; {follow}" if short else f"{cause}; {follow}"
