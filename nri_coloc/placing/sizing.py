"""Change the size of pools, because the loop or their containers ask for it; their containers follow.

The loop reports up to fifty times a second, mostly counts that hold already. Such a report costs one comparison.
"""

from collections.abc import Mapping
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    ContainerCreating,
    ContainerUpdating,
    Decision,
    Event,
    Moves,
    Outcome,
    PoolsSized,
    Reconfigured,
    Synchronized,
)
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import RECLAIM, SHARE, NodeState, Pools
from nri_coloc.core.value import replace
from nri_coloc.placing import change, pools

_OF_POOLS: Final = frozenset({AuditEvent.POOL_RESIZE, AuditEvent.RECLAIM_SUPPRESS, AuditEvent.RECLAIM_GROW})


def sized(state: NodeState, event: PoolsSized) -> Outcome:
    """Return the outcome of new counts of CPUs for pools; there is no decision if no CPU set changes."""
    known = state.pools
    if event.counts == known.counts:
        return Outcome(state)
    told = replace(known, counts=dict(event.counts))
    derived = pools.derive(state.topology, known.reserved, known.dedicated, known.kept, told)
    after = replace(state, pools=derived, generation=state.generation + 1)
    reason = event.reason or _reason(known.counts, event.counts)
    decisions = change.pool_decisions(state, after, reason, event.because, event.inputs or {})
    said = tuple(_lent_or_taken_back(d) if _resizes_what_is_lent(d, known) else d for d in decisions)
    return Outcome(after, said, change.moved(state, after))


def _reason(before: Mapping[str, int], now: Mapping[str, int]) -> Reason:
    """Return why the counts changed; only the load of tiers gives `share` a count."""
    if SHARE in now:
        return Reason.TIER_LOAD
    if RECLAIM not in now:
        return Reason.NO_MEMBERS
    return Reason.HEADROOM if RECLAIM in before else Reason.FIRST_SIZE


def _resizes_what_is_lent(decision: Decision, before: Pools) -> bool:
    """Return whether a decision changes an earlier size of the reclaim pool; its first size takes nothing back."""
    return (
        decision.pool == RECLAIM
        and decision.reason in (Reason.HEADROOM, Reason.TIER_LOAD)
        and RECLAIM in before.counts
    )


def _lent_or_taken_back(decision: Decision) -> Decision:
    """Return a decision about the reclaim pool with the event that names its direction."""
    before, after = (cpuset.parse(knobs.cpus or "") for knobs in (decision.before, decision.after))
    shrank = after.bit_count() < before.bit_count()
    return decision._replace(event=AuditEvent.RECLAIM_SUPPRESS if shrank else AuditEvent.RECLAIM_GROW)


def folded(earlier: Decision, later: Decision) -> Decision:
    """Return one decision for two about one pool: its CPUs before the first and after the last."""
    both = later._replace(before=earlier.before)
    if AuditEvent.POOL_RESIZE in (earlier.event, later.event):
        return both._replace(event=AuditEvent.POOL_RESIZE)
    return _lent_or_taken_back(both)


def followed(before: NodeState, event: Event, outcome: Outcome) -> Outcome:
    """Return the outcome with the pools that containers resized by coming, leaving or a new request, and all moves.

    A container that is being created or updated, or was not known before, has its CPUs from its own event's answer.
    """
    after = outcome.state
    if after.pools is before.pools or _is_said(before, event, after):
        return outcome
    told = {d.pool for d in outcome.decisions if d.event in _OF_POOLS}
    cause = "pool resized: the requests of its containers changed"
    resized = change.pool_decisions(before, after, Reason.MEMBERS_ASKED, cause)
    said = tuple(d for d in resized if d.pool not in told)
    moves = change.moved(before, after)
    subject = event.container.id if isinstance(event, ContainerCreating | ContainerUpdating) else ""
    live = tuple(k for k in moves.containers if k != subject)
    decisions = (*outcome.decisions, *said)
    if isinstance(event, ContainerUpdating) and subject in moves.containers:
        *first, last = (_with_cpus(before, after, subject, d) for d in outcome.decisions)
        decisions = (*first, *said, last)  # the last decision of an update may hold the answer
    return replace(outcome, decisions=decisions, moves=outcome.moves + Moves(moves.pods, live))


def _with_cpus(before: NodeState, after: NodeState, container_id: str, decision: Decision) -> Decision:
    """Return a decision with the container's CPUs, if the decision is the answer to the container's update."""
    subject = decision.subject
    if decision.event is not AuditEvent.UPDATE or subject is None or subject.id != container_id:
        return decision
    had, has = (cpuset.render(state.cpus_of(state.containers[container_id])) for state in (before, after))
    return decision._replace(
        orders=decision.orders._replace(cpus=has),
        before=decision.before._replace(cpus=decision.before.cpus or had),
        after=decision.after._replace(cpus=has),
    )


def _is_said(before: NodeState, event: Event, after: NodeState) -> bool:
    """Return whether the outcome has all decisions and moves already.

    That is so after a list or other settings, and if a container took or returned CPUs of its own and did nothing
    else.
    """
    if isinstance(event, Synchronized | Reconfigured):
        return True
    if isinstance(event, ContainerUpdating):
        return False
    again = isinstance(event, ContainerCreating) and event.container.id in before.containers
    return before.pools.dedicated != after.pools.dedicated and not again
