"""Replay the runtime's list after a registration, and place containers again after a change of settings or machine.

`synchronize` takes the runtime's list: containers that this process does not know get their earlier CPUs if their
claims hold (`claims`), and only then are CPUs chosen for the others. `reconfigure` moves only containers that lost a
CPU or have another wish. Known containers with the same wish keep their assignment.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import reduce
from operator import or_
from typing import Final

from nri_coloc.core.decisions import Decision, Moves, Outcome, Reconfigured, Synchronized
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import POOLS, Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.texts import counted
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Phase, Pod, Wish
from nri_coloc.placing import (
    admission,
    change,
    claim,
    claims,
    lifecycle,
    ownership,
    pools,
    reclaim_cgroups,
    record,
    returned_values,
    starts,
    tiers,
    waiting,
    words,
)
from nri_coloc.placing.claims import Granted, Listed

_YOUNGEST: Final = 1 << 63
"""Creation time in ns for a pod without a container: later than any."""


def given(
    state: NodeState, old: Assignment, said: tuple[Decision, ...]
) -> tuple[NodeState, tuple[Decision, ...]]:
    """Restore the values of a container placed again that are not ours any more.

    The decision on its placement names the restored values, too.
    """
    now = state.containers[old.id]
    back = returned_values.of(state, old, now)
    if not any(value is not None for value in back):
        return state, said
    again = admission.remembered(state, replace(now, returned=back))
    had = returned_values.held(old).where_set(back)
    told = tuple(_with(d, again, had, back) if d.subject is now else d for d in said)
    return change.with_container(state, again), told


def _with(placing: Decision, again: Assignment, had: Knobs, back: Knobs) -> Decision:
    """Return the decision on a placement with the restored values beside the placement's own.

    After a restart its `before` holds the values before our first write, not ours.
    """
    before = placing.before.overlaid(had) if placing.event is AuditEvent.UPDATE else placing.before
    return placing._replace(subject=again, before=before, after=placing.after.overlaid(back))


def synchronize(state: NodeState, event: Synchronized, tuning: Tuning) -> Outcome:
    """Replace the known containers and pods by the runtime's list; all are compared with the kernel afterwards."""
    before = state
    each_once = {container.id: (container, wish) for container, wish in event.containers}
    event = replace(event, containers=_without_failed_attempts(tuple(each_once.values())))
    places = claim.in_pools(event.containers)
    near = pools.recalled(state, event.containers, places)
    listed = {c.id: c.pod_id for c, _ in event.containers}
    # one that is listed in another pod is another container
    vanished = tuple(a for k, a in state.containers.items() if listed.get(k) != a.container.pod_id)
    released = lifecycle.release(state, vanished, Reason.VANISHED)
    own = (AuditEvent.POOL_RESIZE, AuditEvent.POD_LIMIT)
    decisions = [d for d in released.decisions if d.event not in own]
    state = _with_pods(released.state, event, listed)
    held = claims.granted(state, near, event.containers, places)
    sizing, others = _in_order(state, event.containers, held)
    state, said = _all_replayed(pools.claimed(state, near, held.cpus), sizing, tuning, held)
    # each pool has its size now, and its earlier CPUs again
    state, more = _all_replayed(pools.claimed(state, near, held.cpus), others, tuning, held)
    state, met = _requests_met(before, state, event, tuning)
    decisions += (*said, *more, *met)
    state = pools.settled(box_again(state), near)
    found = f"{counted(len(event.containers), 'container')} in {counted(len(event.pods), 'pod')}"
    cause = f"pool resized: the runtime listed {found}"
    decisions.extend(change.pool_decisions(before, state, Reason.RECONFIGURED, cause))
    decisions.extend(words.changed_of_all(before, state))
    return Outcome(_unless_same(before, state), tuple(decisions), everyone(state))


