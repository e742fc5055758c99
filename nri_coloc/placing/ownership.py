"""Decide how many CPUs a container owns after its request changed: in-place resize, and missed changes.

The container grows beside the CPUs that it owns, or keeps a part of them. If the request cannot be met, it keeps its
old CPUs, and the audit gives the reason. A container that owned none (it was refused, or followed a main container)
is placed like a new one. An owner that now asks for less than one CPU follows its pod's main container, if there is
one.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import (
    NO_MOVES,
    Considered,
    ContainerStarting,
    Decision,
    Figure,
    Moves,
    Outcome,
    PodResized,
)
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import DEDICATED, SHARE, Assignment, Crowd, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import KEPT_BY_DRA, Container, Finding, Pod, QoSClass, Wish
from nri_coloc.placing import (
    admission,
    allocator,
    change,
    lifecycle,
    reclaim_cgroups,
    returned_values,
    supply,
    words,
)
from nri_coloc.placing.supply import Due


class Resize(NamedTuple):
    """The result of a request.

    assignment: the new one, or the old one if the request was not met.
    findings: annotation values that were not granted.
    considered: set if the container was placed like a new one, and CPUs were chosen.
    """

    assignment: Assignment
    reason: Reason
    because: str
    findings: tuple[Finding, ...] = ()
    considered: Considered | None = None

    @property
    def is_met(self) -> bool:
        """Whether the container has the CPUs that it asks for."""
        return self.reason is not Reason.RESIZE_UNMET


def resized(state: NodeState, assignment: Assignment, reserved_memory: int = 0) -> Resize | None:
    """Return the assignment that a container's present request gives; None if the container has it already.

    reserved_memory: bytes of the node that no bound container is promised.
    """
    if assignment.qos is not QoSClass.DEDICATED or assignment.hands_off:
        return None
    if not assignment.exclusive:
        return _placed(state, assignment, reserved_memory)
    asked = _due(state, assignment)
    if asked.cpus == assignment.exclusive.bit_count():
        return None
    return _of_owner(state, assignment, asked)


def _of_owner(state: NodeState, assignment: Assignment, asked: Due) -> Resize:
    return _owner_resized(state, assignment, asked) if asked.cpus else _given_up(state, assignment, asked)


def is_judged_again(known: Assignment, wish: Wish) -> bool:
    """Return whether a wish places a container again: another class, or its request covers its DRA claims no more."""
    is_driven, may_be = (KEPT_BY_DRA in each.preserve for each in (known.wish, wish))
    return wish.qos is not known.qos or (is_driven and not may_be)


def judged_again(state: NodeState, known: Assignment, wish: Wish, reserved_memory: int = 0) -> Resize:
    """Return the place of a container that has another class, or no claims any more, by a new CPU request.

    A container of class dedicated without its claims keeps as many of their CPUs as it requests. The gate admits class
    dedicated for a pod that requests enough CPU, at its start and after each resize. A container that has the class
    now is placed like a new one. A container that has lost it returns its CPUs. Only a reclaimed container keeps the
    granted part of its loan: the lent amounts limit no online container.
    """
    if wish.qos is known.qos and known.hands_off and known.exclusive:
        return _without_claims(state, known, wish)
    # the spec names a pool's CPUs or those of the former class: neither is a claim
    spec = replace(known.container.resources, cpus="")
    entered = admission.place(state, replace(known.container, resources=spec), wish, reserved_memory)
    placed = entered.assignment
    plain = replace(
        known,
        qos=wish.qos,
        wish=wish,
        pool=placed.pool,
        exclusive=placed.exclusive,
        follows=placed.follows,
        mems=placed.mems,
        hands_off=placed.hands_off,
        granted=known.granted if wish.qos is QoSClass.RECLAIMED else NO_KNOBS,
    )
    reason = Reason.RESIZE_UNMET if entered.reason is Reason.NO_FREE_CPUS else entered.reason
    because = f"{entered.because}; class was {known.qos.value}"
    now = returned_values.with_values(state, known, plain)
    return Resize(now, reason, because, entered.findings, entered.considered)


def _without_claims(state: NodeState, known: Assignment, wish: Wish) -> Resize:
    """Return the place of a dedicated container whose request covers its claims of the DRA CPU driver no more."""
    plain = replace(known, wish=wish, hands_off=False)
    found = _of_owner(state, plain, _due(state, plain))
    because = f"{found.because}; its request does not cover its claim any more"
    return found._replace(
        assignment=returned_values.with_values(state, known, found.assignment), because=because
    )


def unboxed(state: NodeState, pod: Pod, wishes: Iterable[Wish]) -> tuple[NodeState, Moves]:
    """Take a pod out of the reclaim cgroups if one of its containers has another class now."""
    moves = NO_MOVES
    for wish in wishes:
        state, own = reclaim_cgroups.with_member(state, pod, wish)
        moves += own
    return state, moves


def _given_up(state: NodeState, assignment: Assignment, asked: Due) -> Resize:
    """Return the new place of an owner that may own no CPUs now: its pod's main container's CPUs, else share."""
    main = admission.main_of(state, assignment.container.pod_id, but=assignment.id)
    returned = cpuset.render(assignment.exclusive)
    if main is None:
        now = replace(assignment, pool=SHARE, exclusive=0, mems=0)
        why = f"runs in share: {asked.why_none}; returned CPUs {returned}"
        return Resize(now, Reason.BELOW_ONE_CPU, why)
    joined = replace(assignment, pool=DEDICATED, exclusive=0, follows=main.id, mems=main.mems)
    where = f"CPUs {cpuset.render(main.exclusive)} of main container {main.container.name}"
    return Resize(joined, Reason.FOLLOWS_MAIN, f"runs on {where}: {asked.why_none}; returned CPUs {returned}")


def _owner_resized(state: NodeState, assignment: Assignment, asked: Due) -> Resize:
    owned, free = assignment.exclusive, state.pools.free
    missing = asked.cpus - owned.bit_count()
    room = supply.room(state, assignment.container, assignment.wish, 0)
    wish, findings = admission.satisfiable(state, assignment.wish, asked.cpus, room)
    sources = supply.sources(state, assignment.wish, missing)
    grants = (allocator.fit(state.topology, cpus, owned, asked.cpus, wish) for cpus in sources)
    grant = next((found for found in grants if found is not None), None)
    if grant is None:
        because = (
            f"own CPUs {cpuset.render(owned)} kept: {admission.short_of(missing, free, 'more ')}"
            f"{supply.short_of_isolated(state, wish, 0)}"
        )
        return Resize(assignment, Reason.RESIZE_UNMET, because, findings)
    mems = admission.bound_to(state, assignment.wish, grant.cpus)
    now = replace(assignment, exclusive=grant.cpus, mems=mems, knobs=_knobs(assignment, mems))
    return Resize(now, grant.reason, grant.because, findings)


def _placed(state: NodeState, assignment: Assignment, reserved_memory: int) -> Resize | None:
    """Place a container that owns no CPUs like a new one; the CPUs in its spec are a pool's, and no claim."""
    spec = replace(assignment.container.resources, cpus="")
    listed = replace(assignment.container, record="", resources=spec)
    found = admission.dedicate(state, listed, assignment.wish, reserved_memory)
    if found.reason is Reason.NO_FREE_CPUS:
        return Resize(assignment, Reason.RESIZE_UNMET, found.because, found.findings, found.considered)
    if not found.assignment.exclusive and found.assignment.follows == assignment.follows:
        return None
    placed = found.assignment
    now = replace(
        assignment,
        pool=placed.pool,
        exclusive=placed.exclusive,
        follows=placed.follows,
        mems=placed.mems,
        knobs=_knobs(assignment, placed.mems),
    )
    return Resize(now, found.reason, found.because, found.findings, found.considered)


