"""placing/allocator.py: a dedicated container gets CPUs, with a sentence that explains them.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. "768": node 0 has 0-191 and their siblings 384-575.
"""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.reasons import Reason
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Numa, Placement, Wish
from nri_coloc.placing import allocator
from nri_coloc.placing.allocator import Grant
from tests.unit.placing.kit import DEDICATED, machine, mask


def wish(**values: Any) -> Wish:
    return replace(DEDICATED, **values)


def grant(count: int, free: str = "0-7", on: str = "8cpu", by: Wish = DEDICATED) -> Grant:
    found = allocator.allocate(machine(on), mask(free), count, by)
    assert found is not None
    return found


def chosen(count: int, free: str = "0-7", on: str = "8cpu", by: Wish = DEDICATED) -> str:
    return cpuset.render(grant(count, free, on, by).cpus)


class TestHowManyCanBeHad:
    @pytest.mark.parametrize("count", [9, 0, -1], ids=["too-many", "none", "absurd"])
    def test_what_cannot_be_had_is_none(self, count):
        assert allocator.allocate(machine(), mask("0-7"), count, DEDICATED) is None

    def test_all_that_is_free_can_be_had(self):
        assert chosen(8) == "0-7"

    def test_nothing_is_to_be_had_of_an_empty_set(self):
        assert allocator.allocate(machine(), 0, 1, DEDICATED) is None


class TestPacked:
    @pytest.mark.parametrize(
        ("count", "free", "cpus"),
        [
            (2, "0-7", "0-1"),
            (2, "1-7", "2-3"),
            (1, "0-2,4-7", "2"),
            (1, "0-7", "0"),
            (3, "0-7", "0-2"),
            (2, "1,3-7", "4-5"),
            (2, "1,3,5,7", "1,3"),
            (4, "1-7", "4-7"),
            (6, "0-7", "0-5"),
            (4, "0-2,4-6", "0-1,4-5"),
            (3, "0-1,4-7", "4-6"),
        ],
        ids=[
            "a-whole-core",
            "past-a-broken-core",
            "a-broken-core-for-one",
            "the-lowest-for-one",
            "a-core-and-a-thread",
            "whole-on-another-node",
            "threads-of-one-node",
            "the-node-that-holds-it",
            "a-node-and-a-core",
            "whole-cores-of-two-nodes",
            "one-node-where-it-fits",
        ],
    )  # fmt: skip - one line each would hide the table
    def test_cpus_are_taken_as_whole_as_they_can_be(self, count, free, cpus):
        assert chosen(count, free) == cpus

    def test_the_tightest_node_that_holds_it_is_taken(self):
        assert chosen(2, "0-3,6-7") == "6-7"

    def test_the_tightest_l3_group_that_holds_it_is_taken(self):
        free = cpuset.render(machine("768").usable & ~mask("16,400"))
        assert chosen(2, free, "768") == "17,401"

    def test_one_cpu_takes_a_single_thread_core_first(self):
        assert chosen(1, "0-2,4-5", "offline") == "2"

    def test_siblings_need_not_be_neighbours(self):
        assert chosen(2, "0-7", "laptop-no-numa") == "0,4"

    def test_ids_may_have_holes(self):
        assert chosen(4, "0-1,64-65,1024-1025,4094-4095", "sparse") == "0-1,64-65"


def test_a_node_is_whole_without_its_isolated_cpus():
    # "isolated": CPUs 2-3 of node 0 are isolated
    found = allocator.allocate(machine("isolated"), mask("0-1,4-5,7"), 2, DEDICATED)
    assert found is not None
    assert (found.cpus, found.reason) == (mask("0-1"), Reason.WHOLE_NODE)


class TestFullCores:
    BY = wish(placement=Placement.FULL_CORES)

    def test_only_whole_cores_are_taken(self):
        assert chosen(2, "1-2,4-7", by=self.BY) == "4-5"

    def test_there_may_be_none(self):
        assert allocator.allocate(machine(), mask("0,2,4,6"), 2, self.BY) is None


class TestOneThreadPerCore:
    BY = wish(placement=Placement.ONE_THREAD_PER_CORE)

    def test_each_cpu_is_of_a_core_of_its_own(self):
        assert chosen(2, by=self.BY) == "0,2"

    def test_a_core_that_is_partly_used_does_not_serve(self):
        assert chosen(2, "1-7", by=self.BY) == "4,6"

    def test_there_may_be_too_few_cores(self):
        assert allocator.allocate(machine(), mask("0-7"), 5, self.BY) is None


class TestSpread:
    BY = wish(placement=Placement.SPREAD)

    @pytest.mark.parametrize(
        ("count", "cpus"), [(1, "0"), (2, "0,4"), (4, "0,2,4,6"), (5, "0-2,4,6")], ids=["1", "2", "4", "5"]
    )
    def test_nodes_then_cores_take_turns(self, count, cpus):
        assert chosen(count, by=self.BY) == cpus

    def test_the_emptier_node_comes_first(self):
        assert chosen(1, "0,4-7", by=self.BY) == "4"


