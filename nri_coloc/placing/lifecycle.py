"""Handle the events of containers and pods, from creation to release.

When an owner of CPUs ends, the containers of its pod that follow it inherit its CPUs. A finding about an annotation
is reported once for each pod, however many containers read it. Findings are compared without the value that is used
instead, which may differ by container. They are kept with the pod and end with it. A restarted daemon reports them
once again.
"""

from functools import reduce
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    ContainerCreating,
    ContainerGone,
    ContainerStarting,
    Decision,
    Moves,
    Outcome,
    PodRemoved,
    PodStarted,
)
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import DEDICATED, POOLS, Assignment, NodeState, PodPlace
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Finding, Phase, Pod, Wish
from nri_coloc.placing import (
    admission,
    allocator,
    change,
    reclaim_cgroups,
    request,
    starts,
    supply,
    tiers,
    words,
)

FINDINGS_KEPT: Final = 64
"""For one pod, because its author decides their number. Beyond it the oldest may be recorded again."""


def with_findings(
    state: NodeState, pod_id: str, findings: tuple[Finding, ...]
) -> tuple[NodeState, tuple[Finding, ...]]:
    """Return the state that remembers these findings for the pod, and the findings that were not reported yet."""
    place = state.pods.get(pod_id)
    if not findings or place is None:
        return state, findings
    known = {*place.told}
    new = tuple([finding for finding in findings if _words(finding) not in known])
    if not new:
        return state, ()
    told = (*place.told, *map(_words, new))[-FINDINGS_KEPT:]
    return change.with_pod(state, replace(place, told=told)), new


def without_lapsed_findings(state: NodeState) -> NodeState:
    """Return the state without findings that hold for no container any more; if they hold again, they are reported."""
    if not any(place.told for place in state.pods.values()):
        return state
    return change.with_all_pods(state, {k: _still(state, k, place) for k, place in state.pods.items()})


def without_lapsed_findings_of(state: NodeState, pod_id: str) -> NodeState:
    """Return the same for one pod alone."""
    place = state.pods.get(pod_id)
    if place is None or not place.told:
        return state
    return change.with_pod(state, _still(state, pod_id, place))


def _still(state: NodeState, pod_id: str, place: PodPlace) -> PodPlace:
    if not place.told:
        return place
    findings = {member.wish.findings for member in state.of_pod(pod_id)}
    holding = {_words(finding) for each in findings for finding in each}
    return replace(place, told=tuple(words for words in place.told if words in holding))


def _words(finding: Finding) -> Finding:
    return replace(finding, used="")


def without(state: NodeState, leaving: tuple[Assignment, ...]) -> tuple[NodeState, tuple[Decision, ...]]:
    """Return the state without these containers, and the decisions on the containers that followed them."""
    after = change.without(state, leaving)
    if not change.followers(state, leaving):
        return after, ()
    said: list[Decision] = []
    for owner in leaving:
        followers = [
            after.containers[a.id] for a in change.followers(state, (owner,)) if a.id in after.containers
        ]
        heir = _heir(after, owner, followers)
        if heir is None:
            said += (words.of_orphan(state, after, a) for a in followers)
            continue
        others = [
            replace(a, pool=DEDICATED, follows=heir.id, mems=heir.mems) for a in followers if a.id != heir.id
        ]
        after = reduce(change.with_container, (heir, *others), after)
        said += (words.of_heir(state, after, owner, a) for a in (heir, *others))
    return after, tuple(said)


def _heir(state: NodeState, owner: Assignment, followers: list[Assignment]) -> Assignment | None:
    """Return the follower that may own most CPUs, as the new owner; None if none of them may own CPUs."""
    pod_owned = not request.of_container(owner.container, owner.wish).milli
    pods = supply.beside(state, owner.container.pod_id)
    able = [
        (a, due)
        for a in followers
        if (due := supply.of(state, a.container, a.wish, pods).cpus)
        and (pod_owned or request.of_container(a.container, a.wish).milli)
    ]
    if not able or not owner.exclusive:
        return None
    first, due = min(able, key=lambda pair: (-pair[1], pair[0].id))
    count = min(due, owner.exclusive.bit_count())
    kept = allocator.fit(state.topology, 0, owner.exclusive, count, first.wish)
    cpus = kept.cpus if kept is not None else owner.exclusive
    mems = admission.bound_to(state, first.wish, cpus)
    return replace(first, pool=DEDICATED, exclusive=cpus, follows="", mems=mems)


