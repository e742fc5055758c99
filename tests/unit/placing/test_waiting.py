"""placing/waiting.py: a dedicated container that owns too few CPUs gets a second chance when the cause is gone.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest.mock import Mock, call

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import ISOLATED, Numa, Placement
from nri_coloc.placing import supply, waiting
from nri_coloc.sim import machines
from tests.unit.placing.kit import (
    DEDICATED,
    SHARED,
    Node,
    asking,
    everyone_in,
    figures,
    machine,
    mask,
    moved,
    said,
)

TAKEN = ("container.update", "cpus_freed"), ("pool.resize", "cpus_taken")


def crowded(*, milli: int = 5000) -> Node:
    """Return a node on which `web` waits for two CPUs beside an owner of most of them."""
    node = Node()
    node.run("shop", 500, SHARED, on="shop")
    node.run("other", 7000, on="other")
    node.run("web", 2000)
    return node


def waiting_for(node: Node) -> dict[str, str]:
    return waiting.lacks(node.state)


def without_cpus(cpus: str):
    return machines.topology(machines.without(machines.MACHINES["8cpu"], mask(cpus)))


# ---- causes that take CPUs from a dedicated container, and end ----


@dataclass(frozen=True)
class Cause:
    """`takes` leaves `web` without the two CPUs that it requests; `ends` makes them free again."""

    name: str
    takes: Callable[[Node], object]
    ends: Callable[[Node], object]


CAUSES = (
    Cause(
        "CPUs that go offline",
        lambda node: node.reconfigure(topology=without_cpus("1-7")),
        lambda node: node.reconfigure(topology=machine()),
    ),
    Cause(
        "a reserve that is reloaded",
        lambda node: node.reconfigure(Tuning(reserved=mask("0-6"))),
        lambda node: node.reconfigure(Tuning()),
    ),
    Cause(
        "pins of the kubelet",
        lambda node: node.reconfigure(Tuning(kept_by_kubelet={"uid-x": {"": mask("0-6")}})),
        lambda node: node.reconfigure(Tuning()),
    ),
)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_what_was_taken_is_given_back(cause: Cause):
    node = Node()
    node.run("web", 2000)
    cause.takes(node)
    node.free()
    assert (node.owners().get("web"), waiting_for(node)) == (None, {"web": "2 CPUs of its own"})
    cause.ends(node)
    assert said(node.free()) == [*TAKEN]
    assert node.owners() == {"web": "0-1"}
    assert waiting_for(node) == {}


def test_a_pool_that_shrinks_frees_cpus():
    large = Tuning(pools=(PoolTuning("gold", minimum=7),))
    node = Node(tuning=large)
    node.run("gold", 500, replace(SHARED, pool="gold"), on="gold")
    node.run("web", 2000)
    assert node.owners() == {}
    node.reconfigure(Tuning(pools=(PoolTuning("gold", minimum=2),)))
    assert ("container.update", "cpus_freed") in said(node.free())
    assert node["web"].exclusive.bit_count() == 2


def test_an_owner_that_ends_frees_cpus():
    node = crowded()
    assert waiting_for(node) == {"web": "2 CPUs of its own"}
    node.stop("other")
    outcome = node.free()
    assert said(outcome) == [*TAKEN]
    assert (figures(outcome)["n"], figures(outcome)["free"], figures(outcome)["node_free"]) == (2, "0-7", 4)
    assert (node.cpus("web"), node.cpus("shop")) == ("0-1", "2-7")


def test_a_refused_growth_is_made_good():
    node = Node()
    node.run("web", 2000)
    node.run("other", 4000, on="other")
    node.update("web", asking(4000))
    assert waiting_for(node) == {"web": "2 more CPUs of its own"}
    assert said(node.free()) == []
    node.stop("other")
    assert said(node.free()) == [*TAKEN]
    assert (node.cpus("web"), waiting_for(node)) == ("0-3", {})


def test_isolated_cpus_are_waited_for_too():
    node = Node("isolated")
    asked = replace(DEDICATED, pool=ISOLATED)
    for name in ("one", "two", "three", "four"):
        node.run(name, 2000, asked, on=name)
    assert waiting_for(node) == {"four": "2 CPUs of its own"}
    node.stop("one")
    node.free()
    assert node.owners()["four"] == "2-3"


# ---- the decision ----


class TestTheDecision:
    def test_nothing_is_decided_when_nobody_waits(self):
        node = Node()
        node.run("web", 2000)
        before = node.state
        assert (node.free().state is before, said(node.free())) == (True, [])

    def test_nothing_is_decided_while_no_cpu_is_free(self):
        node = crowded()
        before = node.state
        assert node.free().state is before

    def test_a_second_time_changes_nothing(self):
        node = crowded()
        node.stop("other")
        node.free()
        before = node.state
        assert node.free().state is before

    def test_the_oldest_pod_comes_first_and_alone(self):
        node = crowded()
        node.run("db", 2000, on="db")
        node.stop("other")
        node.free()
        assert set(node.owners()) == {"web"}
        node.free()
        assert set(node.owners()) == {"web", "db"}

    def test_order_of_admission_tells_where_the_runtime_does_not(self):
        node = Node()
        node.create("other", 7000, on="other")
        for name in ("b", "a"):
            node.create(name, 2000, on=name)
            node.start(name, running=True, on=name)
        node.stop("other")
        node.free()
        assert set(node.owners()) == {"b"}

    def test_all_containers_of_a_pod_come_together(self):
        node = crowded()
        node.run("second", 2000)
        node.stop("other")
        assert said(node.free())[:2] == [("container.update", "cpus_freed")] * 2
        assert node.owners() == {"web": "0-1", "second": "2-3"}

    def test_a_younger_one_that_fits_need_not_wait(self):
        node = Node()
        node.run("other", 6000, on="other")
        node.run("large", 4000, on="large")
        node.run("odd", 1000, on="odd")
        node.stop("odd")
        node.run("small", 2000, on="small")
        node.reconfigure(Tuning(), topology=machine())
        node.update("other", asking(5000))
        node.free()
        assert set(node.owners()) == {"other", "small"}

    def test_sidecars_move_with_their_main_container(self):
        node = crowded()
        node.run("side", 100)
        node.stop("other")
        outcome = node.free()
        assert node.cpus("side") == node.cpus("web") == "0-1"
        assert ("container.update", "main_came") in said(outcome)
        assert moved(outcome) == (set(), {"shop", "web", "side"})

    def test_the_record_of_the_pool_names_owners_only(self):
        node = crowded()
        node.run("side", 100)
        node.stop("other")
        because = node.free().decisions[-1].because
        assert because == "pool resized: in shop/web web owns CPUs 0-1"

    def test_all_others_leave_the_cpus_first(self):
        node = crowded()
        node.run("side", 100)
        node.stop("other")
        assert everyone_in(node.free().waits_for) == (set(), {"shop"})

    def test_memory_goes_with_the_cpus(self):
        node = Node()
        node.run("other", 7000, on="other")
        node.run("web", 2000, replace(DEDICATED, numa=Numa.SINGLE))
        node.stop("other")
        node.free()
        assert (node.cpus("web"), node["web"].mems, node["web"].knobs.mems) == ("0-1", 0b1, "0")

    def test_reserved_memory_is_promised_to_nobody(self):
        """The rule is that of creation: half of each node is reserved, so no node alone has ten GiB left."""
        bound = replace(DEDICATED, numa=Numa.SINGLE, knobs=Knobs(memory_limit=10 << 30))
        node = Node(tuning=Tuning(reserved_memory=16 << 30))
        node.run("other", 7000, on="other")
        node.run("web", 2000, bound)
        node.stop("other")
        node.free()
        assert node["web"].mems == 0b11


class TestWhoWaitsForNothing:
    def test_an_attempt_that_has_not_started(self):
        node = Node()
        node.create("other", 7000, on="other")
        node.create("web", 2000)
        node.stop("other")
        assert said(node.free()) == []

    def test_a_container_that_asks_for_less_than_a_cpu(self):
        node = crowded()
        node.run("small", 500, on="small")
        assert "small" not in waiting_for(node)

    def test_an_init_container(self):
        node = Node()
        node.run("init", 2000, replace(DEDICATED, init=True))
        assert (waiting_for(node), said(node.free())) == ({}, [])

    @pytest.mark.parametrize("wish", [SHARED, replace(DEDICATED, preserve=frozenset({"cpu"}))])
    def test_a_container_of_another_class_or_none_of_our_business(self, wish):
        node = Node()
        node.run("app", 2000, wish)
        assert (waiting_for(node), said(node.free())) == ({}, [])


class TestWhatItMayCost:
    """The authors of pods decide how many containers wait, and for which CPUs."""

    @staticmethod
    def hopeless(*, differ: bool) -> Node:
        """Return a node with no free core, nine containers that wait for whole ones, and a younger one that fits."""
        node = Node()
        for cpu in range(3):
            node.run(f"odd{cpu}", 1000, replace(DEDICATED, cpus_ordered=1 << 2 * cpu), f"odd{cpu}")
        node.run("last", 3000, replace(DEDICATED, cpus_ordered=mask("5-7")), "last")
        for number in range(9):
            wish = replace(DEDICATED, placement=Placement.FULL_CORES, priority=number if differ else 0)
            node.run(f"w{number}", 2000, wish, f"w{number}")
        node.run("young", 2000, on="young")
        node.stop("last")
        node.run("last", 2000, replace(DEDICATED, cpus_ordered=mask("6-7")), "last")
        return node

    def test_twins_are_tried_once(self):
        state = self.hopeless(differ=False).state
        assert "young" in waiting.placed_again(state, Tuning(), most_tried=2).state.owners

    def test_different_requests_are_tried_up_to_a_number(self):
        state = self.hopeless(differ=True).state
        assert waiting.placed_again(state, Tuning(), most_tried=9).state is state
        assert "young" in waiting.placed_again(state, Tuning()).state.owners

    def test_hopeless_requests_hold_back_no_younger_pod(self):
        """With resources of its own a pod of two CPUs has many containers that each wait for both of them."""
        node = self.hopeless(differ=False)
        node.stop("young")
        node.requests["many"] = 2000
        for number in range(2 * waiting.MOST_TRIED):
            wish = replace(DEDICATED, placement=Placement.FULL_CORES, priority=number)
            node.run(f"many{number}", 2000, wish, "many")
        node.run("young", 2000, on="young")
        turns = range(waiting.turns(node.state))
        found = [waiting.placed_again(node.state, Tuning(), turn=turn) for turn in turns]
        assert any("young" in outcome.state.owners for outcome in found)

    def test_few_requests_need_one_turn(self):
        assert waiting.turns(self.hopeless(differ=True).state) == 1

    def test_a_pod_of_many_containers_is_looked_through_once(self, monkeypatch: pytest.MonkeyPatch):
        node = self.hopeless(differ=False)
        node.requests["many"] = 2000
        for number in range(9):
            node.run(f"many{number}", 2000, on="many")
        beside = Mock(wraps=supply.beside)
        monkeypatch.setattr(supply, "beside", beside)
        assert len(waiting.of(node.state)) > 9
        assert beside.mock_calls.count(call(node.state, "many")) == 1
