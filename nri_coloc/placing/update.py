"""Decide which values hold after an update that the kubelet asks for.

cpus and mems are always ours (unless `preserve`), and so is each value that an annotation ordered. All other values
are the kubelet's. If none of our values differs, the answer is empty: any answer makes containerd drop the fields of
the request that NRI cannot carry (nri-protocol §5.3).
"""

from typing import Final

from nri_coloc.core import cpuset, workload
from nri_coloc.core.decisions import NO_MOVES, ContainerUpdating, Decision, Figure, Inputs, Moves, Outcome
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Resources, Wish
from nri_coloc.placing import admission, change, claim, lifecycle, ownership, record, request, supply, words
from nri_coloc.placing.ownership import Resize

_FIGURES: Final = Knobs(
    shares=0, quota=0, period=0, memory_limit=0, memory_high=0, memory_low=0, memory_min=0
)
"""The knobs that follow from the kubelet's figures; only the names count."""

_SHOWN: Final = (
    "kept.cpus",
    *(f"asked.{name}" for name in ("cpus", "mems", "shares", "quota", "period", "memory.limit")),
)
"""The figures of an update that its sentence ends with."""


def update(state: NodeState, event: ContainerUpdating, tuning: Tuning) -> Outcome:
    """Take the kubelet's new values and lay ours over them; an unknown container is admitted first.

    Another amount of CPU changes what a dedicated container owns. The update of an ended container changes nothing.
    """
    outcome = Outcome(state)
    if event.container.id in state.ended:
        return outcome
    if event.container.id not in state.containers:
        outcome = lifecycle.admit(
            state, event.pod, event.container, event.wish, tuning, Reason.PLACED_AT_START
        )
    admitted = outcome.state
    before, boxes = ownership.unboxed(admitted, event.pod, _own_class(event))
    known = before.containers[event.container.id]
    assignment = _with_news(before, known, event)
    if event.lowered is not None:
        before = change.with_request(before, event.lowered)
    beside = ownership.beside_changed(before, known, assignment, event.judged, tuning)
    if beside.decisions:
        outcome, before = outcome + beside, beside.state
        known = before.containers[event.container.id]
        assignment = _with_news(before, known, event)
    resize = _resized(before, known, assignment, event, tuning)
    if resize is not None and tuning.strict and event.answered and not resize.is_met:
        refused = _refused(state, event, resize)
        if not tuning.observe:
            return refused
        outcome += Outcome(before, refused.decisions)
    if resize is None:
        after = change.with_container(before, assignment)
        outcome += Outcome(after, (_said(before, after, assignment, event),))
    else:
        outcome += _carried_out(before, event, resize)
    outcome = replace(outcome, moves=boxes + outcome.moves)
    return _with_memory(admitted, outcome, event)


def _own_class(event: ContainerUpdating) -> tuple[Wish, ...]:
    """Return the wish with which the updated container has another class; empty if it keeps its class."""
    wish = event.judged.get(event.container.id)
    return () if wish is None else (wish,)


def _resized(
    state: NodeState, known: Assignment, now: Assignment, event: ContainerUpdating, tuning: Tuning
) -> Resize | None:
    for wish in _own_class(event):
        return ownership.judged_again(state, now, wish, tuning.reserved_memory)
    is_asked = _asks_anew(state, known, now, event)
    return ownership.resized(state, now, tuning.reserved_memory) if is_asked else None


def _asks_anew(state: NodeState, known: Assignment, now: Assignment, event: ContainerUpdating) -> bool:
    """Return whether the update asks for another amount of CPU, or for one that could not be met before.

    The kubelet sends all values with each change of one. So an update with the present values counts only for an
    owner with another number of CPUs than it may own.
    """
    if not event.requested.shares:
        return False
    before = request.of_container(known.container, known.wish)
    after = request.of_container(now.container, now.wish)
    owned = now.exclusive.bit_count()
    return before.milli != after.milli or 0 < owned != supply.of(state, now.container, now.wish).cpus


def _refused(state: NodeState, event: ContainerUpdating, resize: Resize) -> Outcome:
    """Return the outcome that fails the kubelet's update; nothing has changed, and the kubelet retries."""
    text = words.refused(event.pod, event.container, words.cause_of(resize.because))
    decision = Decision(
        AuditEvent.UPDATE,
        Reason.REFUSED_STRICT,
        f"resize refused: {words.cause_of(resize.because)}",
        subject=resize.assignment,
        considered=resize.considered,
        inputs=words.of_request(state, resize.assignment) | ownership.figures(state, resize),
        shows=words.SHOWN,
    )
    return Outcome(state, (decision,), refusal=text)


