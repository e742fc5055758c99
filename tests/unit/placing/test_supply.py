"""placing/supply.py: isolated CPUs go to containers that request them, and memory is counted by node.

"isolated": as "8cpu", with CPUs 2-3 and 6 kept from the scheduler. Nodes of "8cpu" have 16 GiB each.
"""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import ContainerCreating, FactsReported, PodStarted
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import Facts, Owner, PodFacts
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import ISOLATED, Numa, Placement, Resources
from nri_coloc.placing import supply
from tests.unit.placing.kit import DEDICATED, Node, asking, container, figures, first, pod

GIB = 1 << 30
ASIDE = replace(DEDICATED, pool=ISOLATED)
BOUND = replace(DEDICATED, numa=Numa.SINGLE)


def report(node: Node, pod_id: str, memory_bytes: int) -> None:
    """Report a memory request as a companion does."""
    found = node.state.pods[pod_id].pod
    told = Facts(
        uid=found.uid,
        namespace=found.namespace,
        name=found.name,
        owner=Owner(),
        priority=0,
        cpu_milli=0,
        memory_bytes=memory_bytes,
    )
    node.happen(FactsReported(PodFacts({found.uid: told})))


class TestIsolated:
    def test_who_asks_for_them_gets_them(self):
        node = Node("isolated")
        outcome = node.create("web", 2000, ASIDE)
        assert node.cpus("web") == "2-3"
        assert (figures(outcome)["free"], figures(outcome)["pool"]) == ("2-3,6", "isolated")
        assert (node.pool("share"), node.pool("dedicated")) == ("0-1,4-5,7", "2-3")

    def test_who_does_not_never_does(self):
        node = Node("isolated")
        node.create("web", 5000)
        assert first(node.create("next", 6000)).reason is Reason.NO_FREE_CPUS
        assert node.owners() == {}

    def test_where_there_are_too_few_the_shared_ones_serve(self):
        node = Node("isolated")
        outcome = node.create("web", 4000, ASIDE)
        assert node.cpus("web") == "0-1,4-5"
        assert (figures(outcome)["isolated_free"], figures(outcome)["pool"]) == ("2-3,6", "isolated")

    def test_where_they_make_no_whole_cores_the_shared_ones_serve(self):
        node = Node("isolated")
        node.create("first", 1000, ASIDE)
        assert node.cpus("first") == "6"
        node.create("second", 1000, ASIDE)
        node.create("whole", 2000, replace(ASIDE, placement=Placement.FULL_CORES))
        assert node.cpus("whole") == "0-1"

    def test_a_machine_without_any_says_so(self):
        assert figures(Node().create("web", 2000, ASIDE))["isolated_free"] == ""

    def test_nothing_at_all_says_both(self):
        outcome = Node("isolated").create("web", 6000, ASIDE)
        assert first(outcome).reason is Reason.NO_FREE_CPUS
        assert (figures(outcome)["free"], figures(outcome)["isolated_free"]) == ("0-1,4-5,7", "2-3,6")

    def test_they_come_back(self):
        node = Node("isolated")
        node.create("web", 2000, ASIDE)
        node.stop("web")
        node.create("next", 3000, ASIDE)
        assert node.cpus("next") == "2-3,6"

    def test_all_of_them_may_be_had_for_none_is_shared(self):
        node = Node("isolated")
        node.create("web", 3000, ASIDE)
        assert node.cpus("web") == "2-3,6"

    def test_whole_nodes_of_them_are_whole(self):
        node = Node("isolated")
        node.create("web", 3000, replace(ASIDE, numa=Numa.SINGLE))
        assert node.cpus("web") == "2-3,6"

    def test_a_node_is_whole_without_its_isolated_cpus(self):
        node = Node("isolated")
        outcome = node.create("web", 2000, replace(DEDICATED, numa=Numa.EXCLUSIVE))
        assert node.cpus("web") == "0-1"
        assert not any(each.reason is Reason.NOT_ALLOWED for each in outcome.decisions)

    def test_they_survive_a_restart_and_a_changed_configuration(self):
        node = Node("isolated")
        node.create("web", 2000, ASIDE)
        assert node.anew().cpus("web") == "2-3"
        node.reconfigure(Tuning(reserved=1))
        assert node.cpus("web") == "2-3"

    def test_who_does_not_ask_any_more_leaves_them(self):
        node = Node("isolated")
        node.create("web", 2000, ASIDE)
        node.reconfigure(wishes={"web": DEDICATED})
        assert node.cpus("web") == "0-1"

    def test_the_kubelets_are_not_given_away(self):
        tuning = Tuning(kept_by_kubelet={"uid": {"": 0b1000}})
        node = Node("isolated", tuning)
        node.create("web", 2000, ASIDE)
        assert node.cpus("web") == "2,6"