def _knobs(assignment: Assignment, mems: CPUMask) -> Knobs:
    """Return a container's knobs with its memory nodes marked as ours: no push carries them, files do."""
    return assignment.knobs._replace(mems=cpuset.render(mems)) if mems else assignment.knobs


def _due(state: NodeState, assignment: Assignment) -> Due:
    return supply.of(state, assignment.container, assignment.wish)


def due(state: NodeState, assignment: Assignment, known: supply.Beside | None = None) -> int:
    """Return how many CPUs of its own a container of class dedicated may own; `known` as for `supply.of`."""
    return supply.of(state, assignment.container, assignment.wish, known).cpus


def adopt(state: NodeState, now: Assignment) -> tuple[NodeState, tuple[Decision, ...]]:
    """Return the state with a resized container and its followers, and the decisions on other containers of its pod."""
    if not (now.exclusive or now.follows):
        return _without_own(state, now)
    led = [replace(a, follows=now.follows) for a in change.followers(state, (now,))] if now.follows else []
    after = reduce(change.with_container, (*led, now), state)
    return lifecycle.followed_by_small_ones(after, now)


def _without_own(state: NodeState, now: Assignment) -> tuple[NodeState, tuple[Decision, ...]]:
    """Take the CPUs of a container that may own none any more, as at its end; it follows its pod's heir, if any.

    A container that owned no CPUs has no heir: beside its pod's main container it waits in `share` for its own.
    """
    after, of_followers = lifecycle.without(state, (state.containers[now.id],))
    bequeaths = now.id in state.owners and now.qos is QoSClass.DEDICATED
    heir = admission.main_of(after, now.container.pod_id) if bequeaths else None
    if heir is not None:
        now = replace(now, pool=DEDICATED, follows=heir.id, mems=heir.mems)
    return change.with_container(after, now), of_followers