class TestNuma:
    def test_listed_nodes_are_kept_to(self):
        assert chosen(2, by=wish(numa=Numa.SINGLE, numa_ids=0b10)) == "4-5"

    def test_a_list_without_a_binding_says_nothing(self):
        assert chosen(2, by=wish(numa_ids=0b10)) == "0-1"

    @pytest.mark.parametrize("ids", [0b100, 1 << 4000], ids=["missing", "absurd"])
    def test_listed_nodes_that_cannot_hold_it_do_not_count(self, ids):
        assert chosen(2, by=wish(numa=Numa.SINGLE, numa_ids=ids)) == "0-1"

    def test_what_no_node_holds_is_taken_over_nodes(self):
        assert chosen(6, by=wish(numa=Numa.SINGLE)) == "0-5"

    def test_a_number_of_nodes_gets_even_parts(self):
        assert chosen(4, by=wish(numa=Numa.SINGLE, numa_count=2)) == "0-1,4-5"

    def test_an_odd_count_gives_the_first_node_one_more(self):
        assert chosen(3, by=wish(numa=Numa.SINGLE, numa_count=2)) == "0-1,4"

    def test_parts_may_be_spread_too(self):
        by = wish(numa=Numa.SINGLE, numa_count=2, placement=Placement.SPREAD)
        assert chosen(4, by=by) == "0,2,4,6"

    @pytest.mark.parametrize("count", [3, 10**12], ids=["more-than-nodes", "absurd"])
    def test_a_number_of_nodes_that_cannot_be_had_does_not_count(self, count):
        assert chosen(4, by=wish(numa=Numa.SINGLE, numa_count=count)) == "0-3"

    def test_more_nodes_than_cpus_do_not_count(self):
        assert chosen(1, by=wish(numa=Numa.SINGLE, numa_count=2)) == "0"

    def test_exclusive_nodes_are_taken_whole(self):
        assert chosen(4, "0-7", by=wish(numa=Numa.EXCLUSIVE)) == "0-3"
        assert chosen(4, "1-7", by=wish(numa=Numa.EXCLUSIVE)) == "4-7"

    def test_without_a_whole_free_node_what_is_free_serves(self):
        assert chosen(2, "1-6", by=wish(numa=Numa.EXCLUSIVE)) == "2-3"

    def test_isolated_cpus_do_not_break_a_whole_node(self):
        assert chosen(2, "0-1,4-5,7", "isolated", wish(numa=Numa.EXCLUSIVE)) == "0-1"


def test_a_machine_that_knows_no_levels_still_serves():
    flat = Topology.build([CPU(n) for n in range(4)])
    found = allocator.allocate(flat, 0b1110, 2, DEDICATED)
    assert found is not None
    assert found.cpus == 0b0110


class TestKinds:
    """Machine "hybrid": cores of two threads 0-15, of one 16-23. "three-kinds": 7 is the fastest, 4-6, then 0-3."""

    @pytest.mark.parametrize(
        ("count", "free", "cpus", "words"),
        [
            (1, "0-23", "0", "on its fastest cores"),
            (4, "12-15,16-23", "12-15", "on its fastest cores"),
            (6, "12-15,16-23", "16-21", "on cores of kind 1, where kind 0 is fastest"),
            (10, "12-15,16-23", "12-21", "on cores of several kinds, because no kind has enough"),
        ],
        ids=["fastest", "all-of-the-fastest", "one-kind", "several"],
    )
    def test_kinds_are_mixed_only_if_necessary(self, count, free, cpus, words):
        found = grant(count, free, "hybrid")
        assert cpuset.render(found.cpus) == cpus
        assert words in found.because

    def test_the_fastest_may_have_the_highest_id(self):
        assert chosen(1, "0-7", "three-kinds") == "7"
        assert chosen(3, "0-7", "three-kinds") == "4-6"

    def test_whole_cores_are_counted_by_kind_too(self):
        by = wish(placement=Placement.FULL_CORES)
        assert chosen(4, "1-3,5-15,16-23", "hybrid", by) == "2-3,6-7"
        assert chosen(2, "1,3,16-23", "hybrid", by) == "16-17"

    @pytest.mark.parametrize(
        ("count", "free", "cpus"),
        [
            (3, "0-23", "16-18"),
            (3, "0-16", "0-1,16"),
            (1, "0-16", "16"),
            (5, "2-7,17", "2-5,17"),
        ],
        ids=["one kind", "both kinds", "a narrow core", "the last narrow core"],
    )
    def test_whole_cores_of_two_widths_add_up(self, count, free, cpus):
        assert chosen(count, free, "hybrid", wish(placement=Placement.FULL_CORES)) == cpus

    def test_no_whole_cores_that_add_up_are_no_grant(self):
        by = wish(placement=Placement.FULL_CORES)
        assert allocator.allocate(machine("hybrid"), mask("0-15"), 3, by) is None

    def test_growth_by_an_odd_cpu_is_a_narrow_core(self):
        by = wish(placement=Placement.FULL_CORES)
        found = allocator.grow(machine("hybrid"), mask("2-23"), mask("0-1"), 3, by)
        assert found is not None
        assert cpuset.render(found.cpus) == "0-1,16"

    def test_no_growth_divides_a_core(self):
        by = wish(placement=Placement.FULL_CORES)
        assert allocator.grow(machine("hybrid"), mask("2-15"), mask("0-1"), 3, by) is None


def test_growth_within_a_node_names_no_other():
    found = allocator.grow(machine(), mask("2-7"), mask("0-1"), 4, DEDICATED)
    assert found is not None
    assert found.because.endswith("added the nearest free CPUs 2-3")


def test_second_threads_do_not_make_a_node_large_enough():
    found = grant(3, by=wish(placement=Placement.ONE_THREAD_PER_CORE))
    assert (cpuset.render(found.cpus), found.reason) == ("0,2,4", Reason.ACROSS_NODES)
    assert "because no single node has 3 fitting free CPUs" in found.because
