"""placing/reclaim_cgroups.py: pods with reclaimed containers only are limited as a whole, on the pod's cgroup."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import NO_MOVES, PodStarted, Synchronized
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import KEPT_BY_KUBELET, QoSClass
from nri_coloc.placing import reclaim_cgroups
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, everyone_in, pod, said

WEIGHED = replace(SHARED, knobs=Knobs(io_weight=300))


class TestBelonging:
    @pytest.mark.parametrize(
        ("wish", "boxed"),
        [
            (RECLAIMED, True),
            (SHARED, False),
            (DEDICATED, False),
            (replace(RECLAIMED, mixed=True), True),
            (replace(RECLAIMED, preserve=frozenset({KEPT_BY_KUBELET})), False),
            (replace(RECLAIMED, handler="ignore"), False),
            (replace(RECLAIMED, handler="pod"), True),
        ],
        ids=["reclaimed", "shared", "dedicated", "mixed", "pinned", "ignored", "vm"],
    )
    def test_only_pods_that_are_reclaimed_throughout_are_limited(self, wish, boxed):
        node = Node()
        node.start_pod(wish=wish)
        assert node.state.boxed("web") is boxed is reclaim_cgroups.belongs(wish)

    def test_a_pod_that_holds_another_class_stays_out(self):
        node = Node()
        node.create("app", wish=SHARED)
        node.start_pod()
        assert not node.state.boxed("web")

    def test_an_earlier_pod_joins_with_its_first_container(self):
        node = Node()
        outcome = node.create("batch", wish=RECLAIMED)
        assert node.state.boxed("web")
        assert outcome.moves.pods == ("web",)


class TestJoining:
    def test_a_pod_of_the_box_is_written_at_once(self):
        assert Node().start_pod().moves.pods == ("web",)

    def test_another_pod_is_not(self):
        assert Node().start_pod(wish=SHARED).moves == NO_MOVES

    def test_the_same_news_twice_changes_nothing(self):
        node = Node()
        node.start_pod()
        state, moves = reclaim_cgroups.with_pod(node.state, pod(), RECLAIMED)
        assert (state, moves) == (node.state, NO_MOVES)
        assert state is node.state

    def test_another_reclaimed_container_changes_nothing(self):
        node = Node()
        node.start_pod()
        state, moves = reclaim_cgroups.with_member(node.state, pod(), RECLAIMED)
        assert (state, moves) == (node.state, NO_MOVES)


class TestLeaving:
    def test_another_class_takes_the_pod_out_of_the_box(self):
        node = Node()
        node.start_pod()
        outcome = node.create("app", wish=SHARED)
        assert not node.state.boxed("web")
        assert outcome.moves.pods == ("web",)

    def test_who_inherited_the_boxs_cpus_gets_its_own(self):
        node = Node()
        node.create("batch", wish=RECLAIMED)
        outcome = node.create("app", wish=SHARED)
        assert everyone_in(outcome.moves) == ({"web"}, {"batch"})

    def test_nobody_is_moved_twice(self):
        node = Node()
        node.create("batch", wish=RECLAIMED)
        outcome = node.create("main", 2000)
        assert outcome.moves.containers == ("batch",)
        assert outcome.moves.pods == ("web",)


class TestKnobs:
    def test_the_box_has_its_cpus_and_the_smallest_weight(self):
        node = Node()
        node.start_pod()
        node.create("main", 2000, on="other")
        assert reclaim_cgroups.knobs(node.state, "web") == Knobs(cpus="2-7", shares=2)

    def test_a_weight_counts_along_the_whole_path(self):
        node = Node()
        node.start_pod(wish=WEIGHED)
        assert reclaim_cgroups.knobs(node.state, "web") == Knobs(io_weight=300)

    def test_a_reclaimed_pods_weight_is_written_beside_the_boxs_values(self):
        node = Node()
        node.start_pod(wish=replace(RECLAIMED, knobs=Knobs(io_weight=10)))
        assert reclaim_cgroups.knobs(node.state, "web") == Knobs(cpus="0-7", shares=2, io_weight=10)

    def test_a_pod_that_preserves_cpus_keeps_them(self):
        node = Node()
        node.start_pod(wish=replace(RECLAIMED, preserve=frozenset({"cpu"})))
        assert reclaim_cgroups.knobs(node.state, "web").cpus is None

    @pytest.mark.parametrize("wish", [SHARED, replace(WEIGHED, handler="ignore")], ids=["shared", "ignored"])
    def test_others_have_none(self, wish):
        node = Node()
        node.start_pod(wish=wish)
        assert reclaim_cgroups.knobs(node.state, "web") == NO_KNOBS

    def test_an_unknown_pod_has_none(self):
        assert reclaim_cgroups.knobs(Node().state, "web") == NO_KNOBS


class TestVirtualMachines:
    """A runtime that puts a VM into the pod's cgroup: that cgroup is the unit (DESIGN 4.2)."""

    def test_the_pod_has_all_that_its_containers_have(self):
        node = Node()
        node.create("a", 1000, replace(DEDICATED, handler="pod"))
        node.create("b", 1000, replace(DEDICATED, handler="pod"))
        assert reclaim_cgroups.knobs(node.state, "web").cpus == "0-1"

    def test_an_empty_one_is_left_as_it_is(self):
        node = Node()
        node.start_pod(wish=replace(SHARED, handler="pod"))
        assert reclaim_cgroups.knobs(node.state, "web") == NO_KNOBS