class TestMemory:
    def limited(self, node: Node, name: str, gib: int, wish=BOUND) -> str:
        node.create(name, wish=wish, on=name, resources=asking(2000, memory_limit=gib * GIB))
        return f"{node.cpus(name)} {node.state.mems_of(node[name]):b}"

    def test_a_node_is_filled_until_its_memory_is_promised(self):
        node = Node()
        assert self.limited(node, "a", 10) == "0-1 1"
        assert self.limited(node, "b", 10) == "4-5 10"
        assert self.limited(node, "c", 6) == "2-3 1"

    @pytest.mark.parametrize("parent", ["/kubepods/burstable/pod", "/kubepods/besteffort/pod", ""])
    def test_a_limit_without_a_request_keeps_no_memory(self, parent):
        node = Node()
        for name in ("one", "two"):
            limited = asking(1000, memory_limit=16 * GIB)
            asked = container(name, name, resources=limited, oom_score_adj=999)
            of = replace(pod(name), cgroup_parent=f"{parent}{name}")
            node.happen(ContainerCreating(of, asked, BOUND))
        self.limited(node, "web", 16)
        assert node["web"].mems == 1

    def test_a_limit_above_the_request_keeps_the_request(self):
        node = Node()
        burstable = replace(pod("web"), cgroup_parent="/kubepods/burstable/podweb")
        asked = container("web", resources=asking(1000, memory_limit=10 * GIB), oom_score_adj=875)
        node.happen(ContainerCreating(burstable, asked, BOUND))
        asked = container("next", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 12 * GIB), (1, 16 * GIB))

    def test_equal_sidecars_keep_one_request(self):
        node = Node()
        burstable = replace(pod("web"), cgroup_parent="/kubepods/burstable/podweb")
        for name, milli in (("main", 1000), ("side", 100)):
            limited = asking(milli, memory_limit=10 * GIB)
            asked = container(name, resources=limited, oom_score_adj=875)
            node.happen(ContainerCreating(burstable, asked, BOUND))
        asked = container("next", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 12 * GIB), (1, 16 * GIB))

    @pytest.mark.parametrize("told", [0, GIB, 64 * GIB])
    def test_no_fact_frees_a_promise(self, told):
        node = Node()
        self.limited(node, "web", 10)
        report(node, "web", told)
        asked = container("next", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 6 * GIB), (1, 16 * GIB))

    def test_what_ended_is_not_counted_any_more(self):
        node = Node()
        self.limited(node, "a", 10)
        node.stop("a")
        assert self.limited(node, "b", 10) == "0-1 1"

    def test_the_nodes_reserve_is_divided_by_size(self):
        node = Node(tuning=Tuning(reserved_memory=4 * GIB))
        found = figures(node.create("a", wish=BOUND, resources=asking(2000, memory_limit=15 * GIB)))
        assert found["memory_bytes"] == 15 * GIB
        assert {found[f"memory_left_bytes_node_{each}"] for each in (0, 1)} == {14 * GIB}
        assert node.state.mems_of(node["a"]) == 0b11

    def test_who_is_bound_to_two_nodes_takes_half_of_each(self):
        node = Node()
        self.limited(node, "a", 20)
        assert supply.room(node.state, container("b"), BOUND, 0).left == ()
        asked = container("b", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 6 * GIB), (1, 6 * GIB))

    def test_a_container_on_two_nodes_fills_leftover_memory(self):
        node = Node()
        self.limited(node, "z", 10)
        assert self.limited(node, "a", 20) == "2-3 11"
        asked = container("b", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, GIB), (1, GIB))
        node.stop("z")
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 6 * GIB), (1, 6 * GIB))

    def test_a_promise_beyond_what_there_is_takes_all(self):
        node = Node()
        self.limited(node, "a", 30)
        node.reconfigure(Tuning(reserved_memory=8 * GIB))
        asked = container("b", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 8 * GIB).left == ((0, 0), (1, 0))

    def test_more_than_there_is_never_makes_less_than_nothing(self):
        node = Node(tuning=Tuning(reserved_memory=99 * GIB))
        outcome = node.create("a", wish=BOUND, resources=asking(2000, memory_limit=GIB))
        assert first(outcome).reason is Reason.MEMORY_UNBOUND
        assert {figures(outcome)[f"memory_left_bytes_node_{each}"] for each in (0, 1)} == {0}
        assert node.cpus("a") == "0-1"

    def test_an_unbound_container_counts_nowhere(self):
        node = Node()
        self.limited(node, "a", 16, DEDICATED)
        assert self.limited(node, "b", 16) == "2-3 1"

    def test_a_sidecar_is_bound_and_counted_with_its_main(self):
        node = Node()
        node.create("main", wish=BOUND, resources=asking(2000, memory_limit=10 * GIB))
        node.create("side", wish=BOUND, resources=asking(100, memory_limit=GIB))
        assert node["side"].mems == 1
        asked = container("b", resources=Resources(memory_limit=1))
        assert supply.room(node.state, asked, BOUND, 0).left == ((0, 5 * GIB), (1, 16 * GIB))

    def test_an_annotated_limit_goes_before_the_kubelets(self):
        asked = container("a", resources=Resources(memory_limit=5))
        assert supply.memory_of(asked, replace(BOUND, knobs=Knobs(memory_limit=3))) == 3
        assert supply.memory_of(asked, BOUND) == 5

    def test_no_limit_is_no_amount(self):
        for limit in (None, -1, 0, 9223372036854771712):
            assert supply.memory_of(container("a", resources=Resources(memory_limit=limit)), BOUND) == 0


class TestARequestThatFallsShort:
    """The request of a pod is read again only if another one could give a container more CPUs."""

    def falls_short(self, pod_milli: int | None, milli: int = 4000, **values: Any) -> bool:
        node = Node()
        node.happen(PodStarted(pod(cpu_request=pod_milli), DEDICATED))
        return supply.falls_short(node.state, container("app", milli=milli), replace(DEDICATED, **values))

    def test_a_request_below_the_containers_does(self):
        assert self.falls_short(2000)

    def test_a_request_of_all_containers_does_not(self):
        assert not self.falls_short(4000)

    def test_an_unknown_request_does_not(self):
        assert not self.falls_short(None)

    def test_the_request_of_an_unknown_pod_does(self):
        assert supply.falls_short(Node().state, container("app", milli=4000), DEDICATED)
