"""core/decisions.py: a decision or an outcome changes only the things that it names."""

from nri_coloc.core.decisions import NO_MOVES, Decision, Moves, Outcome
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, QoSClass


def test_a_decision_changes_and_orders_nothing_unless_it_says_so():
    decision = Decision(AuditEvent.UPDATE, Reason.NOTHING_OURS, "nothing of ours differs")
    assert (decision.before, decision.after, decision.orders) == (NO_KNOBS, NO_KNOBS, NO_KNOBS)


def test_an_outcome_moves_and_refuses_nothing_unless_it_says_so():
    outcome = Outcome(NodeState(Topology.build([CPU(0)]), Pools(share=1)))
    assert outcome.decisions == ()
    assert (outcome.moves, outcome.waits_for, outcome.refusal) == (NO_MOVES, NO_MOVES, "")


def test_moves_are_true_if_they_name_anyone():
    assert not NO_MOVES
    assert Moves(pods=("p",))
    assert Moves(containers=("c",))


def test_moves_are_joined_in_order():
    joined = Moves(("p",), ("a",)) + Moves(("q",), ("b", "c"))
    assert joined == Moves(("p", "q"), ("a", "b", "c"))


def outcome(*decisions: Decision, moves: Moves = NO_MOVES, refusal: str = "") -> Outcome:
    return Outcome(NodeState(Topology.build([CPU(0)]), Pools(share=1)), decisions, moves, moves, refusal)


def told(name: str, event: AuditEvent, orders: Knobs) -> Decision:
    subject = Assignment(Container(name, "p"), QoSClass.SHARED, "share")
    return Decision(event, Reason.KUBELET_UPDATE, "", subject=subject, orders=orders)


def test_one_pods_own_cgroup_is_left_out_its_containers_are_not():
    assert Moves(("p", "q"), ("a",)).without_pod("p") == Moves(("q",), ("a",))


def test_a_containers_orders_are_those_of_its_own_update():
    mine, others, earlier = Knobs(cpus="0"), Knobs(cpus="1"), Knobs(cpus="2")
    found = outcome(
        told("a", AuditEvent.ADMIT, earlier),
        told("a", AuditEvent.UPDATE, mine),
        told("b", AuditEvent.UPDATE, others),
        Decision(AuditEvent.POOL_RESIZE, Reason.CPUS_TAKEN, ""),
    )
    assert (found.orders_for("a"), found.orders_for("c")) == (mine, NO_KNOBS)


def test_two_outcomes_of_one_event_are_one():
    first = outcome(told("a", AuditEvent.ADMIT, NO_KNOBS), moves=Moves(containers=("a",)))
    second = outcome(told("a", AuditEvent.UPDATE, NO_KNOBS), moves=Moves(("p",), ("a", "b")), refusal="no")
    both = first + second
    assert both.state is second.state
    assert both.decisions == first.decisions + second.decisions
    assert both.moves == both.waits_for == Moves(("p",), ("a", "b"))
    assert both.refusal == "no"


def test_a_pod_can_be_left_out():
    assert Moves(("p", "q"), ("a",)).without_pod("p") == Moves(("q",), ("a",))