def _carried_out(before: NodeState, event: ContainerUpdating, resize: Resize) -> Outcome:
    """Return the outcome of a resize: the CPUs of the container, and the moves of all affected containers."""
    after, joined = ownership.adopt(before, resize.assignment)
    moves, waits_for = ownership.moves(before, after, event.container.id)
    returned = before.pools.dedicated & ~after.pools.dedicated
    where = f"{event.pod.full_name}/{event.container.name}"
    cause = f"pool resized: {where} owns CPUs {cpuset.render(resize.assignment.exclusive) or 'none'}"
    reason = Reason.CPUS_RETURNED if returned else Reason.CPUS_TAKEN
    decisions = (
        _said(before, after, resize.assignment, event, resize),
        *words.of_findings(resize.findings, resize.assignment),
        *joined,
        *change.pool_decisions(before, after, reason, cause),
    )
    return Outcome(after, decisions, moves, waits_for)


def _with_news(state: NodeState, known: Assignment, event: ContainerUpdating) -> Assignment:
    """Return the assignment with the kubelet's new values; the spec in the event holds our values too."""
    spec = record.kubelets_of(event.container.resources, known)
    lowest = workload.lowest_memory_limit(known.container)
    container = as_asked(replace(known.container, resources=spec, lowest_limit=lowest), event.requested)
    kubelets, told = admission.spec_of(container), event.requested.knobs()
    knobs = known.knobs.without(known.returned.where_set(told))
    now = replace(
        known,
        container=container,
        knobs=knobs,
        original=kubelets.where_set(knobs),
        returned=known.returned.without(told),
    )
    if event.wish == known.wish or not _says_the_same(known.wish, event.wish):
        return now
    now = replace(now, wish=event.wish)
    ours = admission.orders(state, now).differing(kubelets)
    figures = zip(knobs, ours, _FIGURES, strict=True)
    knobs = Knobs._make([had if figure is None else has for had, has, figure in figures])
    by_file = known.by_file or (not event.answered and _files_only(known.knobs, knobs) != NO_KNOBS)
    return replace(now, knobs=knobs, original=kubelets.where_set(knobs), by_file=by_file)


def _says_the_same(known: Wish, now: Wish) -> bool:
    """Return whether two wishes differ only in values that follow from the kubelet's figures, such as percentages."""
    same = replace(
        now,
        knobs=known.knobs,
        annotated=known.annotated,
        cpu_milli=known.cpu_milli,
        origins=known.origins,
        findings=known.findings,
    )
    return same == known


def _with_memory(before: NodeState, outcome: Outcome, event: ContainerUpdating) -> Outcome:
    """Return the outcome with the writes that no answer carries.

    These are protections along the path, the pod of a VM, and the files of a container whose values files carry.
    """
    known, now = (state.containers[event.container.id] for state in (before, outcome.state))
    if now.wish is known.wish and event.answered and now.wish.handler != "pod":
        return outcome
    pod_id, changed = now.container.pod_id, _files_only(known.knobs, now.knobs)
    state = (
        outcome.state if now.qos is known.qos else lifecycle.without_lapsed_findings_of(outcome.state, pod_id)
    )
    state, new = lifecycle.with_findings(state, pod_id, now.wish.findings)
    of_its_pod = words.changed(before, outcome.state, (pod_id,))
    said = (*words.of_findings(new, now), *of_its_pod)
    moves = Moves(pods=(pod_id,)) if of_its_pod else NO_MOVES
    if not event.answered or (now.by_file and changed != NO_KNOBS):
        moves += Moves(containers=(now.id,))
    # the last decision of an update may hold the answer
    return replace(outcome, state=state, decisions=(*said, *outcome.decisions), moves=outcome.moves + moves)


def _files_only(had: Knobs, has: Knobs) -> Knobs:
    """Return the new memory values that a spec has no field for; a protection that is not allowed any more is 0."""
    low = 0 if had.memory_low and has.memory_low is None else has.memory_low
    least = 0 if had.memory_min and has.memory_min is None else has.memory_min
    return Knobs(memory_high=has.memory_high, memory_low=low, memory_min=least).differing(had)


def as_asked(container: Container, requested: Resources) -> Container:
    """Return the container with the kubelet's values after an update; `lowest_limit` has its former memory limit.

    A record is older than these values.
    """
    return replace(
        container,
        record="",
        resources=merge(container.resources, requested),
        lowest_limit=workload.lowest_memory_limit(container),
        certain_limit=None if requested.memory_limit else container.certain_limit,
    )


def merge(spec: Resources, requested: Resources) -> Resources:
    """Return the spec after an update in which 0, "" and None mean "keep"."""
    return Resources(
        shares=requested.shares or spec.shares,
        quota=requested.quota or spec.quota,
        period=requested.period or spec.period,
        cpus=requested.cpus or spec.cpus,
        mems=requested.mems or spec.mems,
        memory_limit=requested.memory_limit or spec.memory_limit,
    )


