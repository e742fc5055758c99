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
from nri_coloc.policy import admission, change, lifecycle, record


def update(state: NodeState, event: ContainerUpdating, tuning: Tuning) -> Outcome:
    """Take the kubelet's new values and lay ours over them; an unknown container is admitted first."""
    outcome = Outcome(state)
    if event.container.id not in state.containers:
        outcome = lifecycle.admit(
            state, event.pod, event.container, event.wish, tuning, Reason.PLACED_AT_START
        )
    known = outcome.state.containers[event.container.id]
    before = event.container.resources
    merged = merge(before, event.requested)
    assignment = _resized(known, event)
    overlay = _overlay(outcome.state, assignment, event.requested, merged)
    decision = _said(assignment, admission.spec_of(event.container), merged, overlay)
    after = change.with_container(outcome.state, assignment)
    return replace(outcome, state=after, decisions=(*outcome.decisions, decision))


def _resized(known: Assignment, event: ContainerUpdating) -> Assignment:
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


def _said(assignment: Assignment, spec: Knobs, merged: Resources, overlay: Knobs) -> Decision:
    after = merged.knobs().overlaid(overlay).differing(spec)
    asked = _listed(merged.knobs().differing(spec)) or "nothing new"
    if overlay == NO_KNOBS:
        because = f"the kubelet asked for {asked}; nothing of ours differs, its request passes untouched"
        reason = Reason.NOTHING_OURS
    else:
        because = f"the kubelet asked for {asked}; ours holds for {_listed(overlay)}"
        reason = Reason.KUBELET_UPDATE
    return Decision(
        AuditEvent.UPDATE,
        reason,
        because,
        subject=assignment,
        before=spec.where_set(after),
        after=after,
        orders=overlay,
    )


def _listed(knobs: Knobs) -> str:
    return ", ".join(f"{name}={value}" for name, value in knobs.named().items())