def _without_failed_attempts(
    listed: tuple[tuple[Container, Wish], ...],
) -> tuple[tuple[Container, Wish], ...]:
    """Leave out attempts that never started if the list has a later attempt, which runs or is younger."""
    if all(container.phase is not Phase.CREATED for container, _ in listed):
        return listed
    attempts: dict[tuple[str, str], list[Container]] = defaultdict(list)
    for container, _ in listed:
        attempts[container.pod_id, container.name].append(container)

    def is_over(former: Container) -> bool:
        return any(_is_later(other, former) for other in attempts[former.pod_id, former.name])

    return tuple((container, wish) for container, wish in listed if not is_over(container))


def _is_later(other: Container, former: Container) -> bool:
    if other.id == former.id or not lifecycle.is_attempt_of(former, other):
        return False
    return other.phase is Phase.RUNNING or other.created_at > former.created_at


def _requests_met(
    before: NodeState, state: NodeState, event: Synchronized, tuning: Tuning
) -> tuple[NodeState, tuple[Decision, ...]]:
    """Carry out the resizes that came while we were away, after all containers have their earlier CPUs again.

    A spec that once held shares or a quota of ours does not show the kubelet's request. The oldest container comes
    first. If one of them waits for CPUs, the younger ones do not grow before it: second chances place them later.
    """
    decisions: list[Decision] = []
    first = _first_waiting(state)
    for container, _ in sorted(event.containers, key=lambda pair: pair[0].created_at):
        memory, known = record.read(container.record), before.containers.get(container.id)
        now = state.containers[container.id]
        if memory is not None and not {"shares", "quota", "period"}.isdisjoint(memory.ours):
            continue
        if not now.exclusive if known is None else ownership.due(before, known) == ownership.due(state, now):
            continue
        if waiting.missing(state, now) and first < _age(container):
            continue
        found = ownership.resized(state, now, tuning.reserved_memory)
        if found is None:
            continue
        after, joined = ownership.adopt(state, found.assignment)
        decisions += (ownership.said(state, after, found), *words.of_findings(found.findings, now), *joined)
        state = after
        first = _first_waiting(state)
    return state, tuple(decisions)


def _unless_same(before: NodeState, after: NodeState) -> NodeState:
    """Return the earlier state, with its generation, if a synchronisation changed nothing."""
    same = before.pods == after.pods and before.containers == after.containers and before.pools == after.pools
    return before if same else after


_Line = list[tuple[Container, Wish]]


def _in_order(state: NodeState, listed: Listed, held: Granted) -> tuple[_Line, _Line]:
    """Return the list in the order of the replay, divided after the containers that size pools.

    Containers that this process knows, those with CPUs from the DRA CPU driver and those of the operator's pools come
    first: they size the pools. In each part come those whose claims hold, then the rest by age: after the first that
    waits for CPUs of its own all younger ones wait, too (`waiting`).

    A pool leaves claimed CPUs alone. A dedicated container without a claim that holds gets only the CPUs that the pools
    leave, as at a creation.
    """
    sizing: _Line = []
    others: _Line = []
    for container, wish in listed:
        is_first = container.id in state.containers or container.id in held.driven
        (sizing if is_first or tiers.pool_of(wish) not in POOLS else others).append((container, wish))

    def place_in_line(pair: tuple[Container, Wish]) -> tuple[int, int, str]:
        container = pair[0]
        return held.ranks.get(container.id, len(held.ranks)), *_age(container)

    return sorted(sizing, key=place_in_line), sorted(others, key=place_in_line)


def _age(container: Container) -> tuple[int, str]:
    return container.created_at, container.id


def _with_pods(state: NodeState, event: Synchronized, listed: Collection[str]) -> NodeState:
    """Return the state with exactly the listed pods; known pods stay in or out of the reclaim cgroups."""
    places: dict[str, PodPlace] = {}
    unstarted = starts.listed(container for container, _ in event.containers)
    for pod, wish in sorted(event.pods, key=_seniority(state, event)):
        known = state.pods.get(pod.id)
        boxed = known.boxed if known is not None and known.wish == wish else _belongs(pod, wish)
        told = known.told if known is not None else ()
        places[pod.id] = PodPlace(pod, wish, boxed, told, unstarted.get(pod.id, ()) if boxed else ())
    for container, wish in event.containers:
        if container.pod_id not in places and container.id in listed:
            places[container.pod_id] = state.pods.get(container.pod_id) or PodPlace(
                Pod(container.pod_id), wish
            )
    return replace(change.with_all_pods(state, places), generation=state.generation + 1)