def moves(before: NodeState, after: NodeState, container_id: str) -> tuple[Moves, Moves]:
    """Return all moves of a resize, and the moves that the resized container waits for.

    Containers that lose CPUs come first: CPUs must be left before another container enters them.
    """
    found = change.movers(before, after)
    ordered = Moves(found.pods, found.losing + found.gaining)
    if not after.owners.get(container_id, 0) & ~before.owners.get(container_id, 0):
        return ordered, NO_MOVES
    own_pod = after.containers[container_id].container.pod_id
    staying = {container_id, *(a.id for a in after.of_pod(own_pod) if a.follows == container_id)}
    leaving = tuple([k for k in found.losing if k not in staying])
    return ordered, Moves(tuple(k for k in found.pods if k != own_pod), leaving)


def _under_request(state: NodeState, known: Assignment, wish: Wish | None, tuning: Tuning) -> Resize | None:
    """Return the place of a container under its pod's new CPU request; None if it keeps its place.

    wish: with its new class, None if it keeps its class.
    """
    if wish is not None:
        return judged_again(state, known, wish, tuning.reserved_memory)
    found = resized(state, known, tuning.reserved_memory)
    return found if found is not None and (known.exclusive or found.is_met) else None


def pod_resized(before: NodeState, event: PodResized, tuning: Tuning) -> Outcome:
    """Adopt a pod's requests, and the classes that its containers have under them.

    Owners of CPUs get the CPUs that they may own now, owners before followers.
    """
    state, boxes = unboxed(change.with_request(before, event.pod), event.pod, event.wishes.values())
    place, of_pod = before.pods.get(event.pod.id), tuple[Decision, ...]()
    if boxes or (place is not None and place.pod.memory_request != event.pod.memory_request):
        of_pod = words.changed(before, state, (event.pod.id,))
    decisions: list[Decision] = [*of_pod]
    moves = boxes if boxes or not of_pod else Moves(pods=(event.pod.id,))
    changed: list[Assignment] = []
    for known in sorted(state.of_pod(event.pod.id), key=lambda a: (not a.exclusive, a.id)):
        found = _under_request(state, state.containers[known.id], event.wishes.get(known.id), tuning)
        if found is not None:
            state, told = _adopted(state, found, "its pod's request changed")
            decisions += told
            changed.append(found.assignment)
    state, of_findings = _with_news(state, event.pod.id, changed)
    decisions += of_findings
    cause = f"pool resized: the CPU request of {event.pod.namespace}/{event.pod.name} changed"
    returned = before.pools.dedicated & ~state.pools.dedicated
    reason = Reason.CPUS_RETURNED if returned else Reason.CPUS_TAKEN
    resizes = change.pool_decisions(before, state, reason, cause) if decisions else ()
    return Outcome(state, (*decisions, *resizes), moves + change.moved(before, state))


def within_requests(
    before: NodeState, pod_id: str, tuning: Tuning, wishes: Mapping[str, Wish] | None = None, but: str = ""
) -> Outcome:
    """Return the outcome in which a pod's owners return the CPUs that the present requests give them no more.

    wishes: of the containers that have another class now, by id.
    but: the container that changes; its own event decides its CPUs.
    """
    state, decisions, wishes = before, list[Decision](), wishes or {}
    changed: list[Assignment] = []
    for known in before.of_pod(pod_id):
        now, wish = state.containers[known.id], wishes.get(known.id)
        if wish is not None and not is_judged_again(now, wish):
            wish = None
        is_over = now.exclusive and due(state, now) < now.exclusive.bit_count()
        if now.id == but or not (is_over or wish):
            continue
        found = _under_request(state, now, wish, tuning)
        if found is not None:
            state, told = _adopted(state, found, "another container of its pod changed its request")
            decisions += told
            changed.append(found.assignment)
    if not decisions:
        return Outcome(before)
    state, of_findings = _with_news(state, pod_id, changed)
    decisions += of_findings
    place = before.pods[pod_id].pod
    cause = f"pool resized: the CPU requests in {place.full_name} changed"
    resizes = change.pool_decisions(before, state, Reason.CPUS_RETURNED, cause)
    return Outcome(state, (*decisions, *resizes), change.moved(before, state))


def _adopted(state: NodeState, found: Resize, cause: str) -> tuple[NodeState, tuple[Decision, ...]]:
    """Return the state with the new place of a container whose own event this is not, and the decisions."""
    after, joined = adopt(state, found.assignment)
    of_findings = words.of_findings(found.findings, found.assignment)
    return after, (said(state, after, found, cause), *of_findings, *joined)


