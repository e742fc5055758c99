"""Decide on values that follow from the companion's facts about pods: memory protection."""

from nri_coloc.core.decisions import Decision, FactsReported, Moves, Outcome
from nri_coloc.core.reasons import Reason
from nri_coloc.core.state import NodeState
from nri_coloc.core.value import replace
from nri_coloc.placing import protection, supply, words


def reported(state: NodeState, event: FactsReported) -> Outcome:
    """Return the state with the newest facts, and the pods whose memory protection follows from them."""
    after = replace(state, facts=event.facts, generation=state.generation + 1)
    found = [_said(state, after, pod_id) for pod_id in protection.asking(state)]
    decisions = tuple([each for each in found if each is not None])
    return Outcome(after, decisions, Moves(pods=tuple([each.pod_id for each in decisions])))


def _said(before: NodeState, after: NodeState, pod_id: str) -> Decision | None:
    said = words.of_protection(before, after, pod_id)
    if said is None:
        return None
    because = "memory protection changed: the companion reported the pod's memory request"
    if supply.told_memory(after, pod_id) is None:
        because = "memory protection changed: the companion no longer reports the pod"
    return said._replace(reason=Reason.POD_FACTS, because=because)