def _seniority(state: NodeState, event: Synchronized) -> Callable[[tuple[Pod, Wish]], tuple[int, int, str]]:
    """Return the sort key of pods: known pods in their order, then by the age of their oldest container."""
    known = {pod_id: number for number, pod_id in enumerate(state.pods)}
    ages: dict[str, int] = {}
    for container, _ in event.containers:
        if container.created_at:
            ages[container.pod_id] = min(
                container.created_at, ages.get(container.pod_id, container.created_at)
            )

    def key(listed: tuple[Pod, Wish]) -> tuple[int, int, str]:
        pod_id = listed[0].id
        return known.get(pod_id, len(known)), ages.get(pod_id, _YOUNGEST), pod_id

    return key


def _belongs(pod: Pod, wish: Wish) -> bool:
    return pod.owns_cgroup and reclaim_cgroups.belongs(wish)


def _all_replayed(
    state: NodeState, listed: _Line, tuning: Tuning, held: Granted
) -> tuple[NodeState, list[Decision]]:
    decisions: list[Decision] = []
    first = _first_waiting(state)
    for container, wish in listed:
        by_file = None if record.read(container.record) else Reason.ADOPTED
        age = _age(container)
        waits = first < age and container.id not in held.ranks
        state, said = _replayed(state, container, wish, tuning, by_file, waits=waits)
        if age < first and waiting.missing(state, state.containers[container.id]):
            first = age
        decisions += said
    return state, decisions


def _first_waiting(state: NodeState) -> tuple[int, str]:
    """Return the age of the oldest container that waits for CPUs of its own; later than any if none waits."""
    return min((_age(one.container) for one in waiting.of(state)), default=(_YOUNGEST, ""))


def _replayed(
    state: NodeState,
    container: Container,
    wish: Wish,
    tuning: Tuning,
    by_file: Reason | None,
    *,
    waits: bool,
) -> tuple[NodeState, tuple[Decision, ...]]:
    known = state.containers.get(container.id)
    if known is not None and known.wish == wish:
        facts = record.facts_of(container, known)
        return change.with_container(state, replace(known, container=facts)), ()
    if known is not None:
        state = change.without(state, (known,))
        container = record.as_listed(replace(known, container=record.facts_of(container, known)))
        by_file = Reason.RECONFIGURED
    former = known or record.former(container)
    state, said = lifecycle.admit_again(state, container, wish, tuning, by_file, waits=waits)
    if former is None:
        return state, said
    state, said = given(state, former, said)
    return _beside_record(state, former), said


def _beside_record(state: NodeState, former: Assignment) -> NodeState:
    """Let files carry, and the journal remember, values that became ours while we were away: the record lacks them."""
    now = state.containers[former.id]
    if now.by_file or now.knobs.without(former.knobs) == NO_KNOBS:
        return state
    return change.with_container(state, replace(now, by_file=True))


def _but_rejoined(before: NodeState, decisions: list[Decision]) -> list[Decision]:
    """Leave out decisions on sidecars that joined the main container that they followed all along."""
    return [
        d
        for d in decisions
        if d.reason is not Reason.MAIN_CAME
        or (a := d.subject) is None
        or a.id not in before.containers
        or before.containers[a.id].follows != a.follows
    ]


def _orphans(before: NodeState, after: NodeState) -> tuple[Decision, ...]:
    """Return the decisions on followers whose main container lost its CPUs and that got none in their place."""
    return tuple(
        words.of_orphan(before, after, a)
        for k, a in after.containers.items()
        if (old := before.containers.get(k)) is not None
        and old.follows
        and not a.follows
        and a.wish == old.wish
    )


def box_again(state: NodeState) -> NodeState:
    """Take the cgroups of pods with a container of another class out of the reclaim cgroups."""
    others = {a.container.pod_id for a in state.containers.values() if a.qos.value != "reclaimed"}
    pods = {
        k: replace(place, boxed=False) if place.boxed and k in others else place
        for k, place in state.pods.items()
    }
    return state if pods == state.pods else change.with_all_pods(state, pods)