def _with_news(
    state: NodeState, pod_id: str, changed: list[Assignment]
) -> tuple[NodeState, tuple[Decision, ...]]:
    """Return the state that remembers the findings of changed containers of a pod, and the decisions on new ones."""
    if not changed:
        return state, ()
    state, decisions = lifecycle.without_lapsed_findings_of(state, pod_id), list[Decision]()
    seen: set[tuple[Finding, ...]] = set()
    for one in changed:
        if one.wish.findings not in seen:
            seen.add(one.wish.findings)
            state, new = lifecycle.with_findings(state, pod_id, one.wish.findings)
            decisions += words.of_findings(new, one)
    return state, tuple(decisions)


def beside_new(state: NodeState, container: Container, wish: Wish, tuning: Tuning) -> Outcome | None:
    """Return the outcome in which owners have left a new container its part of their pod's request; None if all have.

    A new container of class dedicated takes no part from them: it gets what they leave, or follows them.
    """
    if wish.qos is QoSClass.DEDICATED and not wish.is_hands_off:
        return None
    over = lifecycle.failed_attempts(state, container)
    new = Assignment(container, wish.qos, SHARE, wish=wish)
    crowd = reduce(Crowd.without, [each.id for each in over], state.containers).adding(new)
    outcome = within_requests(replace(state, containers=crowd), container.pod_id, tuning)
    if not outcome.decisions:
        return None
    crowd = reduce(Crowd.adding, over, outcome.state.containers.without(new.id))
    return replace(outcome, state=replace(outcome.state, containers=crowd))


def beside_changed(
    state: NodeState, known: Assignment, now: Assignment, judged: Mapping[str, Wish], tuning: Tuning
) -> Outcome:
    """Return the outcome in which the pod's other owners have made room for a container's new request.

    The container itself has its former values, for its own event to change.

    judged: wishes of the containers that have another class under the pod's lowered request.
    """
    if known.container.resources.shares == now.container.resources.shares:
        return Outcome(state)
    there = replace(state, containers=state.containers.adding(now))
    outcome = within_requests(there, now.container.pod_id, tuning, judged, but=now.id)
    if not outcome.decisions:
        return Outcome(state)
    moved = outcome.state.containers[now.id]
    former = replace(
        known, pool=moved.pool, exclusive=moved.exclusive, follows=moved.follows, mems=moved.mems
    )
    return replace(outcome, state=replace(outcome.state, containers=outcome.state.containers.adding(former)))


def start(state: NodeState, event: ContainerStarting, tuning: Tuning) -> Outcome:
    """Record that a container starts. If it was refused CPUs of its own and they are free now, it gets them.

    So the main container gets an init container's CPUs even if the end of the init container is reported late: the
    kubelet may create the next container before the runtime has reported that end.
    """
    outcome = lifecycle.start(state, event, tuning)
    known = state.containers.get(event.container.id)
    if known is None or known.qos is not QoSClass.DEDICATED or event.running:
        return outcome
    if known.exclusive or known.follows or not due(outcome.state, known):
        return outcome
    before = outcome.state
    found = resized(before, before.containers[known.id], tuning.reserved_memory)
    if found is None or not found.is_met:
        return outcome
    after, joined = adopt(before, found.assignment)
    who, waits_for = moves(before, after, known.id)
    owned = cpuset.render(found.assignment.exclusive)
    cause = f"pool resized: {known.container.name} owns CPUs {owned} from its start on"
    decisions = (
        said(before, after, found, "CPUs are free now"),
        *joined,
        *change.pool_decisions(before, after, Reason.CPUS_TAKEN, cause),
    )
    return outcome + Outcome(after, decisions, who, waits_for)


def said(before: NodeState, after: NodeState, found: Resize, cause: str = "its request changed") -> Decision:
    """Return the decision on a resize that is no answer to a kubelet's update."""
    now = after.containers[found.assignment.id]
    was = before.containers.get(now.id, now)
    old, new = cpuset.render(before.cpus_of(was)), cpuset.render(after.cpus_of(now))
    changed = Knobs(cpus=old), Knobs(cpus=new)
    return Decision(
        AuditEvent.UPDATE,
        found.reason,
        f"{found.because}; {cause}",
        subject=now,
        before=changed[0].differing(changed[1]),
        after=changed[1].differing(changed[0]),
        considered=found.considered,
        inputs=words.of_request(after, now) | figures(before, found),
        shows=words.SHOWN,
    )


def figures(before: NodeState, found: Resize) -> dict[str, Figure]:
    """Return by name the figures of a resize: the CPUs to own, owned before and free, and the wish."""
    was = before.containers.get(found.assignment.id, found.assignment)
    return {
        "n": due(before, found.assignment),
        "owned": cpuset.render(was.exclusive),
        "free": cpuset.render(before.pools.free),
        **allocator.wished(found.assignment.wish),
    }