def create(state: NodeState, event: ContainerCreating, tuning: Tuning) -> Outcome:
    """Return the outcome of placing a container before it exists.

    If its id is known, the container is created a second time. If only its name is known, the earlier attempts
    failed. In both cases the CPUs of the earlier one are free again before CPUs are chosen.
    """
    known = state.containers.get(event.container.id)
    failed = failed_attempts(state, event.container)
    if known is None and not failed:
        return admit(state, event.pod, event.container, event.wish, tuning)
    released = Outcome(state)
    if known is not None:
        released += release(state, (known,), Reason.VANISHED)
    if failed:
        released += release(released.state, failed, Reason.SUPERSEDED)
    again = admit(released.state, event.pod, event.container, event.wish, tuning)
    if again.refusal:
        return replace(again, state=with_findings(state, event.pod.id, event.wish.findings)[0])
    decisions = (*released.decisions, *again.decisions)
    return replace(again, decisions=decisions, moves=released.moves + again.moves)


def failed_attempts(state: NodeState, container: Container) -> tuple[Assignment, ...]:
    """Return the earlier attempts of a container that never started.

    The kubelet creates the next attempt only after the previous one is over. If a runtime could not make the task, it
    reports nothing: neither StartContainer nor StopContainer comes.
    """
    known = [a for a in state.containers.of_pod(container.pod_id) if a.container.id != container.id]
    return tuple([a for a in known if is_attempt_of(a.container, container)]) if known else ()


def is_attempt_of(former: Container, container: Container) -> bool:
    """Return whether `former` never started and has the name of `container`, in the same pod."""
    same = former.name == container.name and former.pod_id == container.pod_id
    return same and bool(former.name) and former.phase is Phase.CREATED


def start(state: NodeState, event: ContainerStarting, tuning: Tuning) -> Outcome:
    """Record that a container starts or runs; place it now, by file, if it is unknown.

    PostStartContainer comes after StopContainer if the container ends at once. Then nothing changes.
    """
    if event.container.id in state.ended:
        return Outcome(state)
    phase = Phase.RUNNING if event.running else Phase.STARTING
    known = state.containers.get(event.container.id)
    if known is None:
        container = replace(event.container, phase=phase)
        admitted = admit(state, event.pod, container, event.wish, tuning, Reason.PLACED_AT_START)
        return admitted + starts.over(admitted.state, event.pod.id, container.id)
    container = replace(
        known.container,
        phase=phase,
        pid=event.container.pid,
        cgroups_path=event.container.cgroups_path,
        created_at=event.container.created_at or known.container.created_at,
    )
    after = change.with_container(state, replace(known, container=container))
    return starts.over(after, event.pod.id, known.id)


def admit(
    state: NodeState,
    pod: Pod,
    container: Container,
    wish: Wish,
    tuning: Tuning,
    by_file: Reason | None = None,
    *,
    waits: bool = False,
) -> Outcome:
    """Place a container and move the containers that it displaces; `strict` refuses a demand that cannot be granted.

    by_file: the reason why the plugin did not answer its creation, None while it still can.
    waits: older containers wait for CPUs, so it gets none that it did not have.
    """
    if container.id in state.ended:  # the runtime lists it although its end was reported
        state = replace(state, ended=tuple(k for k in state.ended if k != container.id))
    before = state
    state, box_moves = reclaim_cgroups.with_member(state, pod, wish)
    state = with_member(state, container, wish)
    admitted = admission.place(state, container, wish, tuning.reserved_memory, waits=waits)
    findings = wish.findings + admitted.findings
    state, new = with_findings(state, pod.id, wish.findings)
    said = words.of_findings(new + admitted.findings, admitted.assignment)
    if tuning.strict and by_file is None and (refusal := words.refusal(pod, admitted, findings)):
        said = (*said, words.of_refusal(state, admitted, refusal))
        if not tuning.observe:  # in observe mode the refusal is only recorded
            # the kubelet retries often: findings that were reported stay reported
            return Outcome(with_findings(before, pod.id, wish.findings)[0], said, refusal=refusal)
    assignment = admission.remembered(state, admitted.assignment)
    if by_file is not None or tuning.observe:
        # in observe mode the answer is empty: if we act later, files must carry the values
        assignment = replace(assignment, by_file=True)
    after, joined = followed_by_small_ones(change.with_container(state, assignment), assignment)
    decisions = (words.of_admission(after, admitted, assignment, by_file), *said, *joined)
    of_its_pod = words.changed(before, after, (pod.id,))
    decisions += of_its_pod
    if of_its_pod or wish.handler == "pod":
        box_moves += Moves(pods=(pod.id,))
    if not assignment.exclusive:
        return Outcome(after, decisions, box_moves)
    moves, owned = change.moved(before, after), cpuset.render(assignment.exclusive)
    cause = f"pool resized: {pod.full_name}/{container.name} owns CPUs {owned}"
    resized = change.pool_decisions(before, after, Reason.CPUS_TAKEN, cause)
    return Outcome(after, (*decisions, *resized), box_moves + moves, waits_for=moves)