def everyone(state: NodeState) -> Moves:
    """Return every container and every pod, to be compared with the kernel."""
    return Moves(tuple(state.pods), tuple(state.containers))


def reconfigure(state: NodeState, event: Reconfigured, tuning: Tuning) -> Outcome:
    """Apply new tuning or a changed machine; only affected containers and pods move."""
    before = state
    state, lost = _surviving(before, event, tuning)
    decisions: list[Decision] = []
    for assignment in _to_place_again(state, lost, event):
        wish = event.wishes.get(assignment.id, assignment.wish)
        state = change.without(state, (assignment,))
        listed = record.as_listed(assignment)
        state, said = lifecycle.admit_again(state, listed, wish, tuning, Reason.RECONFIGURED)
        state, said = given(state, assignment, said)
        decisions.extend(said)
    state = lifecycle.without_lapsed_findings(pools.settled(box_again(state), before.pools))
    decisions = [*_but_rejoined(before, decisions), *_orphans(before, state)]
    cause = "pool resized: the configuration or the machine changed"
    decisions.extend(change.pool_decisions(before, state, Reason.RECONFIGURED, cause))
    decisions.extend(words.changed_of_all(before, state))
    return Outcome(state, tuple(decisions), _differing(before, state))


def _surviving(before: NodeState, event: Reconfigured, tuning: Tuning) -> tuple[NodeState, list[Assignment]]:
    """Return the state in which containers keep the CPUs that they may keep, and the containers that lost theirs."""
    reserved = pools.reserved_cpus(event.topology, tuning)
    kubelets = pools.kept_cpus(event.topology, tuning)
    kept, lost = claims.surviving(before, event.topology, reserved | kubelets)
    owners = {a.id: a.exclusive for a in kept if a.exclusive}
    told = pools.as_told(before.pools, tuning)
    # as of a state without pods; their requests are counted when the pods are added
    nothing = NodeState(event.topology, replace(told, asked={}))
    pod_ids = dict.fromkeys(a.container.pod_id for a in kept)
    asked, tallies = tiers.requests_after(nothing, tiers.Population(Crowd.of(kept), {}), pod_ids)
    told = replace(told, asked=asked)
    derived = pools.derive(event.topology, reserved, reduce(or_, owners.values(), 0), kubelets, told)
    state = NodeState(
        topology=event.topology,
        pools=derived,
        pods={},
        containers=Crowd.of(tiers.housed(derived, a) for a in kept),
        owners=owners,
        generation=before.generation + 1,
        ended=before.ended,
        facts=before.facts,
        tallies=tallies,
    )
    state = change.with_all_pods(state, {k: _place_again(place, event) for k, place in before.pods.items()})
    return pools.claimed(state, before.pools, derived.dedicated), lost


def _place_again(place: PodPlace, event: Reconfigured) -> PodPlace:
    """Return a pod's place with its wish and its CPU request under the new tuning."""
    pod, wish = place.pod, event.pod_wishes.get(place.pod.id, place.wish)
    if pod.id in event.requests:
        place = replace(place, pod=replace(pod, cpu_request=event.requests[pod.id]))
    return place if wish == place.wish else replace(place, wish=wish, boxed=_belongs(pod, wish))


def _to_place_again(state: NodeState, lost: list[Assignment], event: Reconfigured) -> list[Assignment]:
    changed = [a for a in state.containers.values() if event.wishes.get(a.id, a.wish) != a.wish]
    return lost + changed


def _differing(before: NodeState, after: NodeState) -> Moves:
    """Return the pods and containers whose CPUs or values changed."""
    pods = tuple(
        k
        for k, place in after.pods.items()
        if before.boxed(k) != place.boxed
        or reclaim_cgroups.knobs(before, k) != reclaim_cgroups.knobs(after, k)
    )
    containers = tuple(
        k
        for k, a in after.containers.items()
        if (old := before.containers.get(k)) is None
        or before.cpus_of(old) != after.cpus_of(a)
        or old.hands_off != a.hands_off
        or old.knobs != a.knobs
    )
    return Moves(pods, containers)
