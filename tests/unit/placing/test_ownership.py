"""placing/ownership.py: after a new request a container owns other CPUs, and its sidecars follow.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7.
"""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import NO_MOVES
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Numa, Placement, Resources, Wish
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, asking, figures, first, mask, said


def node_with(milli: int = 2000, wish: Wish = DEDICATED, tuning: Tuning | None = None) -> Node:
    node = Node(tuning=tuning)
    node.create("online", 500, SHARED, on="shop")
    node.create("web", milli, wish)
    return node


def resize(node: Node, milli: int, name: str = "web"):
    return node.update(name, asking(milli))


class TestGrowing:
    def test_it_grows_beside_its_cpus(self):
        node = node_with()
        outcome = resize(node, 3500)
        assert (node.cpus("web"), node.cpus("online"), node.pool("share")) == ("0-3", "4-7", "4-7")
        assert said(outcome) == [("container.update", "grown"), ("pool.resize", "cpus_taken")]
        found = figures(outcome)
        assert (found["asked.shares"], found["request_milli"]) == (3584, 3500)
        assert (found["n"], found["owned"], found["free"]) == (4, "0-1", "2-7")
        assert (figures(outcome, 1)["members"], figures(outcome, 1)["dedicated_cpus"]) == (1, "0-3")

    def test_it_waits_until_others_leave_its_new_cpus(self):
        outcome = resize(node_with(), 4000)
        assert outcome.moves.containers == ("online", "web")
        assert (outcome.waits_for.containers, outcome.waits_for.pods) == (("online",), ())

    def test_a_first_cpu_of_its_own_is_waited_for(self):
        node = node_with(500)
        node.create("online", wish=SHARED, on="shop")
        outcome = resize(node, 1000)
        assert (node.owners(), outcome.waits_for.containers) == ({"web": "0"}, ("online",))

    def test_its_new_followers_are_not_waited_for(self):
        node = node_with(500)
        node.create("side", 100)
        outcome = resize(node, 2000)
        assert (node["side"].follows, node.cpus("side")) == ("web", "0-1")
        assert outcome.waits_for.containers == ("online",)

    def test_reclaimed_pods_leave_too_but_its_own_does_not(self):
        node = Node()
        node.start_pod("jobs")
        node.create("batch", wish=RECLAIMED, on="jobs")
        node.create("web", 2000, replace(DEDICATED, handler="pod"))
        outcome = resize(node, 4000)
        assert outcome.moves.pods == ("jobs", "web")
        assert outcome.waits_for.pods == ("jobs",)

    def test_memory_goes_with_the_cpus_of_a_bound_container(self):
        node = node_with(2000, replace(DEDICATED, numa=Numa.SINGLE))
        resize(node, 4000)
        assert (node.cpus("web"), node["web"].mems) == ("0-3", 0b1)
        outcome = resize(node, 6000)
        assert (node.cpus("web"), node["web"].mems) == ("0-5", 0b11)
        assert (figures(outcome)["owned"], figures(outcome)["free"]) == ("0-3", "4-7")
        assert first(outcome).orders.mems == "0-1"

    def test_what_a_new_amount_makes_impossible_is_said(self):
        node = node_with(2000, replace(DEDICATED, placement=Placement.FULL_CORES))
        outcome = resize(node, 3000)
        assert node.cpus("web") == "0-2"
        assert said(outcome)[:2] == [("container.update", "grown"), ("annotation.denied", "not_allowed")]

    def test_sidecars_go_along(self):
        node = node_with()
        node.create("side", 100)
        outcome = resize(node, 4000)
        assert node.cpus("side") == "0-3"
        assert outcome.moves.containers == ("online", "web", "side")
        assert outcome.waits_for.containers == ("online",)

    def test_an_earlier_sidecar_joins_the_new_main_container(self):
        node = Node()
        node.create("first", 500)
        node.create("second", 400)
        node.create("third", 500, on="other")
        resize(node, 2000, "first")
        assert (node.cpus("first"), node.cpus("second"), node["third"].follows) == ("0-1", "0-1", "")


