"""placing/search.py: the narrowest group that holds a request is found, and CPUs are taken evenly from several.

"l3-in-a-node": two sockets, a node each, with four L3 groups of two cores; siblings are 16 apart: 0,16 is a core.
"four-threads": two nodes of two L3 groups of two cores of four threads: 0-3 is a core, 0-7 an L3 group.
"""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.placing import search
from nri_coloc.placing.search import Field
from tests.unit.placing.kit import machine, mask


def packed(count: int, free: str, on: str = "l3-in-a-node") -> str:
    return cpuset.render(search.packed(Field.of(machine(on), mask(free)), count))


def spread(count: int, free: str, on: str = "l3-in-a-node") -> str:
    return cpuset.render(search.spread(Field.of(machine(on), mask(free)), count))


@pytest.mark.parametrize(
    ("count", "free", "cpus"),
    [
        (4, "0-31", "0-1,16-17"),
        (4, "1-15,16-31", "2-3,18-19"),
        (2, "1-15,17-31", "1,17"),
        (8, "0-31", "0-3,16-19"),
        (8, "0-1,4-6,16-17,20-22,8-31", "0-1,4-5,16-17,20-21"),
        (3, "0-31", "0-1,16"),
        (6, "0,2-7,16-23", "0,2-3,16,18-19"),
        (5, "2-7,18-23", "2-4,18-19"),
        (1, "0-15,16-30", "15"),
        (1, "0-31", "0"),
    ],
    ids=[
        "an-l3-group",
        "past-a-broken-one",
        "what-is-left-of-one",
        "two-of-a-node",
        "the-node-with-whole-cores-holds-it",
        "a-core-and-a-thread",
        "whole-cores-of-several",
        "an-odd-one-beside",
        "of-a-broken-core",
        "of-any",
    ],
)  # fmt: skip - one line each would hide the table
def test_cpus_lie_as_close_as_they_can(count, free, cpus):
    assert packed(count, free) == cpus


def test_a_holding_group_precedes_a_tighter_node_without():
    # node 0 has a core in each of its groups, node 1 is idle
    assert packed(4, "0,2,4,6,16,18,20,22,8-15,24-31") == "8-9,24-25"


def test_threads_of_one_node_go_before_whole_cores_of_two():
    assert packed(6, "0,2-9,16,24-25") == "0,2-5,16"


def test_an_odd_thread_is_near_the_whole_cores():
    # core 0 in another L3 group has a free thread too, and a lower one
    assert packed(5, "0,2-4,18,20") == "2-4,18,20"


def test_dies_divide_a_node():
    assert packed(8, "0-1,4-15", "dies-in-a-node") == "8-15"


def test_sockets_hold_what_no_node_does():
    assert packed(6, "0-2,4-6,16-18,20-23", "dies") == "16-17,20-23"
    assert packed(6, "0-1,4-7,16-31", "dies") == "0-1,4-7"


class TestFourThreads:
    @pytest.mark.parametrize(
        ("count", "free", "cpus"),
        [
            (4, "0-31", "0-3"),
            (1, "2-31", "2"),
            (1, "1-3,6-31", "6"),
            (5, "0-7", "0-4"),
            (2, "0-2,4-5,8-31", "4-5"),
            (6, "0-3,5,9-15", "9-10,12-15"),
            (5, "1-3,5-7", "1-3,5-6"),
            (3, "1-2,5-6", "1-2,5"),
        ],
        ids=[
            "core",
            "broken",
            "most-broken",
            "a-thread-more",
            "two",
            "group",
            "threads",
            "most-broken-first",
        ],
    )
    def test_a_core_has_four(self, count, free, cpus):
        assert packed(count, free, "four-threads") == cpus


def test_cores_of_two_widths_make_up_what_they_can():
    odd = Topology.build([*(CPU(n, core="a") for n in (0, 1, 2)), *(CPU(n, core="b") for n in (3, 4))])
    assert search.packed(Field.of(odd, 0b11111), 3) == 0b00111
    pairs = [CPU(n, core=f"c{n // 2}", l3="x") for n in range(4)]
    wide = Topology.build([*pairs, *(CPU(n, core="w", l3="y") for n in (7, 8, 9))])
    assert search.packed(Field.of(wide, 0b1111), 3) == 0b0111


def test_a_machine_without_a_level_to_search_serves():
    odd = Topology.build([CPU(0, 0, 0, "x", "a"), CPU(1, 0, 1, "x", "a"), CPU(2, 0, 0, "x", "b")])
    assert search.packed(Field.of(odd, 0b111), 1) == 0b100
    field = Field.of(odd, 0b110)
    assert search.packed(Field(odd, 0b111, 0b011, 2), 1) == 0b100
    assert search.spread(field, 2) == 0b110


def test_part_of_a_field_may_cut_cores():
    field = Field.of(machine(), 0xFF).within(0b0111)
    assert (field.free, field.whole) == (0b0111, 0b0011)


class TestSpread:
    @pytest.mark.parametrize(
        ("count", "free", "cpus"),
        [
            (1, "0-31", "0"),
            (2, "0-31", "0,8"),
            (8, "0-31", "0,2,4,6,8,10,12,14"),
            (3, "0-7,16-23,8", "0,2,4"),
            (17, "0-31", "0-15,16"),
        ],
        ids=["one", "sockets", "groups", "where-most-is-left", "threads-last"],
    )
    def test_groups_take_turns(self, count, free, cpus):
        assert spread(count, free) == cpuset.render(mask(cpus))


@pytest.mark.parametrize(
    ("sizes", "count", "shares"),
    [
        ([4, 4], 3, [2, 1]),
        ([1, 4], 3, [0, 3]),
        ([1, 4], 4, [1, 3]),
        ([2, 2, 2], 6, [2, 2, 2]),
        ([3, 1, 3], 0, [0, 0, 0]),
    ],
    ids=["first-more", "the-larger", "level", "all", "none"],
)
def test_what_is_left_is_level(sizes, count, shares):
    assert search.levelled(sizes, count) == shares


def test_the_picture_of_docs_placement_is_true():
    """Two nodes of two L3 groups of four cores; core n is CPUs 2n and 2n + 1."""
    cpus = [CPU(n, 0, n // 16, f"l3-{n // 8}", f"c{n // 2}") for n in range(32)]
    field = Field.of(Topology.build(cpus), mask("5,8-23,26-31"))
    assert cpuset.render(search.packed(field, 4)) == "8-11"
    assert cpuset.render(search.packed(field, 1)) == "5"
