"""placing/change.py: the loop gives the size of the reclaim pool, the policy its CPUs, and reclaimed pods follow."""

from nri_coloc.core.decisions import Outcome, PoolsSized
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, mask, moved, said

WHY = "online pods use 4.2 of 8 CPUs"


def told(node: Node, **counts: int) -> Outcome:
    return node.happen(PoolsSized(counts, WHY))


def with_a_job() -> Node:
    """Return a node with a reclaimed pod, and with a reclaimed container in an online pod."""
    node = Node()
    node.start_pod("jobs")
    node.create("batch", wish=RECLAIMED, on="jobs")
    node.create("online", 500, SHARED, on="mixed")
    node.create("helper", wish=RECLAIMED, on="mixed")
    return node


def test_without_a_word_the_box_has_all_of_share():
    assert Node().pool("reclaim") == "0-7"


def test_a_count_becomes_whole_cores_of_share():
    node = with_a_job()
    told(node, reclaim=4)
    assert (node.pool("share"), node.pool("reclaim")) == ("0-7", "2-3,6-7")
    assert (node.cpus("batch"), node.cpus("helper"), node.cpus("online")) == ("2-3,6-7", "2-3,6-7", "0-7")


def test_nothing_at_all_still_leaves_the_box_one_core():
    node = with_a_job()
    told(node, reclaim=0)
    assert node.pool("reclaim") == "6-7"


def test_boxed_pods_move_as_pods_and_others_one_by_one():
    assert moved(told(with_a_job(), reclaim=4)) == ({"jobs"}, {"helper"})


def test_a_size_that_changes_names_its_direction():
    node = with_a_job()
    told(node, reclaim=4)
    shrunk = told(node, reclaim=2)
    (decision,) = shrunk.decisions
    assert said(shrunk) == [("reclaim.suppress", "headroom")]
    assert (decision.pool, decision.before.cpus, decision.after.cpus) == ("reclaim", "2-3,6-7", "6-7")
    assert decision.because == WHY
    assert said(told(node, reclaim=6)) == [("reclaim.grow", "headroom")]


def test_a_first_size_suppresses_nothing():
    outcome = told(Node(), reclaim=2)
    (decision,) = outcome.decisions
    assert said(outcome) == [("pool.resize", "first_size")]
    assert (decision.pool, decision.before.cpus, decision.after.cpus) == ("reclaim", "0-7", "6-7")
    assert moved(outcome) == (set(), set())


def test_a_size_of_the_previous_process_is_restored():
    node = with_a_job()
    told(node, reclaim=2)
    outcome = node.happen(PoolsSized({"reclaim": 6}, WHY, Reason.RESTORED))
    assert said(outcome) == [("pool.resize", "restored")]


def test_the_same_count_again_is_the_same_state():
    node = with_a_job()
    told(node, reclaim=4)
    before = node.state
    assert told(node, reclaim=4) == Outcome(before)
    assert node.state is before


def test_a_count_that_changes_no_set_moves_nobody():
    node = with_a_job()
    told(node, reclaim=4)
    outcome = told(node, reclaim=5)
    assert (outcome.decisions, moved(outcome)) == ((), (set(), set()))
    assert node.state.pools.counts == {"reclaim": 5}


def test_no_counts_give_the_box_all_of_share_again():
    node = with_a_job()
    told(node, reclaim=2)
    assert said(told(node)) == [("pool.resize", "no_members")]
    assert node.pool("reclaim") == "0-7"


class TestBesideDedicated:
    def test_the_box_gives_way_and_keeps_its_size(self):
        node = with_a_job()
        told(node, reclaim=4)
        outcome = node.create("main", 4000)
        assert (node.owners(), node.pool("reclaim")) == ({"main": "0-3"}, "4-7")
        assert said(outcome)[1:] == [("pool.resize", "cpus_taken")] * 2
        assert moved(outcome) == ({"jobs"}, {"online", "helper"})

    def test_a_dedicated_container_takes_reclaim_cpus_last(self):
        node = with_a_job()
        told(node, reclaim=2)
        assert moved(node.create("main", 2000))[0] == set()
        assert (node.owners(), node.pool("reclaim")) == ({"main": "0-1"}, "6-7")

    def test_a_returned_core_leaves_the_box_where_it_is(self):
        node = with_a_job()
        told(node, reclaim=4)
        node.create("main", 2000, DEDICATED)
        box = node.pool("reclaim")
        node.stop("main")
        assert (node.pool("share"), node.pool("reclaim")) == ("0-7", box)

    def test_one_cpu_left_is_lent_whole(self):
        node = with_a_job()
        told(node, reclaim=8)
        node.create("main", 7000)
        assert (node.pool("share"), node.pool("reclaim")) == ("7", "7")


class TestReconfigured:
    def test_the_count_outlasts_other_settings(self):
        node = with_a_job()
        told(node, reclaim=4)
        node.reconfigure(Tuning(reserved=mask("0-1")))
        assert (node.pool("share"), node.pool("reclaim")) == ("2-7", "2-3,6-7")

    def test_no_lending_is_no_count(self):
        node = with_a_job()
        told(node, reclaim=4)
        node.reconfigure(Tuning(reclaim=ReclaimTuning(enabled=False)))
        assert (node.pool("reclaim"), node.state.pools.counts) == ("0-7", {})


class TestBesideACountForShare:
    def test_one_cpu_stays_in_share(self):
        node = Node("smt-off")
        told(node, share=0, reclaim=16)
        assert (node.pool("share"), node.pool("reclaim")) == ("0", "1-15")

    def test_a_minimum_of_all_cpus_leaves_one(self):
        node = Node("smt-off", Tuning(pools=(PoolTuning("reclaim", minimum=16),)))
        told(node, share=4, reclaim=12)
        assert (node.pool("share"), node.pool("reclaim")) == ("0", "1-15")