class TestWhatCannotBeMet:
    def test_the_old_set_stays(self):
        node = node_with()
        outcome = resize(node, 8000)
        assert (node.cpus("web"), node.cpus("online")) == ("0-1", "2-7")
        assert said(outcome) == [("container.update", "resize_unmet")]
        found = figures(outcome)
        assert (found["n"], found["owned"], found["free"]) == (8, "0-1", "2-7")
        assert (outcome.moves, outcome.waits_for) == (NO_MOVES, NO_MOVES)

    def test_an_unmet_wish_is_among_the_figures(self):
        node = node_with(2000, replace(DEDICATED, placement=Placement.FULL_CORES))
        for number in range(3):
            node.create(
                f"odd{number}", 1000, replace(DEDICATED, cpus_ordered=1 << 2 * number + 2), f"odd{number}"
            )
        outcome = resize(node, 4000)
        assert node.cpus("web") == "0-1"
        found = figures(outcome)
        assert (found["n"], found["owned"], found["free"]) == (4, "0-1", "3,5,7")
        assert found["placement"] == "full-cores"

    def test_it_is_tried_again_when_the_kubelet_says_it_again(self):
        node = node_with()
        node.create("other", 4000, on="other")
        assert said(resize(node, 4000)) == [("container.update", "resize_unmet")]
        node.stop("other")
        resize(node, 4000)
        assert node.cpus("web") == "0-3"

    def test_it_is_not_tried_again_by_an_update_of_something_else(self):
        node = node_with()
        node.create("other", 4000, on="other")
        resize(node, 4000)
        node.stop("other")
        outcome = node.update("web", Resources(memory_limit=1 << 30))
        assert (node.cpus("web"), said(outcome)) == ("0-1", [("container.update", "nothing_ours")])

    def test_strict_fails_the_update_and_changes_nothing(self):
        node = node_with(tuning=Tuning(strict=True))
        before = node.state
        outcome = resize(node, 8000)
        assert outcome.state is before
        assert said(outcome) == [("container.update", "refused_strict")]
        assert outcome.refusal.startswith("nri-coloc refuses shop/web/web: ")

    def test_an_observer_says_so_and_fails_no_update(self):
        node = node_with(tuning=Tuning(strict=True, observe=True))
        outcome = resize(node, 8000)
        assert (outcome.refusal, said(outcome)[0]) == ("", ("container.update", "refused_strict"))
        assert [event for event, _ in said(outcome)[1:]] == ["container.update"]


