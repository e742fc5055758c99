"""Decide the part of its loan that each reclaimed container has now: the wish is the loan, the loop grants a part.

An amount below the loan is kept with the assignment, so that a kubelet's update, a file and a push agree. It survives
restarts without a file: the pushed value is in the runtime's spec, beside a record that marks the knob as ours.
"""

from typing import Final

from nri_coloc.core.decisions import AmountsGranted, Decision, Moves, Outcome
from nri_coloc.core.knobs import NO_KNOBS, Knobs, KnobValue
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, QoSClass, Wish
from nri_coloc.placing import change, record

LENT: Final = ("shares", "quota", "period", "memory_limit")
"""The knobs that a loan can have."""


def granted(state: NodeState, event: AmountsGranted) -> Outcome:
    """Return the state with other amounts; unknown containers, and knobs that were not lent, are left out."""
    decisions: list[Decision] = []
    after = state
    for container_id, amounts in event.amounts.items():
        known = state.containers.get(container_id)
        if known is None or (changed := _changed(known, amounts)) == NO_KNOBS:
            continue
        present = loan(known.wish).overlaid(known.granted)
        now = known.granted.overlaid(changed)
        assignment = replace(
            known, granted=now.differing(known.wish.annotated), knobs=known.knobs.overlaid(changed)
        )
        after = change.with_container(after, assignment)
        decisions.append(_said(assignment, present.where_set(changed), changed, event))
    moved = tuple(d.subject.id for d in decisions if d.subject is not None)
    return Outcome(after, tuple(decisions), Moves(containers=moved))


def loan(wish: Wish) -> Knobs:
    """Return the lendable knobs that an annotation ordered; none for another class than reclaimed."""
    if wish.qos is not QoSClass.RECLAIMED:
        return NO_KNOBS
    return Knobs(**{name: getattr(wish.annotated, name) for name in LENT})


def recalled(container: Container, wish: Wish) -> Knobs:
    """Return the amounts of its loan that a container had: from its record, else from our own values in its spec.

    A value that was restored in the spec is no part of a loan: the value before our first write, none, or more than
    was lent.
    """
    memory = record.read(container.record)
    if memory is None or wish.qos is not QoSClass.RECLAIMED:
        return NO_KNOBS
    lent = loan(wish)
    ours = Knobs(**{name: getattr(lent, name) for name in memory.ours if name in LENT})
    had = memory.granted
    if had == NO_KNOBS:
        had = container.resources.knobs().where_set(ours).differing(memory.original)
    part = had.differing(lent)
    return Knobs._make([now if _is_part(now, whole) else None for now, whole in zip(part, lent, strict=True)])


def _is_part(now: KnobValue | None, whole: KnobValue | None) -> bool:
    return isinstance(now, int) and isinstance(whole, int) and 0 < now <= whole


def _changed(known: Assignment, amounts: Knobs) -> Knobs:
    lent = loan(known.wish)
    return amounts.where_set(lent).differing(lent.overlaid(known.granted))


def _said(assignment: Assignment, before: Knobs, after: Knobs, event: AmountsGranted) -> Decision:
    wish = assignment.wish
    of_loan = {f"loan.{name}": amount for name, amount in loan(wish).named().items()}
    return Decision(
        AuditEvent.UPDATE,
        Reason.REBALANCED,
        event.because,
        subject=assignment,
        before=before,
        after=after,
        inputs={**(event.inputs or {}), **of_loan, "priority": wish.priority},
    )
