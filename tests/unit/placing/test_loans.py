"""placing/loans.py: the granted part of a loan is kept, recorded, held against updates, and survives a restart."""

from dataclasses import replace

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import Resources
from nri_coloc.placing import admission, loans
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, said

LOAN = Knobs(shares=2048, quota=200_000, period=100_000, memory_limit=1 << 30)
LENT = replace(RECLAIMED, knobs=RECLAIMED.knobs.overlaid(LOAN), annotated=LOAN)
HALF = Knobs(shares=1024, quota=100_000)
BECAUSE = "half of it is there"


def lending(wish=LENT) -> Node:
    node = Node()
    node.create("job", wish=wish, on="batch", resources=Resources(shares=2))
    return node


def grant(node: Node, **amounts: Knobs):
    return node.grant(amounts, BECAUSE)


def orders(node: Node) -> Knobs:
    return admission.orders(node.state, node.state.containers["job"]).where_set(LOAN)


def test_a_smaller_amount_replaces_the_loan_with_a_record():
    node = lending()
    outcome = grant(node, job=HALF)
    assert orders(node) == LOAN.overlaid(HALF)
    assert said(outcome) == [("container.update", "rebalanced")]
    decision = outcome.decisions[0]
    assert (decision.before, decision.after) == (Knobs(shares=2048, quota=200_000), HALF)
    assert decision.because == BECAUSE
    assert outcome.moves.containers == ("job",)


def test_the_whole_loan_again_leaves_nothing_to_remember():
    node = lending()
    grant(node, job=HALF)
    grant(node, job=Knobs(shares=2048))
    assert node.state.containers["job"].granted == Knobs(quota=100_000)
    outcome = grant(node, job=Knobs(quota=200_000))
    assert node.state.containers["job"].granted == NO_KNOBS
    assert outcome.decisions[0].before == Knobs(quota=100_000)


def test_an_equal_or_unknown_loan_changes_nothing():
    node = lending(replace(LENT, annotated=Knobs(quota=200_000), knobs=Knobs(quota=200_000)))
    before = node.state
    outcome = grant(node, job=Knobs(quota=200_000, memory_limit=7), gone=HALF)
    assert (outcome.decisions, outcome.moves.containers) == ((), ())
    assert outcome.state is before


def test_only_reclaimed_containers_have_loans():
    node = lending(replace(SHARED, knobs=LOAN, annotated=LOAN))
    assert grant(node, job=HALF).decisions == ()
    assert loans.loan(node.state.containers["job"].wish) == NO_KNOBS


def test_a_kubelets_update_does_not_bring_the_loan_back():
    node = lending()
    grant(node, job=HALF)
    outcome = node.update("job", Resources(shares=4096))
    assert outcome.decisions[-1].orders.shares == 1024


def test_after_a_restart_the_runtimes_spec_says_what_it_had():
    node = lending()
    node.grant({"job": HALF})
    again = node.anew()
    assert again["job"].granted == HALF
    assert orders(again) == LOAN.overlaid(HALF)
    assert again["job"].container.resources.quota is None


HEAVY = replace(LENT, knobs=LENT.knobs._replace(io_weight=300))
LEAST = Knobs(shares=2, quota=10_000, memory_limit=32 << 20)


def test_a_reload_leaves_and_states_the_present_part_of_a_loan():
    node = lending()
    grant(node, job=LEAST)  # its shares now equal the original value
    outcome = node.reconfigure(wishes={"job": HEAVY})
    assert node["job"].granted == LEAST
    assert orders(node) == LOAN.overlaid(LEAST)
    assert outcome.decisions[0].after.where_set(LOAN) == LOAN.overlaid(LEAST).differing(Knobs(shares=2))


def test_so_does_a_list_of_the_runtimes():
    node = lending()
    grant(node, job=LEAST)
    listed = node.listing()
    node.happen(replace(listed, containers=((node.listed["job"], HEAVY),)))
    assert node["job"].wish == HEAVY
    assert node["job"].granted == LEAST


def test_of_a_smaller_loan_no_more_is_left_than_was_lent():
    node = lending()
    grant(node, job=HALF)
    less = Knobs(shares=512, quota=200_000, period=100_000)
    node.reconfigure(wishes={"job": replace(LENT, knobs=less, annotated=less)})
    assert node["job"].granted == Knobs(quota=100_000)


def test_a_reload_to_another_class_ends_a_loan():
    node = lending()
    grant(node, job=HALF)
    node.reconfigure(wishes={"job": SHARED})
    assert node["job"].granted == NO_KNOBS


def test_a_whole_loan_is_nothing_to_recall():
    assert lending().anew()["job"].granted == NO_KNOBS


def test_a_container_that_is_no_longer_reclaimed_loses_its_loan():
    node = lending()
    node.grant({"job": HALF})
    listed = node.listed["job"]
    assert loans.recalled(listed, LENT) == HALF
    assert loans.recalled(listed, SHARED) == NO_KNOBS
    assert loans.recalled(replace(listed, record=""), LENT) == NO_KNOBS


def test_what_restore_gave_back_is_no_part_of_a_loan():
    node = lending()
    node.grant({"job": HALF})
    listed = node.listed["job"]
    for former in (
        Resources(shares=2, quota=-1, period=100_000, memory_limit=-1),  # the original values, or none
        Resources(shares=4096, quota=400_000),  # more than the loan
    ):
        assert loans.recalled(replace(listed, resources=former), LENT) == NO_KNOBS
