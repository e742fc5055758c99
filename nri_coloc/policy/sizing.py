"""What the loop tells about the sizes of pools: so many CPUs become a set of CPUs, and its members follow.

Comes up to fifty times a second, mostly with what holds already, so that costs one comparison.
"""

from dataclasses import replace

from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Decision, Outcome
from nri_coloc.model.events import PoolsSized
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, NodeState
from nri_coloc.policy import change, pools


def sized(state: NodeState, event: PoolsSized) -> Outcome:
    """Give pools the told number of CPUs; nothing is decided where that changes no set."""
    known = state.pools
    if event.counts == known.counts:
        return Outcome(state)
    told = replace(known, counts=dict(event.counts))
    derived = pools.derive(state.topology, known.reserved, known.dedicated, known.kept, told)
    after = replace(state, pools=derived, generation=state.generation + 1)
    decisions = change.pool_decisions(state, after, Reason.HEADROOM, event.because)
    said = tuple(_of_the_box(d) if d.pool == RECLAIM else d for d in decisions)
    return Outcome(after, said, change.moved(state, after))


def _of_the_box(decision: Decision) -> Decision:
    """Say of the box whether it shrank or grew; of other pools that they were resized."""
    before, after = (cpuset.parse(knobs.cpus or "") for knobs in (decision.before, decision.after))
    shrank = after.bit_count() < before.bit_count()
    return decision._replace(event=AuditEvent.RECLAIM_SUPPRESS if shrank else AuditEvent.RECLAIM_GROW)