def with_member(state: NodeState, container: Container, wish: Wish) -> NodeState:
    """Return the state whose pool has the size that it needs with this container.

    The container counts before it is placed, because it gets the CPUs of the pool.
    """
    if not state.pools.plan:
        return state
    pool = tiers.pool_of(wish)
    if pool in POOLS or wish.is_hands_off:
        return state
    return change.with_container(state, Assignment(container, wish.qos, pool, wish=wish))


def admit_again(
    state: NodeState,
    listed: Container,
    wish: Wish,
    tuning: Tuning,
    by_file: Reason | None,
    *,
    waits: bool = False,
) -> tuple[NodeState, tuple[Decision, ...]]:
    """Place a container that exists already: it keeps the CPUs that it still may have, and cannot be refused.

    waits: older containers wait for CPUs, so it gets no others.

    Decisions on pools and on pod limits are left out: the caller adds them once, at the end.
    """
    place = state.pods.get(listed.pod_id)
    pod = place.pod if place else Pod(listed.pod_id)
    outcome = admit(state, pod, listed, wish, replace(tuning, strict=False), by_file, waits=waits)
    own = (AuditEvent.POOL_RESIZE, AuditEvent.POD_LIMIT)
    return outcome.state, tuple(d for d in outcome.decisions if d.event not in own)


def followed_by_small_ones(state: NodeState, main: Assignment) -> tuple[NodeState, tuple[Decision, ...]]:
    """Let the pod's containers that asked for less than one CPU follow a main container that came later."""
    if not main.exclusive or main.hands_off:
        return state, ()
    small = [
        a
        for a in state.of_pod(main.container.pod_id)
        if a.id != main.id
        and a.qos is main.qos
        and not a.follows
        and not a.hands_off
        and admission.is_small(a.container, a.wish)
    ]
    if not small:
        return state, ()
    leaders = {a.id for a in small}
    small += [a for a in state.of_pod(main.container.pod_id) if a.follows in leaders]
    joined = [replace(a, pool=main.pool, exclusive=0, follows=main.id, mems=main.mems) for a in small]
    after = reduce(change.with_container, joined, state)
    return after, tuple(words.of_join(state, after, a, main) for a in small)


def gone(state: NodeState, event: ContainerGone) -> Outcome:
    """Release a container: its CPUs return to the pools, or pass to an heir in its pod."""
    known = state.containers.get(event.container_id)
    if known is None:
        return starts.gone(state, event.container_id)
    if event.vanished:
        return release(state, (known,), Reason.VANISHED)
    reason = Reason.REMOVED if event.removed else Reason.STOPPED
    return release(change.with_ended(state, known.id), (known,), reason)


def release(state: NodeState, leaving: tuple[Assignment, ...], reason: Reason) -> Outcome:
    """Take containers out of the state; their CPUs return to the pools, or stay with their pods (`_heir`)."""
    outcome = _released(state, leaving, reason)
    for one in leaving:
        if starts.awaits(state, one.container.pod_id):
            outcome += starts.over(outcome.state, one.container.pod_id, one.id)
    return outcome


def _released(state: NodeState, leaving: tuple[Assignment, ...], reason: Reason) -> Outcome:
    after, of_followers = without(state, leaving)
    of_pods = words.changed(state, after, dict.fromkeys(a.container.pod_id for a in leaving))
    decisions = (
        *(words.of_release(state, a, reason) for a in leaving),
        *of_followers,
        *of_pods,
    )
    units = {a.container.pod_id for a in leaving if a.wish.handler == "pod"}
    moves = Moves(pods=tuple(sorted({d.pod_id for d in of_pods} | units)))
    returned = state.pools.dedicated & ~after.pools.dedicated
    if not returned:
        return Outcome(after, decisions, moves)
    cause = f"pool resized: CPUs {cpuset.render(returned)} were returned"
    resized = change.pool_decisions(state, after, Reason.CPUS_RETURNED, cause)
    return Outcome(after, (*decisions, *resized), moves + change.moved(state, after))


def pod_started(state: NodeState, event: PodStarted) -> Outcome:
    """Add a pod; the cgroup of a reclaimed pod is limited at once, before its first container."""
    after, moves = reclaim_cgroups.with_pod(state, event.pod, event.wish)
    decision = reclaim_cgroups.limit(state, after, event.pod, event.wish)
    return Outcome(after, (decision,) if decision else (), moves)


def pod_removed(state: NodeState, event: PodRemoved) -> Outcome:
    """Remove a pod and its containers: a stopped sandbox has no live container."""
    outcome = release(state, tuple(state.of_pod(event.pod_id)), Reason.REMOVED)
    said = tuple(d for d in outcome.decisions if d.pod_id != event.pod_id)
    return replace(outcome, state=change.without_pod(outcome.state, event.pod_id), decisions=said)
