"""From one state to the next: derive the pools again and say who has to move.

A change of exclusive CPUs touches the members of every pool that shrank or grew, and the reclaim box; those are
looked at and nobody else, however many live on the node.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.crowd import Crowd
from nri_coloc.model.decisions import NOBODY, Decision, Moves
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, SHARE, SYSTEM, Assignment, NodeState, PodPlace, Pools
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
    return NodeState(state.topology, derived, state.pods, containers, owners, state.generation + 1, state.box)


def with_pod(state: NodeState, place: PodPlace) -> NodeState:
    """Return the state with one pod added or replaced."""
    pod_id, box = place.pod.id, state.box
    if place.boxed != state.boxed(pod_id):
        box = (*box, pod_id) if place.boxed else tuple(k for k in box if k != pod_id)
    pods = {**state.pods, pod_id: place}
    return replace(state, pods=pods, generation=state.generation + 1, box=box)


def without_pod(state: NodeState, pod_id: str) -> NodeState:
    """Return the state without a pod that no container is left in."""
    pods = {k: place for k, place in state.pods.items() if k != pod_id}
    return replace(state, pods=pods, box=tuple(k for k in state.box if k != pod_id))


def with_all_pods(state: NodeState, pods: Mapping[str, PodPlace]) -> NodeState:
    """Return the state with exactly these pods."""
    return replace(state, pods=pods, box=tuple(k for k, place in pods.items() if place.boxed))


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
    changed = changed_pools(before.pools, after.pools)
    reowned = _reowned(before, after)
    if not changed and not reowned:
        return NOBODY
    members = [a for pool in changed for a in after.containers.of_pool(pool)]
    others = [a for a in _owners(before, after, reowned) if a.pool not in changed]
    affected = [
        a
        for a in (*members, *others)
        if not a.hands_off and not (a.pool == RECLAIM and after.boxed(a.container.pod_id))
    ]
    as_pods = {a.container.pod_id for a in affected if a.wish.handler == "pod"}
    pods = (*(after.box if RECLAIM in changed else ()), *sorted(as_pods))
    return Moves(pods, tuple([a.container.id for a in affected if a.wish.handler == "container"]))


def _reowned(before: NodeState, after: NodeState) -> set[str]:
    """Return who owns other CPUs than before, or none of those any more."""
    had, owners = before.owners, after.owners
    if had is owners:
        return set()
    return (had.keys() - owners.keys()) | {k for k, cpus in owners.items() if had.get(k) != cpus}


def _owners(before: NodeState, after: NodeState, reowned: set[str]) -> Iterator[Assignment]:
    """Yield who owns other CPUs and was there before, and whoever follows it or followed it: who did moves even where
    another pool than its new one took the owner's CPUs."""
    known = [crowd[k] for k in reowned for crowd in (before.containers, after.containers) if k in crowd]
    for pod_id in sorted({a.container.pod_id for a in known}):
        followed = {a.id for a in before.of_pod(pod_id) if a.follows in reowned}
        for a in after.of_pod(pod_id):
            if a.follows in reowned or a.id in followed or (a.id in reowned and a.id in before.containers):
                yield a


def changed_pools(before: Pools, after: Pools) -> list[str]:
    """Return the pools whose sets differ: of those that others' CPUs are taken from, and of the operator's."""
    names = list(_MEMBERS_OF)
    if before.tiers != after.tiers:
        names += sorted({name for name, _ in before.tiers.items() ^ after.tiers.items()})
    return [name for name in names if before.cpus(name) != after.cpus(name)]


def pool_decisions(before: NodeState, after: NodeState, reason: Reason, cause: str) -> tuple[Decision, ...]:
    """Say which pools changed, for the audit; pools without members are said only for `share` and
    where the loop told a size."""
    return tuple(
        Decision(
            AuditEvent.POOL_RESIZE,
            reason,
            _because(after, pool, cause, members),
            pool=pool,
            before=Knobs(cpus=cpuset.render(before.pools.cpus(pool))),
            after=Knobs(cpus=cpuset.render(after.pools.cpus(pool))),
        )
        for pool in changed_pools(before.pools, after.pools)
        if (members := after.containers.in_pool(pool)) or pool == SHARE or pool in after.pools.counts
    )


def _because(state: NodeState, pool: str, cause: str, members: int) -> str:
    short = tiers.shortage(state.pools, pool)
    follow = f"{members} {'member follows' if members == 1 else 'members follow'}"
    return f"{cause}; {short}; {follow}" if short else f"{cause}; {follow}"