def _overlay(state: NodeState, assignment: Assignment, event: ContainerUpdating, merged: Knobs) -> Knobs:
    """Return the values of ours that the update would overwrite; new memory values are in `_files_only`.

    The spec of a container in a reclaim cgroup is kept free of CPUs. If the request names CPUs, or the spec has some of
    another class, which no update takes out, they are made to fit where they must lie within the pod's. Elsewhere the
    kernel grants the part that the pod has: a smaller set would stay when the reclaim pool grows.
    """
    ours = admission.orders(state, assignment)
    own = Knobs(cpus=ours.cpus, mems=_widened(merged.mems, ours.mems) if ours.mems else None)
    held = own.overlaid(ours.where_set(_annotated(assignment)))
    if event.within_pod:
        held = held.overlaid(fitting(state, assignment, merged.cpus))
    return held.differing(merged)


def _widened(named: str | None, ours: str) -> str | None:
    """Return the memory nodes for the spec: with ours, if it names too few; None if it names none or enough.

    The runtime never takes nodes from a running container: the kernel would move its memory in that write. Files do if
    it has little memory there (`host.cpusets.bearable`).
    """
    has, wanted = claim.of_text(named or ""), claim.of_text(ours)
    return cpuset.render(has | wanted) if has and wanted & ~has else None


def fitting(state: NodeState, assignment: Assignment, named: str | None) -> Knobs:
    """Return the CPUs for the spec of a container in a reclaim cgroup; no knobs if the spec names no CPUs.

    The CPUs must lie within the pod's CPUs: the runtime writes the whole spec at each update, and the kernel refuses
    other CPUs.
    """
    if not named or not admission.inherits(state, assignment):
        return NO_KNOBS
    return Knobs(cpus=cpuset.render(state.cpus_of(assignment)))


def _annotated(assignment: Assignment) -> Knobs:
    """Return the annotation's orders that an update can carry; the others are written to files."""
    wish = assignment.wish.annotated.overlaid(assignment.granted)
    return Knobs(shares=wish.shares, quota=wish.quota, period=wish.period, memory_limit=wish.memory_limit)


def _said(
    before: NodeState,
    after: NodeState,
    assignment: Assignment,
    event: ContainerUpdating,
    resize: Resize | None = None,
) -> Decision:
    """Return the decision on an update; the decision's orders are the values of ours that overlay the kubelet's."""
    known = before.containers[assignment.id]
    spec = admission.spec_of(event.container)
    merged = merge(event.container.resources, event.requested).knobs()
    overlay = _overlay(after, assignment, event, merged)
    if assignment.knobs is not known.knobs:
        overlay = overlay.overlaid(_files_only(known.knobs, assignment.knobs))
    values = merged.overlaid(overlay).differing(spec)
    asked = merged.differing(spec)
    if resize is not None:
        reason, what = resize.reason, f"{resize.because}; the kubelet changed its request"
    elif overlay == NO_KNOBS:
        reason, what = (
            Reason.NOTHING_OURS,
            "the kubelet's request passed unchanged: no value of the daemon differs",
        )
    else:
        told = "other values" if asked != NO_KNOBS else "nothing new"
        reason = Reason.KUBELET_UPDATE
        what = f"kept the daemon's {', '.join(overlay.named())}: the kubelet asked for {told}"
    return Decision(
        AuditEvent.UPDATE,
        reason,
        what,
        subject=assignment,
        before=_held(before, known).overlaid(spec).where_set(values).differing(values),
        after=values,
        orders=overlay,
        considered=None if resize is None else resize.considered,
        inputs=_inputs(before, assignment, asked, overlay.cpus, resize),
        shows=_SHOWN if resize is None else words.SHOWN,
    )


def _inputs(
    before: NodeState, assignment: Assignment, asked: Knobs, kept: str | None, resize: Resize | None
) -> Inputs:
    """Return by name the values that the kubelet asked for, and the figures of the CPUs that follow from them.

    kept: the daemon's CPUs that take the place of the kubelet's; None if there are none.
    """
    found: dict[str, Figure] = {f"asked.{name}": value for name, value in asked.named().items()}
    if kept is not None:
        found["kept.cpus"] = kept
    found |= words.of_request(before, assignment)
    return found if resize is None else found | ownership.figures(before, resize)


def _held(state: NodeState, known: Assignment) -> Knobs:
    """Return the values that a container had and that the runtime's spec may not show."""
    ours = known.knobs
    return Knobs(
        cpus=cpuset.render(state.cpus_of(known)),
        memory_high=ours.memory_high,
        memory_low=ours.memory_low or 0,
        memory_min=ours.memory_min or 0,
    )
