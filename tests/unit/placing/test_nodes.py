"""placing/nodes.py: a bound container gets memory nodes; if none fit, a part of the wish is given up.

"4node": two sockets, four nodes of two cores, 0-3, 4-7 and 8-11, 12-15. "8cpu": nodes 0-3 and 4-7, a socket each.
"""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Room
from nri_coloc.core.reasons import Reason
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Numa, Placement
from nri_coloc.placing import allocator
from nri_coloc.placing.allocator import Grant
from tests.unit.placing.kit import DEDICATED, machine, mask

SINGLE = replace(DEDICATED, numa=Numa.SINGLE)
EXCLUSIVE = replace(DEDICATED, numa=Numa.EXCLUSIVE)


def grant(count: int, free: str, wish: Any = SINGLE, room: Room | None = None, on: str = "4node") -> Grant:
    found = allocator.allocate(machine(on), mask(free), count, wish, room or Room())
    assert found is not None
    return found


def left(asked: int, *by_node: int) -> Room:
    return Room(asked, tuple(enumerate(by_node)))


def got(count: int, free: str, wish: Any = SINGLE, room: Room | None = None) -> tuple[str, str]:
    """Return CPUs and memory nodes, as text."""
    found = grant(count, free, wish, room)
    return cpuset.render(found.cpus), cpuset.render(found.mems)


