"""placing/allocator.py: a container that grows gets CPUs beside its own, and one that shrinks keeps some.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. "groups": two nodes of 8 CPUs, in each two L3 groups of 4, in each
two cores of two threads.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Numa, Placement, Wish
from nri_coloc.placing import allocator
from nri_coloc.placing.allocator import Grant
from tests.property.strategies import TOPOLOGIES
from tests.unit.placing.kit import DEDICATED, machine, mask


def groups() -> Topology:
    return Topology.build(
        [CPU(c, c // 8, c // 8, f"l3-{c // 4}", f"core-{c // 2}") for c in range(16)],
        {0: 1 << 30, 1: 1 << 30},
    )


def wish(**values: Any) -> Wish:
    return replace(DEDICATED, **values)


def grant(
    owned: str, count: int, free: str, by: Wish = DEDICATED, on: Topology | None = None
) -> Grant | None:
    return allocator.grow(on or groups(), mask(free), mask(owned), count, by)


def grown(owned: str, count: int, free: str, by: Wish = DEDICATED, on: Topology | None = None) -> str:
    found = grant(owned, count, free, by, on)
    assert found is not None
    return cpuset.render(found.cpus)


def shrunk(owned: str, count: int, by: Wish = DEDICATED, on: Topology | None = None) -> str:
    return cpuset.render(allocator.shrink(on or groups(), mask(owned), count, by).cpus)


class TestGrowthIsNear:
    @pytest.mark.parametrize(
        ("owned", "count", "free", "cpus"),
        [
            ("0", 2, "1-15", "0-1"),
            ("2-3", 4, "0-1,4-15", "0-3"),
            ("0-3", 6, "4-15", "0-5"),
            ("0-1", 4, "4-15", "0-1,4-5"),
            ("8-9", 11, "0-7,10-15", "0-2,8-15"),
            ("0-1", 10, "2-15", "0-9"),
            ("12-15", 6, "0-11", "8-9,12-15"),
        ],
        ids=["sibling", "same-L3", "next-L3", "L3-is-full", "three-levels", "beyond-the-node", "upper-node"],
    )
    def test_it_takes_the_nearest(self, owned, count, free, cpus):
        assert grown(owned, count, free) == cpus

    @pytest.mark.parametrize(
        ("owned", "count", "free", "cpus"),
        [
            ("0-1", 4, "2,4-7", "0-1,4-5"),
            ("0-1", 3, "2,4-7", "0-2"),
            ("0-1", 4, "2,4,6,8-15", "0-2,4"),
            ("0,2", 4, "1,3-15", "0-3"),
        ],
        ids=["core-before-thread", "thread-before-breaking", "node-before-core", "its-own-cores-first"],
    )
    def test_whole_cores_go_before_threads_and_both_before_another_node(self, owned, count, free, cpus):
        assert grown(owned, count, free) == cpus

    def test_a_core_is_broken_where_it_is_broken_already(self):
        assert grown("0-1", 3, "2-5,7") == "0-2"
        assert grown("0-1", 3, "4-5,7") == "0-1,7"

    @pytest.mark.parametrize("count", [2, 1, 0], ids=["as-many", "fewer", "none"])
    def test_what_does_not_grow_is_no_growth(self, count):
        assert grant("0-1", count, "2-15") is None

    def test_more_than_is_free_cannot_be_had(self):
        assert grant("0-1", 5, "2-3") is None


class TestGrowthByWishes:
    @pytest.mark.parametrize(
        ("by", "owned", "count", "free", "cpus"),
        [
            (wish(placement=Placement.FULL_CORES), "0-1", 4, "2,4,8-15", "0-1,8-9"),
            (wish(placement=Placement.ONE_THREAD_PER_CORE), "0", 3, "1-15", "0,2,4"),
            (wish(placement=Placement.SPREAD), "0", 3, "1-15", "0,4,8"),
            (wish(placement=Placement.SPREAD, numa=Numa.SINGLE), "0", 3, "1-15", "0,2,4"),
            (wish(numa=Numa.SINGLE), "0-1", 4, "7-15", "0-1,7-8"),
            (wish(numa=Numa.SINGLE, numa_ids=0b10), "0-1", 4, "2-15", "0-1,8-9"),
            (wish(numa=Numa.SINGLE, numa_ids=0b10), "0-1", 4, "2-8", "0-3"),
            (wish(numa=Numa.SINGLE, numa_ids=0b10), "0-1", 4, "2-9", "0-1,8-9"),
            (wish(numa=Numa.EXCLUSIVE), "0-7", 10, "8-15", "0-9"),
            (wish(numa=Numa.EXCLUSIVE), "0-7", 10, "8-14", "0-7,12-13"),
            (wish(cpus_ordered=0b1100_0000), "0-1", 4, "2-15", "0-1,6-7"),
            (wish(cpus_ordered=0b1100_0000), "0-1", 6, "2-15", "0-5"),
        ],
        ids=[
            "full-cores",
            "one-thread-per-core",
            "spread",
            "spread-in-a-node",
            "single-overflows",
            "listed-nodes",
            "listed-nodes-too-small",
            "listed-nodes-just-enough",
            "whole-nodes",
            "no-whole-node",
            "ordered",
            "ordered-too-few",
        ],
    )
    def test_a_wish_steers_it(self, by, owned, count, free, cpus):
        assert grown(owned, count, free, by) == cpus

    @pytest.mark.parametrize(
        ("by", "count", "free"),
        [
            (wish(placement=Placement.FULL_CORES), 4, "2,4,6"),
            (wish(placement=Placement.ONE_THREAD_PER_CORE), 4, "2,4-5"),
        ],
        ids=["no-whole-core", "no-second-core"],
    )
    def test_a_placement_that_cannot_be_had_is_no_growth(self, by, count, free):
        assert grant("0-1", count, free, by) is None

    def test_even_parts_stay_even(self):
        even = wish(numa=Numa.SINGLE, numa_count=2)
        assert grown("0-1,8-9", 8, "2-7,10-15", even) == "0-3,8-11"
        assert grown("0-1,8-9", 5, "2-7,10-15", even) == "0-2,8-9"

    @pytest.mark.parametrize(
        ("owned", "count", "free", "cpus"),
        [
            ("0-1,8-9", 8, "2-7,15", "0-5,8-9"),
            ("0-3,8-9", 7, "4-7,10-15", "0-3,8-10"),
            ("0-3,8", 6, "4-7,9-15", "0-3,8-9"),
            ("0-1", 4, "2-15", "0-3"),
        ],
        ids=["a-node-is-full", "evened-out", "one-has-too-many", "on-another-number-of-nodes"],
    )
    def test_parts_that_cannot_be_even_are_near(self, owned, count, free, cpus):
        assert grown(owned, count, free, wish(numa=Numa.SINGLE, numa_count=2)) == cpus

    def test_the_larger_part_of_an_odd_count_stays_the_larger(self):
        even = wish(numa=Numa.SINGLE, numa_count=2)
        assert grown("0-1,8-10", 7, "2-7,11-15", even) == "0-2,8-11"

    def test_even_parts_stay_even_on_their_nodes(self):
        assert grown("0-1,8-9", 6, "2-7,10-15", wish(numa=Numa.SINGLE, evenly=True)) == "0-2,8-10"
        assert grown("0-1,8-9", 6, "2-7,10-15", wish(numa=Numa.SINGLE)) == "0-3,8-9"

    def test_one_socket_goes_before_whole_cores(self):
        on = machine("4node")
        one = wish(numa=Numa.SINGLE, one_socket=True)
        assert grown("0-3", 6, "5,7-15", wish(numa=Numa.SINGLE), on) == "0-3,8-9"
        assert grown("0-3", 6, "5,7-15", one, on) == "0-3,5,7"
        assert grown("0-3", 6, "5,8-15", one, on) == "0-3,8-9"

    def test_whole_nodes_grow_by_whole_nodes(self):
        on = machine("4node")
        assert grown("0-3", 8, "5-15", wish(numa=Numa.EXCLUSIVE), on) == "0-3,8-11"
        assert grown("0-3", 8, "5-15", wish(numa=Numa.SINGLE), on) != "0-3,8-11"

    def test_even_parts_that_the_placement_forbids_are_near(self):
        both = wish(numa=Numa.SINGLE, numa_count=2, placement=Placement.FULL_CORES)
        assert grown("0-1,8-9", 6, "2-7,10-15", both) == "0-3,8-9"


class TestWhatIsKept:
    @pytest.mark.parametrize(
        ("owned", "count", "kept"),
        [
            ("0-7", 4, "0-3"),
            ("0-3", 2, "0-1"),
            ("0-1", 1, "0"),
            ("0-9", 8, "0-7"),
            ("0-9", 9, "0-8"),
            ("0-9", 4, "0-3"),
            ("2-3,8-15", 2, "8-9"),
            ("0-5", 4, "0-3"),
            ("0-3,5", 4, "0-3"),
            ("0-2", 2, "0-1"),
            ("0-2", 1, "2"),
            ("0-5", 3, "0-2"),
            ("1,3,5,7", 2, "1,3"),
        ],
        ids=[
            "an-L3",
            "a-core",
            "a-thread",
            "the-small-part-goes",
            "a-part-of-it",
            "and-more",
            "the-larger-node-stays",
            "the-larger-L3-stays",
            "a-thread-elsewhere-goes",
            "a-broken-core-goes",
            "a-whole-core-goes-first",
            "odd",
            "no-core-is-whole",
        ],
    )
    def test_it_is_one_place_and_whole_cores_come_back(self, owned, count, kept):
        assert shrunk(owned, count) == kept

    def test_the_lower_of_two_equal_nodes_is_kept(self):
        assert shrunk("0-3,8-11", 4) == "0-3"

    def test_what_was_spread_stays_spread(self):
        assert shrunk("0,4,8,12", 2, wish(placement=Placement.SPREAD)) == "0,8"

    def test_even_parts_stay_even(self):
        even = wish(numa=Numa.SINGLE, numa_count=2)
        assert shrunk("0-3,8-11", 4, even) == "0-1,8-9"
        assert shrunk("0-6,8", 4, even) == "0-3"

    def test_full_cores_are_divided_only_if_no_others_add_up(self):
        by = wish(placement=Placement.FULL_CORES)
        assert shrunk("2,4-5", 1, by, machine("offline")) == "2"
        assert shrunk("4-5", 1, by, machine("offline")) == "4"

    def test_a_smaller_set_is_shrunk(self):
        found = allocator.shrink(groups(), mask("0-3"), 2, wish(numa=Numa.SINGLE))
        assert (found.reason.value, found.cpus) == ("shrunk", 0b11)


class TestFit:
    @pytest.mark.parametrize(
        ("count", "cpus"), [(2, "0-1"), (3, "0-2"), (5, "0-4")], ids=["less", "same", "more"]
    )
    def test_it_overlaps_what_was_owned_as_far_as_can_be(self, count, cpus):
        found = allocator.fit(groups(), mask("3-15"), mask("0-2"), count, DEDICATED)
        assert found is not None
        assert cpuset.render(found.cpus) == cpus


WISHES = st.builds(
    wish,
    placement=st.sampled_from(Placement),
    numa=st.sampled_from(Numa),
    numa_count=st.sampled_from((0, 2)),
    numa_ids=st.sampled_from((0, 1, 2)),
)


class TestOnAnyMachine:
    @given(topology=TOPOLOGIES, data=st.data(), by=WISHES)
    def test_growth_keeps_everything_and_takes_only_what_is_free(self, topology, data, by):
        cpus = list(cpuset.members(topology.usable))
        owned = cpuset.of(data.draw(st.lists(st.sampled_from(cpus), min_size=1, unique=True)))
        free = topology.usable & ~owned
        count = owned.bit_count() + data.draw(st.integers(1, 8))
        found = allocator.grow(topology, free, owned, count, by)
        if found is None:
            whole = by.placement in (Placement.FULL_CORES, Placement.ONE_THREAD_PER_CORE)
            assert whole or free.bit_count() < count - owned.bit_count()
            return
        assert found.cpus & owned == owned
        assert found.cpus & ~owned & ~free == 0
        assert found.cpus.bit_count() == count

    @given(topology=TOPOLOGIES, data=st.data(), by=WISHES)
    def test_shrinking_keeps_so_many_of_its_own(self, topology, data, by):
        cpus = list(cpuset.members(topology.usable))
        owned = cpuset.of(data.draw(st.lists(st.sampled_from(cpus), min_size=1, unique=True)))
        count = data.draw(st.integers(1, owned.bit_count()))
        kept = allocator.shrink(topology, owned, count, by).cpus
        assert kept & ~owned == 0
        assert kept.bit_count() == count


def test_it_works_on_a_machine_without_levels():
    assert grown("0", 2, "1", on=machine("2cpu")) == "0-1"