class TestShrinking:
    def test_it_gives_back_and_leaves_before_others_come(self):
        node = node_with(4000)
        outcome = resize(node, 1500)
        assert (node.cpus("web"), node.cpus("online")) == ("0-1", "2-7")
        assert said(outcome) == [("container.update", "shrunk"), ("pool.resize", "cpus_returned")]
        assert (figures(outcome)["request_milli"], figures(outcome)["n"]) == (1500, 2)
        assert outcome.moves.containers == ("web", "online")
        assert outcome.waits_for == NO_MOVES

    def test_memory_of_a_bound_container_shrinks_with_its_cpus(self):
        node = node_with(6000, replace(DEDICATED, numa=Numa.SINGLE))
        resize(node, 2000)
        assert node["web"].mems in (0b1, 0b10)

    def test_memory_of_a_bound_container_is_free_without_own_cpus(self):
        node = node_with(2000, replace(DEDICATED, numa=Numa.SINGLE))
        resize(node, 100)
        assert node["web"].mems == 0

    def test_an_owner_below_one_cpu_runs_in_share(self):
        node = node_with()
        outcome = resize(node, 100)
        assert (node.owners(), node["web"].pool, node.cpus("web")) == ({}, "share", "0-7")
        assert said(outcome) == [("container.update", "below_one_cpu"), ("pool.resize", "cpus_returned")]
        assert (figures(outcome)["request_milli"], figures(outcome)["owned"]) == (100, "0-1")

    def test_its_followers_go_along_into_share(self):
        node = node_with()
        node.create("side", 100)
        outcome = resize(node, 100)
        assert (node.owners(), node["side"].pool, node["side"].follows) == ({}, "share", "")
        assert ("container.update", "main_gone") in said(outcome)
        assert set(outcome.moves.containers) == {"web", "side", "online"}

    def test_an_owner_beside_a_larger_one_joins_it_with_its_followers(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        node.create("second", 4000, on="web")
        resize(node, 500, "main")
        assert node.owners() == {"second": "4-7"}
        assert {node[k].follows for k in ("main", "side")} == {"second"}
        outcome = node.update("main", Resources(shares=300))
        assert said(outcome) == [("container.update", "nothing_ours")]

    def test_joining_has_both_sets(self):
        node = Node()
        node.create("main", 2000)
        node.create("second", 4000, on="web")
        outcome = resize(node, 500, "main")
        assert (figures(outcome)["owned"], first(outcome).after.cpus) == ("0-1", "4-7")

    def test_no_answer_takes_memory_nodes_from_a_running_container(self):
        node = node_with(6000, replace(DEDICATED, numa=Numa.SINGLE))
        assert node.listed["web"].resources.mems == "0-1"
        outcome = resize(node, 2000)
        assert (node["web"].mems, first(outcome).orders.mems) == (0b1, None)


class TestWhoOwnsNothing:
    def test_a_sidecar_that_asks_for_a_cpu_gets_its_own(self):
        node = node_with()
        node.create("side", 100)
        outcome = resize(node, 2000, "side")
        assert node.owners() == {"web": "0-1", "side": "2-3"}
        assert first(outcome).reason.value == "whole_core"

    def test_a_sidecar_without_free_cpus_stays_with_the_main(self):
        node = node_with()
        node.create("side", 100)
        outcome = resize(node, 8000, "side")
        assert (node["side"].follows, said(outcome)) == ("web", [("container.update", "resize_unmet")])
        assert (figures(outcome)["n"], node.cpus("side")) == (8, "0-1")

    def test_a_sidecar_that_stays_one_stays_where_it_is(self):
        node = node_with()
        node.create("side", 100)
        assert said(resize(node, 200, "side")) == [("container.update", "nothing_ours")]

    def test_who_was_refused_gets_a_smaller_amount(self):
        node = node_with(8000)
        assert node["web"].pool == "share"
        resize(node, 4000)
        assert (node.owners(), node["web"].pool) == ({"web": "0-3"}, "dedicated")

    def test_a_container_of_another_class_is_not_concerned(self):
        node = node_with()
        assert said(resize(node, 4000, "online")) == [("container.update", "kubelet_update")]
        assert node.owners() == {"web": "0-1"}

    def test_nor_is_one_whose_cpus_are_left_alone(self):
        node = node_with(2000, replace(DEDICATED, preserve=frozenset({"cpu"})))
        assert said(resize(node, 4000)) == [("container.update", "nothing_ours")]

    def test_nor_one_whose_amount_an_annotation_tells(self):
        told = replace(DEDICATED, cpu_milli=2000)
        node = node_with(2000, told)
        assert said(node.update("web", asking(4000), told)) == [("container.update", "nothing_ours")]

    def test_one_whose_amount_an_annotation_told_once_is_resized(self):
        node = node_with(2000, replace(DEDICATED, cpu_milli=2000))
        assert said(resize(node, 4000))[0] == ("container.update", "grown")
        assert node["web"].wish.cpu_milli == 0


class TestTwoMainContainers:
    """A second container of a pod that asks for CPUs of its own waits for them, beside a main container or not."""

    def waiting(self) -> Node:
        node = Node()
        node.run("main", 2000)
        node.run("other", 4000, on="other")
        node.run("second", 3000)
        return node

    def test_a_smaller_unmet_request_stays_in_share(self):
        node = self.waiting()
        outcome = resize(node, 2000, "second")
        assert (node["second"].follows, node.cpus("second"), first(outcome).reason.value) == (
            "",
            "2-3",
            "resize_unmet",
        )
        assert outcome.moves == NO_MOVES

    def test_an_unmet_class_stays_in_share(self):
        node = Node()
        node.run("main", 2000)
        node.run("other", 4000, on="other")
        node.run("second", 3000, SHARED)
        node.update("second", asking(3000), judged={"second": DEDICATED})
        assert (node["second"].follows, node.cpus("second")) == ("", "2-3")

    def test_a_restart_leaves_it_in_share(self):
        node = self.waiting()
        node.synchronize()
        node.listed["second"] = replace(node.listed["second"], resources=asking(2000, cpus="2-3"))
        node.synchronize()
        assert (node["second"].follows, node.cpus("second")) == ("", "2-3")


class TestWhoBeginsToFollow:
    def refused(self, wish: Wish = DEDICATED) -> Node:
        """Return a node on which `side` was refused CPUs before its pod's main container was created."""
        node = Node()
        node.create("side", 9000, wish)
        node.create("main", 1000)
        assert (node["side"].pool, node["side"].follows) == ("share", "")
        return node

    def test_it_is_moved_though_no_pool_has_changed(self):
        outcome = resize(self.refused(), 500, "side")
        assert outcome.moves.containers == ("side",)
        assert outcome.waits_for == NO_MOVES

    def test_its_pod_is_moved_where_that_is_the_unit(self):
        outcome = resize(self.refused(replace(DEDICATED, handler="pod")), 500, "side")
        assert (outcome.moves.pods, outcome.moves.containers) == (("web",), ())


class TestAfterRestarts:
    @pytest.mark.parametrize("amounts", [(4000,), (1000,), (4000, 3000), (3000, 8000), (6000, 2000, 3000)])
    def test_a_resized_set_survives(self, amounts):
        node = node_with()
        for milli in amounts:
            resize(node, milli)
        assert node.anew().owners() == node.owners()

    def test_memory_survives_with_it(self):
        node = node_with(2000, replace(DEDICATED, numa=Numa.SINGLE))
        resize(node, 6000)
        assert node.anew()["web"].mems == node["web"].mems == 0b11

    def test_what_was_refused_and_granted_later_survives(self):
        node = node_with(8000)
        resize(node, 4000)
        assert node.anew().owners() == {"web": "0-3"}

    def test_a_sidecar_that_could_not_get_its_own_still_follows(self):
        node = node_with()
        node.create("side", 100)
        resize(node, 8000, "side")
        node.push()
        again = node.anew()
        assert (again.owners(), again["side"].follows) == ({"web": "0-1"}, "web")

    @pytest.mark.parametrize(("milli", "reason"), [(4000, "grown"), (1000, "shrunk"), (9000, "resize_unmet")])
    def test_a_resize_that_came_meanwhile_is_carried_out(self, milli, reason):
        node = node_with()
        node.listed["web"] = replace(node.listed["web"], resources=asking(milli, cpus="0-1"))
        again = Node()
        outcome = again.happen(node.listing())
        assert reason in [r for _, r in said(outcome)]
        assert again["web"].exclusive in (mask("0-3"), mask("0"), mask("0-1"))
        assert again.happen(node.listing()).decisions == ()

    def test_it_is_carried_out_after_everybody_has_back_what_it_had(self):
        node = node_with(1000)
        node.create("next", 1000, on="next")
        node.listed["web"] = replace(node.listed["web"], resources=asking(2000, cpus="0"))
        again = Node()
        outcome = again.happen(node.listing())
        assert again.owners() == {"web": "0,2", "next": "1"}
        told = next(d for d in outcome.decisions if d.reason.value == "grown")
        assert (told.before.cpus, told.after.cpus) == ("0", "0,2")

    def test_a_resize_during_a_lost_connection_is_applied(self):
        node = node_with()
        node.listed["web"] = replace(node.listed["web"], resources=asking(4000, cpus="0-1"))
        assert ("container.update", "grown") in said(node.synchronize())

    def test_our_values_in_a_spec_are_no_request(self):
        ours = replace(DEDICATED, knobs=Knobs(shares=3072))
        node = node_with(2000, ours)
        outcome = node.synchronize()
        assert (node.owners(), outcome.decisions) == ({"web": "0-1"}, ())
        assert node.anew().owners() == {"web": "0-1"}

    def test_who_was_refused_is_not_tried_again_by_a_restart(self):
        node = node_with(8000)
        again = Node()
        outcome = again.happen(node.listing())
        assert sorted(said(outcome)) == [("container.admit", "pool_member"), ("container.admit", "restored")]


class TestAtTheStart:
    """An init container's end may be reported after its main container was created, but hardly after its start."""

    def test_a_refused_container_gets_cpus_once_free(self):
        node = Node()
        node.create("online", 500, SHARED, on="shop")
        node.create("init", 6000)
        node.create("main", 6000)
        assert (node["main"].pool, node.owners()) == ("share", {"init": "0-5"})
        node.stop("init")
        outcome = node.start("main")
        assert node.owners() == {"main": "0-5"}
        assert said(outcome) == [("container.update", "across_nodes"), ("pool.resize", "cpus_taken")]
        assert (figures(outcome)["n"], figures(outcome)["free"]) == (6, "0-7")
        assert outcome.moves.containers == ("online", "main")
        assert outcome.waits_for.containers == ("online",)

    def test_it_survives_a_restart(self):
        node = Node()
        node.create("init", 6000)
        node.create("main", 6000)
        node.stop("init")
        node.start("main")
        node.push()
        assert node.anew().owners() == {"main": "0-5"}

    def test_who_has_to_stay_in_share_is_not_said_again(self):
        node = Node()
        node.create("other", 6000, on="other")
        node.create("main", 6000)
        outcome = node.start("main")
        assert (outcome.decisions, node["main"].pool) == ((), "share")

    @pytest.mark.parametrize("milli", [2000, 500], ids=["owner", "small"])
    def test_who_has_what_it_asked_for_only_starts(self, milli):
        node = Node()
        node.create("main", milli)
        assert node.start("main").decisions == ()

    def test_a_shared_container_only_starts(self):
        node = node_with()
        assert node.start("online", wish=SHARED, on="shop").decisions == ()

    def test_what_runs_already_is_not_moved(self):
        node = Node()
        node.create("init", 6000)
        node.create("main", 6000)
        node.stop("init")
        node.start("main", running=True)
        assert node.owners() == {}