class TestOneNode:
    def test_cpus_and_memory_are_of_the_tightest_node(self):
        assert got(2, "0-15") == ("0-1", "0")
        assert got(2, "0-13") == ("12-13", "3")

    def test_without_a_binding_memory_may_lie_anywhere(self):
        assert got(2, "0-15", DEDICATED) == ("0-1", "")

    def test_a_node_whose_memory_is_promised_is_passed_over(self):
        assert got(2, "0-15", room=left(5, 4, 5, 9, 9)) == ("4-5", "1")

    def test_spread_binds_to_the_emptiest_node(self):
        assert got(2, "0-6,8-10", replace(SINGLE, placement=Placement.SPREAD)) == ("0,2", "0")

    def test_nodes_that_split_a_core_are_chosen_by_their_cpus(self):
        odd = Topology.build([CPU(n, 0, n % 2, "x", f"c{n // 2}") for n in range(6)], {0: 9, 1: 9})
        found = allocator.allocate(odd, 0b111101, 2, SINGLE)
        assert found is not None
        assert (found.cpus, found.mems) == (0b101000, 0b10)

    def test_a_machine_that_tells_no_memory_has_enough(self):
        flat = Topology.build([CPU(n, node=n // 2) for n in range(4)])
        found = allocator.allocate(flat, 0b1111, 2, SINGLE, Room(1 << 40))
        assert found is not None
        assert (found.cpus, found.mems) == (0b0011, 0b01)


class TestSeveralNodes:
    """The nodes are of one socket if one has enough."""

    def test_one_node_that_was_asked_for_is_said_to_be_missed(self):
        one = grant(8, "0-15", replace(EXCLUSIVE, numa_count=1))
        assert one.because.endswith("; wishes not met: one node")
        assert "wishes not met" not in grant(8, "0-15", EXCLUSIVE).because

    @pytest.mark.parametrize(
        ("count", "free", "cpus", "mems"),
        [
            (4, "0-15", "0-1,4-5", "0-1"),
            (4, "3-15", "8-9,12-13", "2-3"),
            (4, "0-3,8-11", "0-1,8-9", "0,2"),
            (6, "0-15", "0-3,4-5", "0-1"),
            (5, "0-15", "0-2,4-5", "0-1"),
            (3, "0-15", "0-1,4", "0-1"),
        ],
        ids=["even", "the-other-socket", "across-sockets", "a-core-more", "a-thread-more", "by-threads"],
    )
    def test_a_number_of_nodes_gets_even_parts(self, count, free, cpus, mems):
        found = got(count, free, replace(SINGLE, numa_count=2))
        assert found == (cpuset.render(mask(cpus)), mems)

    def test_memory_is_divided_as_well(self):
        assert got(4, "0-15", replace(SINGLE, numa_count=2), left(8, 3, 9, 4, 4)) == ("8-9,12-13", "2-3")

    def test_three_of_four_are_filled_up_from_the_fuller_socket(self):
        assert got(6, "0-15", replace(SINGLE, numa_count=3)) == ("0-1,4-5,8-9", "0-2")

    def test_large_requests_take_the_fewest_nodes_of_a_socket(self):
        found = grant(6, "0-2,4-15")
        assert (cpuset.render(found.cpus), cpuset.render(found.mems)) == ("0-1,4-7", "0-1")
        assert found.lost == ("one node",)
        assert found.reason is Reason.ACROSS_NODES

    def test_what_no_socket_holds_is_taken_from_both(self):
        assert got(10, "0-15") == ("0-9", "0-2")

    def test_much_memory_takes_two_nodes_even_for_few_cpus(self):
        found = grant(2, "0-15", room=left(12, 8, 8, 5, 5))
        assert (cpuset.render(found.cpus), cpuset.render(found.mems)) == ("0-1", "0-1")
        assert found.lost == ("one node",)

    def test_if_cpus_do_not_matter_most_memory_wins(self):
        assert got(2, "0-10,12-15", room=left(20, 1, 2, 15, 5))[1] == "2-3"
        assert got(2, "0-15", room=left(20, 1, 2, 9, 14)) == ("8-9", "2-3")

    def test_a_node_that_is_not_needed_is_left_out(self):
        assert got(2, "0-15", room=left(15, 1, 8, 8, 1)) == ("4-5", "1-2")

    @pytest.mark.parametrize("number", [5, 17], ids=["more-than-nodes", "more-than-cpus"])
    def test_a_number_that_cannot_be_had_is_given_up(self, number):
        found = grant(2, "0-15", replace(SINGLE, numa_count=number))
        assert cpuset.render(found.cpus) == "0-1"
        assert found.lost == ("numa-count",)

    def test_too_few_nodes_with_enough_give_the_number_up_too(self):
        assert got(6, "0-3,4,8,12", replace(SINGLE, numa_count=2)) == ("0-4,8", "0-2")

    def test_one_node_by_number_is_one_node(self):
        found = grant(6, "0-15", replace(SINGLE, numa_count=1))
        assert found.lost == ("one node",)


TWO = replace(SINGLE, numa_count=2)


class TestEvenParts:
    """On two sockets of two nodes each, the nodes are of one socket, and the parts as even as possible."""

    @pytest.mark.parametrize("count", range(2, 9))
    def test_two_nodes_of_one_socket_differ_by_less_than_a_core(self, count):
        for evenly in (False, True):
            found = grant(count, "0-15", replace(TWO, evenly=evenly))
            parts = sorted((found.cpus & mask(node)).bit_count() for node in ("0-3", "4-7"))
            assert sum(parts) == count
            assert parts[1] - parts[0] <= (1 if evenly or count < 4 else 2)
            assert parts[1] - parts[0] < 2 or not count % 2

    @pytest.mark.parametrize(
        ("count", "by_default", "evenly"),
        [(6, "0-3,4-5", "0-2,4-6"), (2, "0,4", "0,4"), (7, "0-3,4-6", "0-3,4-6"), (8, "0-7", "0-7")],
        ids=["a-core-more", "by-threads", "odd", "whole-nodes"],
    )
    def test_only_equal_to_the_cpu_breaks_a_core(self, count, by_default, evenly):
        assert mask(got(count, "0-15", TWO)[0]) == mask(by_default)
        assert mask(got(count, "0-15", replace(TWO, evenly=True))[0]) == mask(evenly)

    def test_whole_cores_that_were_wished_stay_whole(self):
        cores = replace(TWO, evenly=True, placement=Placement.FULL_CORES)
        assert mask(got(6, "0-15", cores)[0]) == mask("0-5")

    def test_a_node_that_holds_a_smaller_part_gets_that(self):
        assert got(5, "0-1,4-7", TWO) == ("0-1,4-6", "0-1")
        assert got(5, "0-3,4-5,8-15", TWO) == ("0-2,4-5", "0-1")

    def test_three_nodes_leave_a_socket_only_if_needed(self):
        assert got(7, "0-3,5,8-15", replace(SINGLE, numa_count=3)) == ("0-2,8-9,12-13", "0,2-3")
        assert got(5, "0,4-7,8-9,12", replace(SINGLE, numa_count=3)) == ("0,4-5,8-9", "0-2")

    def test_without_a_number_even_parts_take_fewest_nodes(self):
        even = replace(SINGLE, evenly=True)
        assert got(2, "0-15", even) == ("0-1", "0")
        assert got(6, "0-15", even) == ("0-2,4-6", "0-1")
        assert got(10, "0-15", even) == ("0-6,8-10", "0-2")
        assert got(6, "0-15", replace(even, numa=Numa.NONE)) == got(6, "0-15", DEDICATED)

    def test_even_parts_that_cannot_be_had_are_given_up_and_said(self):
        found = grant(7, "0-3,4,8,12", replace(SINGLE, evenly=True))
        assert cpuset.render(found.cpus) == "0-4,8,12"
        assert found.lost == ("one node", "even parts")


class TestOneSocket:
    WISH = replace(TWO, one_socket=True)

    def test_it_goes_before_the_number_of_nodes(self):
        assert got(4, "0-3,8-11", TWO) == ("0-1,8-9", "0,2")
        found = grant(4, "0-3,8-11", self.WISH)
        assert (cpuset.render(found.cpus), cpuset.render(found.mems)) == ("0-3", "0")
        assert found.lost == ("numa-count",)

    def test_it_goes_before_even_parts(self):
        found = grant(5, "0-3,4,8-11", replace(self.WISH, evenly=True))
        assert cpuset.render(found.cpus) == "0-4"
        assert found.lost == ("numa-count", "even parts")

    def test_what_no_socket_holds_goes_across_and_that_is_said(self):
        found = grant(4, "0-1,8-9", self.WISH)
        assert (cpuset.render(found.cpus), cpuset.render(found.mems)) == ("0-1,8-9", "0,2")
        assert found.lost == ("one socket",)


class TestWholeNodes:
    def test_only_nodes_of_which_nobody_owns_a_cpu_are_taken(self):
        assert got(4, "1-15", EXCLUSIVE) == ("4-7", "1")

    def test_a_cpu_that_is_reserved_does_not_break_a_node(self):
        found = grant(3, "1-15", EXCLUSIVE, Room(ownable=mask("1-15")))
        assert cpuset.render(found.cpus) == "1-3"
        assert found.lost == ()

    def test_several_are_owned_without_giving_anything_up(self):
        found = grant(8, "1-15", EXCLUSIVE)
        assert cpuset.render(found.cpus) == "8-15"
        assert found.lost == ()

    def test_without_enough_of_them_any_serve(self):
        found = grant(4, "0-2,4-6,8-11", EXCLUSIVE, left(4, 9, 9, 3, 9))
        assert found.lost == ("numa exclusive",)


class TestLists:
    def test_listed_nodes_are_kept_to(self):
        assert got(2, "0-15", replace(SINGLE, numa_ids=0b0110)) == ("4-5", "1")

    def test_several_of_the_list_serve_together(self):
        assert got(6, "0-15", replace(SINGLE, numa_ids=0b1010)) == ("4-7,12-13", "1,3")

    def test_a_list_goes_before_memory(self):
        found = grant(2, "0-15", replace(SINGLE, numa_ids=0b10), left(5, 9, 4, 9, 9))
        assert (cpuset.render(found.cpus), found.mems, found.reason) == ("4-5", 0, Reason.MEMORY_UNBOUND)
        assert found.lost == ("memory",)

    def test_a_list_that_has_too_few_cpus_is_given_up(self):
        found = grant(6, "0-15", replace(SINGLE, numa_ids=0b10))
        assert found.lost == ("numa-ids", "one node")

    def test_a_list_of_nodes_that_do_not_exist_is_given_up(self):
        assert got(2, "0-15", replace(SINGLE, numa_ids=1 << 900)) == ("0-1", "0")


class TestMemory:
    def test_more_than_the_machine_has_is_not_bound(self):
        found = grant(2, "0-15", room=left(99, 8, 8, 8, 8))
        assert (cpuset.render(found.cpus), found.mems) == ("0-1", 0)
        assert found.reason is Reason.MEMORY_UNBOUND
        assert found.lost == ("memory",)

    def test_a_node_without_memory_binds_nobody(self):
        found = grant(2, "4-7", on="node-without-memory")
        assert (cpuset.render(found.cpus), found.mems, found.reason) == ("4-5", 0, Reason.MEMORY_UNBOUND)

    def test_a_node_with_memory_goes_before_a_tighter_one_without(self):
        found = grant(2, "0-5", on="node-without-memory")
        assert (cpuset.render(found.cpus), found.mems) == ("0-1", 1)
