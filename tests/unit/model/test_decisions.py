"""model/decisions.py: an outcome that names nothing orders nothing."""

from nri_coloc.model.decisions import NOBODY, Decision, Moves, Outcome
from nri_coloc.model.knobs import NO_KNOBS
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import NodeState, Pools
from nri_coloc.model.topology import CPU, Topology


def test_a_decision_changes_and_orders_nothing_unless_it_says_so():
    decision = Decision(AuditEvent.UPDATE, Reason.NOTHING_OURS, "nothing of ours differs")
    assert (decision.before, decision.after, decision.orders) == (NO_KNOBS, NO_KNOBS, NO_KNOBS)


def test_an_outcome_moves_and_refuses_nothing_unless_it_says_so():
    outcome = Outcome(NodeState(Topology.build([CPU(0)]), Pools(share=1)))
    assert outcome.decisions == ()
    assert (outcome.moves, outcome.waits_for, outcome.refusal) == (NOBODY, NOBODY, "")


def test_moves_are_true_if_they_name_anyone():
    assert not NOBODY
    assert Moves(pods=("p",))
    assert Moves(containers=("c",))


def test_moves_are_joined_in_order():
    joined = Moves(("p",), ("a",)) + Moves(("q",), ("b", "c"))
    assert joined == Moves(("p", "q"), ("a", "b", "c"))
