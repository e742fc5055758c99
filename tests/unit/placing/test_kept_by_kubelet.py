"""CPUs that the kubelet's CPU manager keeps are never in a pool of ours (placing/pools.py, resynchronisation.py)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import POOLS
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import KEPT_BY_KUBELET, Wish
from nri_coloc.placing import pools
from tests.property.strategies import MILLI, TOPOLOGIES
from tests.unit.placing.kit import DEDICATED, SHARED, Node, machine, mask, said


def keeping(cpus: str, **tuning: Any) -> Tuning:
    return Tuning(kept_by_kubelet={"uid-other": {"app": mask(cpus)}} if cpus else {}, **tuning)


def pinned() -> Wish:
    because = "the kubelet's CPU manager has pinned it to CPUs 2-3"
    return replace(SHARED, because=because, preserve=frozenset({"cpu", KEPT_BY_KUBELET}))


def test_they_are_in_no_pool():
    node = Node(tuning=keeping("2-3", reserved=mask("0-2")))
    assert [node.pool(name) for name in POOLS] == ["0-1", "", "0-1,4-7", "4-7", "4-7"]


def test_a_count_of_reserved_cpus_is_taken_from_the_others():
    assert cpuset.render(pools.reserved_cpus(machine(), keeping("0-1", reserved_count=2))) == "2-3"


def test_if_it_has_every_cpu_the_lowest_stays_ours():
    node = Node(tuning=keeping("0-7"))
    assert (node.pool("share"), node.pool("system")) == ("0", "0")


def test_a_dedicated_container_never_gets_one():
    node = Node(tuning=keeping("0-1"))
    node.create("web", 2000)
    assert node.cpus("web") == "2-3"


def test_a_dedicated_container_moves_off_the_kubelets_cpus():
    node = Node()
    node.create("web", 2000)
    outcome = node.reconfigure(keeping("0-1"))
    assert node.cpus("web") == "2-3"
    assert node.pool("share") == "4-7"
    assert "web" in outcome.moves.containers


def test_they_come_back_when_the_kubelet_lets_them_go():
    node = Node(tuning=keeping("2-3"))
    node.create("s", wish=SHARED)
    outcome = node.reconfigure(keeping(""))
    assert node.pool("share") == "0-7"
    assert outcome.moves.containers == ("s",)


def test_a_record_does_not_bring_one_back_after_a_restart():
    node = Node()
    node.create("web", 2000)
    node.create("other", 2000, on="other")
    node.tuning = keeping("0-1")
    again = node.anew()
    assert (again.cpus("web"), again.cpus("other")) == ("4-5", "2-3")


def test_cpus_that_the_kubelet_pinned_are_left_alone():
    node = Node(tuning=keeping("2-3"))
    outcome = node.create("app", wish=pinned(), on="other")
    assert said(outcome) == [("container.admit", "hands_off")]
    assert outcome.decisions[0].orders.cpus is None


def test_a_container_is_let_go_when_the_kubelet_pins_it():
    node = Node()
    node.create("app", wish=SHARED, on="other")
    outcome = node.reconfigure(keeping("2-3"), wishes={"app": pinned()})
    assert node["app"].hands_off
    assert ("container.update", "reconfigured") in said(outcome)


@given(
    machine=TOPOLOGIES,
    kept=st.integers(0, 1 << 16),
    reserved=st.integers(0, 5),
    asked=st.lists(MILLI, max_size=5),
)
def test_on_any_machine_they_are_nobodys(machine: Topology, kept: int, reserved: int, asked: list[int]):
    tuning = Tuning(reserved_count=reserved, kept_by_kubelet={"uid": {"": kept}})
    node = Node(tuning=tuning, state=pools.initial(machine, tuning))
    for number, milli in enumerate(asked):
        node.create(f"c{number}", milli, DEDICATED, f"p{number}")
    held = pools.kept_cpus(machine, tuning)
    assert held == kept & machine.online or kept & machine.usable == machine.usable
    assert all(node.state.pools.cpus(name) & held == 0 for name in POOLS)
    assert all(node.state.pools.cpus(name) for name in ("share", "system", "reclaim"))
    assert all(node.state.cpus_of(a) & held == 0 for a in node.state.containers.values())


@pytest.mark.parametrize("first", [True, False], ids=["kubelet-first", "we-first"])
def test_the_order_of_events_does_not_matter_to_the_pools(first):
    node = Node(tuning=keeping("2-3") if first else Tuning())
    node.create("web", 1000)
    if not first:
        node.reconfigure(keeping("2-3"))
    assert (node.pool("share"), node.pool("system")) == ("1,4-7", "1,4-7")
