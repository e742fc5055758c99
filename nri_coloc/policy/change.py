"""From one state to the next: derive the pools again and say who has to move.

A change of exclusive CPUs touches the members of every pool that shrank or grew, and the reclaim box; the
cost is one pass that compares pool names, however large the sets are.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.crowd import Crowd
from nri_coloc.model.decisions import NOBODY, Decision, Moves
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, SHARE, SYSTEM, Assignment, NodeState, PodPlace
from nri_coloc.policy import pools, tiers

_MEMBERS_OF = (SHARE, RECLAIM, SYSTEM)


def with_container(state: NodeState, assignment: Assignment) -> NodeState:
    """Return the state with one container added or replaced; the pools follow from what it owns."""
    owners = state.owners
    if assignment.exclusive:
        owners = {**owners, assignment.id: assignment.exclusive}
    elif assignment.id in owners:
        owners = {k: cpus for k, cpus in owners.items() if k != assignment.id}
    replaced = ((state.containers.get(assignment.id), assignment),)
    return _with_owners(state, state.containers.adding(assignment), owners, replaced)


def _with_owners(
    state: NodeState, containers: Crowd, owners: Mapping[str, CPUMask], replaced: Collection[tiers.Replaced]
) -> NodeState:
    derived = state.pools
    owned = derived.dedicated if owners is state.owners else reduce(or_, owners.values(), 0)
    asked = tiers.asked(derived, replaced) if derived.plan else derived.asked
    if owned != derived.dedicated or asked != derived.asked:
        told = derived if asked == derived.asked else replace(derived, asked=asked)
        derived = pools.derive(state.topology, derived.reserved, owned, derived.kept, told)
    return NodeState(state.topology, derived, state.pods, containers, owners, state.generation + 1)


def with_pod(state: NodeState, place: PodPlace) -> NodeState:
    """Return the state with one pod added or replaced."""
    return replace(state, pods={**state.pods, place.pod.id: place}, generation=state.generation + 1)


def without(state: NodeState, leaving: Collection[Assignment]) -> NodeState:
    """Return the state without these containers; who followed one of them returns to `share`."""
    ids = frozenset(a.id for a in leaving)
    containers = reduce(Crowd.without, ids, state.containers)
    replaced: list[tiers.Replaced] = [(state.containers[k], None) for k in ids if k in state.containers]
    for orphan in followers(state, leaving):
        homeless = replace(orphan, pool=SHARE, follows="", mems=0)
        replaced.append((orphan, homeless))
        containers = containers.adding(homeless)
    owners = state.owners
    if not ids.isdisjoint(owners):
        owners = {k: cpus for k, cpus in owners.items() if k not in ids}
    return _with_owners(state, containers, owners, replaced)


def followers(state: NodeState, leaving: Collection[Assignment]) -> list[Assignment]:
    """Return who runs on the CPUs of one of these containers and is none of them itself."""
    ids = {a.id for a in leaving}
    pods = dict.fromkeys(a.container.pod_id for a in leaving)
    return [a for pod in pods for a in state.of_pod(pod) if a.follows in ids and a.id not in ids]


def moved(before: NodeState, after: NodeState) -> Moves:
    """Return who runs on other CPUs than before: pods of the box as pods, all others one by one."""
    names = pool_names(before, after)
    changed = {pool for pool in names if before.pools.cpus(pool) != after.pools.cpus(pool)}
    had, owners = before.owners, after.owners
    reowned = (had.keys() - owners.keys()) | {k for k, cpus in owners.items() if had.get(k) != cpus}
    if not changed and not reowned:
        return NOBODY
    boxed = tuple(k for k, place in after.pods.items() if place.boxed)
    inherit = set(boxed)
    staying = reowned - before.containers.keys()
    # who followed an owner moves even where another pool than its new one took the owner's CPUs
    reowned |= {a.id for a in followers(before, [before.containers[k] for k in reowned - staying])}
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
    homes = [a.pool for a in after.containers.values()]
    return tuple(
        Decision(
            AuditEvent.POOL_RESIZE,
            reason,
            _because(after, pool, cause, homes.count(pool)),
            pool=pool,
            before=Knobs(cpus=cpuset.render(old)),
            after=Knobs(cpus=cpuset.render(new)),
        )
        for pool in pool_names(before, after)
        if (old := before.pools.cpus(pool)) != (new := after.pools.cpus(pool))
        and (pool == SHARE or pool in homes or pool in after.pools.counts)
    )


def _because(state: NodeState, pool: str, cause: str, members: int) -> str:
    short = tiers.shortage(state.pools, pool)
    follow = f"{members} {'member follows' if members == 1 else 'members follow'}"
    return f"{cause}; {short}; {follow}" if short else f"{cause}; {follow}"
