"""An update that the kubelet asks for: whose value holds.

cpus and mems are ours always (unless `preserve`), and so is whatever an annotation ordered; all else is
the kubelet's. Nothing is answered when nothing of ours differs: any answer makes containerd drop the fields
of the request that NRI cannot carry (nri-protocol §5.3).
"""

from dataclasses import replace

from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Decision, Outcome
from nri_coloc.model.events import ContainerUpdating
from nri_coloc.model.knobs import NO_KNOBS, Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import Resources
from nri_coloc.policy import admission, change, lifecycle, ownership, record, request, words
from nri_coloc.policy.ownership import Resize


def update(state: NodeState, event: ContainerUpdating, tuning: Tuning) -> Outcome:
    """Take the kubelet's new values and lay ours over them; an unknown container is admitted first.

    Another amount of CPU changes what a dedicated container owns.
    """
    outcome = Outcome(state)
    if event.container.id not in state.containers:
        outcome = lifecycle.admit(
            state, event.pod, event.container, event.wish, tuning, Reason.PLACED_AT_START
        )
    known = outcome.state.containers[event.container.id]
    assignment = _with_news(known, event)
    resize = ownership.resized(outcome.state, assignment) if _asks_anew(known, assignment, event) else None
    if resize is None:
        after = change.with_container(outcome.state, assignment)
        return replace(outcome, state=after, decisions=(*outcome.decisions, _said(after, assignment, event)))
    if tuning.strict and not resize.is_met:
        return _refused(state, event, resize)
    return outcome + _carried_out(outcome.state, event, resize)


def _asks_anew(known: Assignment, now: Assignment, event: ContainerUpdating) -> bool:
    """Whether the update speaks of the amount of CPU: another one, or one that could not be met before.

    An update that tells the present values again (the kubelet sends all of them with each change of one) asks anew
    only for an owner that has less than it asked for.
    """
    if not event.requested.shares and not event.requested.quota:
        return False
    before, after = (request.of_container(a.container, a.wish) for a in (known, now))
    return before.milli != after.milli or 0 < now.exclusive.bit_count() < after.whole


def _refused(state: NodeState, event: ContainerUpdating, resize: Resize) -> Outcome:
    """Fail the kubelet's update, which tries it again; nothing has changed."""
    text = (
        f"nri-coloc refuses {event.pod.namespace}/{event.pod.name}/{event.container.name}: {resize.because}"
    )
    decision = Decision(AuditEvent.UPDATE, Reason.REFUSED_STRICT, text, subject=resize.assignment)
    return Outcome(state, (decision,), refusal=text)


def _carried_out(before: NodeState, event: ContainerUpdating, resize: Resize) -> Outcome:
    """Give a container what its request came to, and move whoever that concerns."""
    after, joined = ownership.adopt(before, resize.assignment)
    moves, waits_for = ownership.moves(before, after, event.container.id)
    returned = before.pools.dedicated & ~after.pools.dedicated
    where = f"{event.pod.namespace}/{event.pod.name}/{event.container.name}"
    cause = f"{where} owns {cpuset.render(resize.assignment.exclusive) or 'none'} now"
    reason = Reason.CPUS_RETURNED if returned else Reason.CPUS_TAKEN
    decisions = (
        _said(after, resize.assignment, event, resize),
        *words.of_findings(resize.findings, resize.assignment),
        *joined,
        *change.pool_decisions(before, after, reason, cause),
    )
    return Outcome(after, decisions, moves, waits_for)


def _with_news(known: Assignment, event: ContainerUpdating) -> Assignment:
    """Take over what the kubelet wants from now on; the spec in the event holds our values too."""
    spec = record.facts_of(event.container, known).resources
    container = replace(known.container, resources=merge(spec, event.requested))
    return replace(known, container=container, original=admission.spec_of(container).where_set(known.knobs))


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


def _overlay(state: NodeState, assignment: Assignment, requested: Resources, merged: Resources) -> Knobs:
    """Return what of ours the update would undo.

    A member of the box gets the box's set only if the request names CPUs: its spec is kept free of them.
    """
    ours = admission.orders(state, assignment)
    held = Knobs(cpus=ours.cpus, mems=ours.mems).overlaid(ours.where_set(_annotated(assignment)))
    if ours.cpus is None and not assignment.hands_off and requested.cpus:
        held = held._replace(cpus=cpuset.render(state.cpus_of(assignment)))
    return held.differing(merged.knobs())


def _annotated(assignment: Assignment) -> Knobs:
    """Return the annotation's orders that an update can carry; the rest is written to files."""
    wish = assignment.wish.annotated.overlaid(assignment.granted)
    return Knobs(shares=wish.shares, quota=wish.quota, period=wish.period, memory_limit=wish.memory_limit)


def _said(
    state: NodeState, assignment: Assignment, event: ContainerUpdating, resize: Resize | None = None
) -> Decision:
    """Say what the update brings and what of ours is laid over it; that overlay is the decision's orders."""
    spec = admission.spec_of(event.container)
    merged = merge(event.container.resources, event.requested)
    overlay = _overlay(state, assignment, event.requested, merged)
    after = merged.knobs().overlaid(overlay).differing(spec)
    told = f"the kubelet asked for {_listed(merged.knobs().differing(spec)) or 'nothing new'}"
    if overlay == NO_KNOBS:
        reason, what = Reason.NOTHING_OURS, "nothing of ours differs, its request passes untouched"
    else:
        reason, what = Reason.KUBELET_UPDATE, f"ours holds for {_listed(overlay)}"
    if resize is not None:
        reason, what = resize.reason, f"{resize.because}; {what}"
    return Decision(
        AuditEvent.UPDATE,
        reason,
        f"{told}; {what}",
        subject=assignment,
        before=spec.where_set(after),
        after=after,
        orders=overlay,
    )


def _listed(knobs: Knobs) -> str:
    return ", ".join(f"{name}={value}" for name, value in knobs.named().items())
