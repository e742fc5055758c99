"""core/state.py: an assignment names its pool, and its CPUs follow from the node's state."""

from dataclasses import replace

import pytest

from nri_coloc.core.state import (
    DEDICATED,
    POOLS,
    RECLAIM,
    SHARE,
    Assignment,
    Crowd,
    NodeState,
    PodPlace,
    Pools,
)
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, Pod, QoSClass, Wish

MACHINE = Topology.build([CPU(0), CPU(1), CPU(2, node=1), CPU(3, node=1)], {0: 1, 1: 1})
SETS = Pools(reserved=0b0001, dedicated=0b0010, system=0b1101, share=0b1100, reclaim=0b1000)


def shared(name: str = "c", pod: str = "p", pool: str = SHARE, qos: QoSClass = QoSClass.SHARED) -> Assignment:
    return Assignment(Container(name, pod), qos, pool)


def dedicated(name: str, exclusive: int = 0, follows: str = "") -> Assignment:
    return Assignment(Container(name, "p"), QoSClass.DEDICATED, DEDICATED, exclusive, follows)


def node(*assignments: Assignment, pools: Pools = SETS) -> NodeState:
    return NodeState(MACHINE, pools, containers=Crowd.of(assignments))


class TestPools:
    @pytest.mark.parametrize("pool", POOLS)
    def test_every_pool_has_its_own_set(self, pool):
        assert SETS.cpus(pool) == getattr(SETS, pool)

    def test_an_unknown_pool_is_the_shared_one(self):
        assert SETS.cpus("nosuch") == SETS.share
        assert SETS.cpus("cpus") == SETS.share


@pytest.mark.parametrize(
    ("handler", "hands_off", "is_managed"),
    [
        ("container", False, True),
        ("container", True, False),
        ("pod", False, False),
        ("ignore", True, False),
    ],
)
def test_a_container_left_alone_or_in_a_vm_is_not_managed(handler, hands_off, is_managed):
    one = replace(shared(), wish=Wish(QoSClass.SHARED, handler=handler), hands_off=hands_off)
    assert one.is_managed is is_managed


class TestCPUsOf:
    def test_exclusive_cpus_are_a_containers_own(self):
        assert node().cpus_of(dedicated("a", exclusive=0b0010)) == 0b0010

    def test_a_follower_runs_where_its_main_container_does(self):
        assert node(dedicated("a", exclusive=0b0010)).cpus_of(dedicated("b", follows="a")) == 0b0010

    def test_a_follower_of_a_container_without_cpus_uses_share(self):
        state = node(dedicated("a"))
        assert state.cpus_of(dedicated("b", follows="a")) == SETS.share

    def test_a_follower_of_an_ended_container_uses_its_pool(self):
        follower = Assignment(Container("b", "p"), QoSClass.DEDICATED, SHARE, follows="gone")
        assert node().cpus_of(follower) == SETS.share

    def test_a_pool_members_cpus_are_the_pools(self):
        assert node().cpus_of(shared(pool=RECLAIM)) == SETS.reclaim

    def test_an_empty_pool_gives_the_shared_one_instead(self):
        assert node(pools=Pools(share=0b1111)).cpus_of(shared(pool=RECLAIM)) == 0b1111


class TestMemsOf:
    def test_the_nodes_of_an_assignment_are_its_own(self):
        assert node().mems_of(Assignment(Container("c", "p"), QoSClass.SHARED, SHARE, mems=0b10)) == 0b10

    def test_without_any_it_may_use_all(self):
        assert node().mems_of(shared()) == 0b11

    def test_cpus_of_its_own_have_theirs_near(self):
        assert node().mems_of(dedicated("a", exclusive=0b0001)) == 0b01


class TestPods:
    def test_the_assignments_of_a_pod_are_found(self):
        state = node(shared("a", "p"), shared("b", "q"), shared("c", "p"))
        assert [a.id for a in state.of_pod("p")] == ["a", "c"]

    def test_a_pod_is_boxed_if_its_place_says_so(self):
        pods = {"in": PodPlace(Pod("in"), boxed=True), "out": PodPlace(Pod("out"))}
        state = NodeState(MACHINE, SETS, pods)
        assert state.boxed("in")
        assert not state.boxed("out")

    def test_an_unknown_pod_is_not_boxed(self):
        assert not node().boxed("p")