BEST_EFFORT, BURSTABLE, GUARANTEED = "/kubepods/besteffort/podx", "/kubepods/burstable/podx", "/kubepods/podx"


class TestWeight:
    """Weights compete among siblings, and the kubelet gives the classes theirs."""

    def node(self, night=BURSTABLE, wish=RECLAIMED):
        node = Node()
        node.happen(PodStarted(replace(pod("night"), cgroup_parent=night), wish))
        return node

    def online(self, node, parent, wish=SHARED, milli=500):
        node.happen(PodStarted(replace(pod("day"), cgroup_parent=parent), wish))
        node.create("app", milli, wish, on="day")
        return node

    @pytest.mark.parametrize("parent", [BURSTABLE, GUARANTEED, "/odd"])
    def test_best_effort_pods_weigh_least_beside_all_other_classes(self, parent):
        state = self.online(self.node(BEST_EFFORT), parent).state
        assert (reclaim_cgroups.weighs_least(state), reclaim_cgroups.equal(state)) == (True, "")

    @pytest.mark.parametrize("parent", [BEST_EFFORT, BURSTABLE])
    def test_a_pod_without_request_has_minimum_weight(self, parent):
        state = self.online(self.node(parent), parent, milli=0).state
        assert (reclaim_cgroups.weighs_least(state), reclaim_cgroups.equal(state)) == (False, "shop/day")

    def test_one_containers_request_gives_its_pod_weight(self):
        node = self.online(self.node(), BURSTABLE, milli=500)
        node.create("side", 0, SHARED, on="day")
        assert reclaim_cgroups.equal(node.state) == ""

    @pytest.mark.parametrize("parent", [BEST_EFFORT, BURSTABLE])
    def test_a_node_agent_without_a_cpu_request_holds_nothing_up(self, parent):
        state = self.online(self.node(parent), parent, SYSTEM, milli=0).state
        assert (reclaim_cgroups.weighs_least(state), reclaim_cgroups.equal(state)) == (True, "")

    def test_a_best_effort_pod_has_its_classs_weight(self):
        state = self.online(self.node(BEST_EFFORT), BEST_EFFORT, milli=500).state
        assert (reclaim_cgroups.weighs_least(state), reclaim_cgroups.equal(state)) == (False, "shop/day")

    def test_one_that_keeps_its_own_weight_weighs_more(self):
        node = self.node()
        keeps = replace(RECLAIMED, preserve=frozenset({"cpu"}))
        node.happen(PodStarted(replace(pod("noon"), cgroup_parent=BURSTABLE), keeps))
        state = self.online(node, BURSTABLE).state
        assert reclaim_cgroups.weighs_least(state) is False

    def test_an_equal_pod_on_own_cpus_is_no_rival(self):
        node = Node(tuning=Tuning(pools=(PoolTuning("gold", minimum=2),)))
        node.happen(PodStarted(replace(pod("night"), cgroup_parent=BEST_EFFORT), RECLAIMED))
        state = self.online(node, BEST_EFFORT, replace(SHARED, pool="gold"), milli=0).state
        assert (reclaim_cgroups.weighs_least(state), reclaim_cgroups.equal(state)) == (True, "")

    def test_a_class_without_requests_weighs_as_best_effort(self):
        node = self.online(self.node(BEST_EFFORT), BURSTABLE, milli=0)
        assert (reclaim_cgroups.weighs_least(node.state), reclaim_cgroups.equal(node.state)) == (
            False,
            "shop/day",
        )
        node.happen(PodStarted(replace(pod("dusk"), cgroup_parent="/kubepods/burstable/poddusk"), SHARED))
        node.create("web", 500, SHARED, on="dusk")
        assert (reclaim_cgroups.weighs_least(node.state), reclaim_cgroups.equal(node.state)) == (True, "")

    def test_an_empty_box_has_no_equal(self):
        assert reclaim_cgroups.equal(self.online(Node(), BEST_EFFORT, milli=0).state) == ""

    @pytest.mark.parametrize(
        ("parent", "least"), [(BURSTABLE, True), (BEST_EFFORT, False), (GUARANTEED, False), ("/odd", False)]
    )
    def test_burstable_pods_weigh_least_beside_their_siblings_alone(self, parent, least):
        assert reclaim_cgroups.weighs_least(self.online(self.node(), parent).state) is least

    def test_who_has_cpus_of_its_own_is_no_rival(self):
        assert reclaim_cgroups.weighs_least(self.online(self.node(), GUARANTEED, DEDICATED, milli=2000).state)

    def test_guaranteed_pods_stand_beside_the_classes(self):
        assert not reclaim_cgroups.weighs_least(self.node(GUARANTEED).state)

    def test_a_preserved_weight_may_be_any(self):
        kept = replace(RECLAIMED, preserve=frozenset({"cpu"}))
        assert not reclaim_cgroups.weighs_least(self.node(wish=kept).state)

    def test_a_container_beside_online_ones_has_their_weight(self):
        node = self.online(self.node(BEST_EFFORT), BURSTABLE)
        node.create("helper", wish=RECLAIMED, on="day")
        assert not reclaim_cgroups.weighs_least(node.state)

    def test_a_container_of_an_unknown_pod_is_a_rival(self):
        state = self.online(self.node(), BURSTABLE).state
        known = {k: place for k, place in state.pods.items() if k != "day"}
        assert not reclaim_cgroups.weighs_least(replace(state, pods=known))


