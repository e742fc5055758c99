"""core/topology.py: sysfs labels become CPU masks, level by level."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU, NumaNode, Topology

PAIR = (CPU(0, core="a", l3="x"), CPU(1, core="a", l3="x"))


def test_cpus_are_grouped_by_their_labels():
    other = (CPU(2, 1, 1, "y", "b"), CPU(3, 1, 1, "y", "c"))
    machine = Topology.build(PAIR + other)
    assert machine.online == 0b1111
    assert machine.packages == (0b0011, 0b1100)
    assert machine.l3_groups == (0b0011, 0b1100)
    assert machine.cores == (0b0011, 0b0100, 0b1000)
    assert machine.nodes == (NumaNode(0, 0b0011), NumaNode(1, 0b1100))


def test_levels_are_sorted_by_their_lowest_cpu():
    machine = Topology.build([CPU(3, core="a"), CPU(2, core="b"), CPU(1, core="b"), CPU(0, core="a")])
    assert machine.cores == (0b1001, 0b0110)


def test_a_cpu_of_unknown_level_is_its_own_group():
    machine = Topology.build([CPU(0), CPU(1)])
    assert machine.cores == (0b01, 0b10)
    assert machine.l3_groups == (0b01, 0b10)


def test_cpus_may_come_from_an_iterator():
    assert Topology.build(CPU(number) for number in (0, 1)).packages == (0b11,)


def test_memory_may_name_a_node_without_cpus():
    machine = Topology.build(PAIR, {0: 1, 5: 2})
    assert machine.nodes == (NumaNode(0, 0b11, 1), NumaNode(5, 0, 2))
    assert machine.all_mems == 0b100001


def test_a_node_without_memory_is_no_memory_node():
    machine = Topology.build([*PAIR, CPU(2, node=1)], {0: 1})
    assert machine.all_mems == 0b01


def test_where_no_memory_is_known_every_node_counts():
    assert Topology.build([*PAIR, CPU(2, node=1)]).all_mems == 0b11


def test_isolated_cpus_are_online_but_not_usable():
    machine = Topology.build(PAIR, isolated=0b110)
    assert machine.isolated == 0b10
    assert machine.usable == 0b01


def test_the_nodes_of_a_set_are_those_it_touches():
    machine = Topology.build([*PAIR, CPU(2, node=3)])
    assert machine.nodes_of(0b001) == 0b0001
    assert machine.nodes_of(0b101) == 0b1001
    assert machine.nodes_of(0) == 0


def test_the_widest_core_tells_the_threads_of_a_core():
    assert Topology.build([*PAIR, CPU(2)]).threads_per_core == 2
    assert Topology.build([]).threads_per_core == 1


def test_packages_may_hold_dies():
    machine = Topology.build([CPU(0, 0, die=0), CPU(1, 0, die=1), CPU(2, 1, die=0)])
    assert machine.dies == (0b001, 0b010, 0b100)


def test_kinds_of_cores_are_fastest_first():
    machine = Topology.build([CPU(0, kind=2), CPU(1, kind=0), CPU(2, kind=2)])
    assert machine.kinds == (0b010, 0b101)


def test_isolated_cpus_are_set_aside_unless_nothing_else_is_online():
    assert Topology.build(PAIR, isolated=0b10).aside == 0b10
    assert Topology.build(PAIR, isolated=0b11).aside == 0


def test_each_cpu_knows_its_core():
    assert Topology.build([*PAIR, CPU(2)]).core_of == {0: 0b11, 1: 0b11, 2: 0b100}


class TestLevels:
    FOUR = tuple(
        CPU(id=n, package=0, node=n // 4, l3=f"l3-{n // 2}", core=f"c{n // 2}", die=n // 4) for n in range(8)
    )

    def test_what_divides_nodes_is_near(self):
        machine = Topology.build(self.FOUR)
        assert machine.near == ((0x0F, 0xF0), (0x03, 0x0C, 0x30, 0xC0))
        assert machine.node_around[0x30] == 0xF0

    def test_what_divides_nothing_further_is_no_level(self):
        machine = Topology.build([CPU(n, n // 2, n // 2, f"l3-{n // 2}", die=0) for n in range(4)])
        assert (machine.near, machine.far) == (((0b0011, 0b1100),), ())

    def test_dies_may_divide_a_node(self):
        machine = Topology.build([CPU(n, 0, 0, "x", die=n // 2) for n in range(4)])
        assert machine.near == ((0b1111,), (0b0011, 0b1100))

    def test_what_spans_nodes_is_far(self):
        machine = Topology.build([CPU(n, n // 4, n // 2, f"l3-{n // 4}") for n in range(8)])
        assert machine.far == ((0x0F, 0xF0),)

    def test_nodes_that_split_a_core_are_no_level(self):
        machine = Topology.build([CPU(0, 0, 0, "x", "a"), CPU(1, 0, 1, "x", "a")])
        assert (machine.near, machine.far) == ((), ())


class TestCores:
    ODD = Topology.build(
        CPU(n, core=core)
        for n, core in ((0, "a"), (9, "a"), (1, "b"), (10, "b"), (2, ""), (3, "d"), (5, "d"))
    )

    def test_a_core_is_whole_with_all_its_threads_only(self):
        assert self.ODD.first_threads(1 << 0 | 1 << 9 | 1 << 10 | 1 << 2 | 1 << 3) == 0b101
        assert self.ODD.whole_cores(1 << 0 | 1 << 9 | 1 << 10 | 1 << 2) == 1 << 0 | 1 << 9 | 1 << 2

    def test_full_cores_have_as_many_threads_as_any(self):
        assert self.ODD.full_cores(self.ODD.online) == self.ODD.online & ~(1 << 2)

    def test_the_widest_cores_are_taken_first_then_the_lowest(self):
        assert self.ODD.lowest_cores(self.ODD.online, 4) == 1 << 0 | 1 << 9 | 1 << 1 | 1 << 10
        assert self.ODD.lowest_cores(self.ODD.online, 7) == self.ODD.online

    def test_what_no_cores_make_up_is_left_out(self):
        assert self.ODD.lowest_cores(1 << 0 | 1 << 9, 1) == 0


def test_a_machine_may_tell_no_memory():
    assert not Topology.build(PAIR).tells_memory
    assert Topology.build(PAIR, {0: 1}).tells_memory


class TestWithin:
    """A hybrid machine of two nodes: CPUs 0-3 are fast cores of two threads, 4-7 slow cores of one."""

    whole = Topology.build(
        (
            *(CPU(cpu, node=0, l3="a", core=f"c{cpu // 2}", kind=0) for cpu in range(4)),
            *(CPU(cpu, node=1, l3="b", core=f"c{cpu}", kind=1) for cpu in range(4, 8)),
        ),
        {0: 1 << 30, 1: 1 << 30},
        isolated=cpuset.parse("7"),
    )

    def test_every_level_loses_other_cpus(self):
        part = self.whole.within(cpuset.parse("1-2,5,7"))
        assert cpuset.render(part.online) == "1-2,5,7"
        assert [cpuset.render(core) for core in part.cores] == ["1", "2", "5", "7"]
        assert [cpuset.render(node.cpus) for node in part.nodes] == ["1-2", "5,7"]
        assert [cpuset.render(kind) for kind in part.kinds] == ["1-2", "5,7"]
        assert cpuset.render(part.usable) == "1-2,5"

    def test_lost_cpus_are_remembered(self):
        part = self.whole.within(cpuset.parse("4-7"))
        assert cpuset.render(part.outside) == "0-3"
        assert part.machine == self.whole.online
        assert part.usable_by_all == self.whole.usable
        assert len(part.kinds) == 1
        assert part.all_mems == self.whole.all_mems

    @pytest.mark.parametrize("cpus", ["0-7", "0-63", "7", "8-9", ""])
    def test_nothing_changes_without_usable_cpus(self, cpus):
        assert self.whole.within(cpuset.parse(cpus)) is self.whole
