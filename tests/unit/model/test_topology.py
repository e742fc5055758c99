"""model/topology.py: labels become masks, level by level."""

from nri_coloc.model.topology import CPU, NumaNode, Topology

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


def test_a_cpu_whose_level_is_unknown_is_a_group_of_its_own():
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