class TestIOWeight:
    """A container's weight counts against other pods only if its pod has it too."""

    def test_a_pod_has_the_weight_of_its_only_container(self):
        node = Node()
        node.start_pod(wish=SHARED)
        outcome = node.create("app", wish=WEIGHED)
        assert reclaim_cgroups.knobs(node.state, "web").io_weight == 300
        assert outcome.moves.pods == ("web",)
        assert said(outcome) == [("container.admit", "pool_member"), ("pod.limit", "pool_member")]

    @pytest.mark.parametrize(("weights", "expected"), [((300, None), 300), ((10, None), 100), ((10, 20), 20)])
    def test_of_several_the_highest_counts(self, weights, expected):
        node = Node()
        node.start_pod(wish=SHARED)
        for weight in weights:
            node.create(f"app-{weight}", wish=replace(SHARED, knobs=Knobs(io_weight=weight)))
        assert reclaim_cgroups.knobs(node.state, "web").io_weight == expected

    def test_a_pods_own_weight_holds_without_others(self):
        node = Node()
        node.start_pod(wish=WEIGHED)
        outcome = node.create("app", wish=WEIGHED)
        assert (reclaim_cgroups.knobs(node.state, "web").io_weight, outcome.moves.pods) == (300, ())

    def test_it_is_the_pods_own_again_without_the_container(self):
        node = Node()
        node.start_pod(wish=SHARED)
        node.create("app", wish=WEIGHED)
        node.stop("app")
        assert reclaim_cgroups.knobs(node.state, "web").io_weight is None

    def test_an_unknown_pod_has_no_values(self):
        assert reclaim_cgroups.io_weight(Node().state, "web") is None


class TestWords:
    def test_a_limit_has_its_figures(self):
        (decision,) = Node().start_pod().decisions
        assert (decision.event.value, decision.reason.value) == ("pod.limit", "box_member")
        assert decision.inputs is not None
        assert decision.inputs["reclaim_cpus"] == "0-7"
        assert (decision.pod_id, decision.after) == ("web", Knobs(cpus="0-7", shares=2))
        assert (decision.qos, decision.pool) == (QoSClass.RECLAIMED, "reclaim")

    def test_a_weight_has_its_figures(self):
        (decision,) = Node().start_pod(wish=WEIGHED).decisions
        assert (decision.reason.value, decision.after) == ("pool_member", Knobs(io_weight=300))
        assert decision.inputs is not None
        assert decision.inputs["own_io_weight"] == 300

    def test_a_pod_without_limits_is_not_worth_a_record(self):
        assert said(Node().start_pod(wish=SHARED)) == []


class TestWhetherThereAreReclaimedContainers:
    def test_an_empty_node_has_none(self):
        assert not reclaim_cgroups.has_members(Node().state)
        assert not reclaim_cgroups.has_member_in(Synchronized((), ()))

    def test_a_reclaimed_pod_counts_without_containers(self):
        node = Node()
        node.start_pod()
        assert reclaim_cgroups.has_members(node.state)
        assert reclaim_cgroups.has_member_in(Synchronized(((pod(), RECLAIMED),), ()))

    def test_online_containers_do_not_count(self):
        node = Node()
        node.create("app", wish=SHARED)
        assert not reclaim_cgroups.has_members(node.state)
        assert not reclaim_cgroups.has_member_in(node.listing())

    def test_a_reclaimed_container_in_an_online_pod_counts(self):
        node = Node()
        node.create("app", wish=SHARED)
        node.create("batch", wish=RECLAIMED)
        assert not node.state.box
        assert reclaim_cgroups.has_members(node.state)
        assert reclaim_cgroups.has_member_in(node.listing())
