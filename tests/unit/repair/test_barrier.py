"""A barrier opens when each cgroup was read back on other CPUs."""

from nri_coloc.core.decisions import Moves
from nri_coloc.repair.read_back import Barrier


def test_a_barrier_without_anybody_is_open():
    assert Barrier(1, Moves()).wait(0)


def test_a_barrier_opens_when_everyone_was_read_back_elsewhere():
    barrier = Barrier(0b11, Moves(("p",), ("c",)))
    barrier.settle("container", "c", 0b1100)
    assert (barrier.wait(0), barrier.open) == (False, 1)
    barrier.settle("pod", "p", 0b0110)
    assert not barrier.wait(0), "one of its CPUs is still taken"
    barrier.settle("container", "p", 0b1000)
    assert not barrier.wait(0), "a container is no pod"
    barrier.settle("pod", "p", 0b1000)
    assert barrier.wait(0)


def test_a_cgroup_that_is_gone_holds_nobody_up():
    barrier = Barrier(0b11, Moves(containers=("c",)))
    barrier.settle("container", "c", None)
    assert barrier.wait(0)
