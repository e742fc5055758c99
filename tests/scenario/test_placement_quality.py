"""The quality of the placement after a busy day, as figures with thresholds; a better placement may raise them.

A machine is filled to three quarters with containers of many sizes, then they come and go in a drawn order, always the
same. Two figures are counted over all placed containers. The first is the share that lies on one memory node and in one
L3 group, of those whose size allows it. The second is the number of cores touched beyond the fewest. The last figure is
the part of the free CPUs at the end that is whole.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Numa, Placement, QoSClass, Wish
from nri_coloc.placing import allocator
from tests.unit.placing.kit import machine

AMOUNTS = (1, 1, 2, 2, 2, 3, 4, 4, 4, 6, 8, 8, 16)
CHANGES = 600

Chooser = Callable[[Topology, CPUMask, int], CPUMask]


def ours(topology: Topology, free: CPUMask, count: int) -> CPUMask:
    grant = allocator.allocate(topology, free, count, Wish(QoSClass.DEDICATED))
    assert grant is not None
    return grant.cpus


def lowest(_topology: Topology, free: CPUMask, count: int) -> CPUMask:
    """Return the lowest free CPUs, as a choice without a topology: a comparison for the figures."""
    return cpuset.lowest(free, count)


@dataclass
class Figures:
    """Hold percentages of 100; `cores` is 100 if no container touches a core too many."""

    node_local: float
    l3_local: float
    cores: float
    whole_cores: float
    whole_l3: float


@dataclass
class Day:
    topology: Topology
    choose: Chooser
    free: CPUMask = field(init=False)
    owners: list[CPUMask] = field(default_factory=list)
    placed: list[tuple[int, CPUMask]] = field(default_factory=list)

    def lived(self) -> Figures:
        draw = random.Random(7)
        self.free = self.topology.usable
        room = self.free.bit_count() // 4
        for _ in range(CHANGES):
            count = draw.choice(AMOUNTS)
            while self.free.bit_count() < room + count:
                self.free |= self.owners.pop(draw.randrange(len(self.owners)))
            cpus = self.choose(self.topology, self.free, count)
            self.free &= ~cpus
            self.owners.append(cpus)
            self.placed.append((count, cpus))
        return self.figures()

    def figures(self) -> Figures:
        nodes, groups = self.topology.node_level, self.topology.l3_groups
        threads = self.topology.threads_per_core
        touched = sum(sum(1 for core in self.topology.cores if core & cpus) for _, cpus in self.placed)
        fewest = sum(-(-count // threads) for count, _ in self.placed)
        whole_l3 = sum(group & self.free == group for group in groups)
        return Figures(
            self.share_in_one(nodes),
            self.share_in_one(groups),
            100 * touched / fewest,
            100 * self.topology.whole_cores(self.free).bit_count() / self.free.bit_count(),
            100 * whole_l3 * groups[0].bit_count() / self.free.bit_count(),
        )

    def share_in_one(self, level: tuple[CPUMask, ...]) -> float:
        """Return the percentage that lies in one group of a level, of the containers that fit into one."""
        size = max(group.bit_count() for group in level)
        fitting = [cpus for count, cpus in self.placed if count <= size]
        inside = sum(any(cpus & ~group == 0 for group in level) for cpus in fitting)
        return 100 * inside / len(fitting)


@dataclass(frozen=True)
class Least:
    """Hold the least allowed figures of a machine; for `cores` it is the greatest."""

    node_local: float
    l3_local: float
    cores: float
    whole_cores: float
    whole_l3: float


THRESHOLDS = {
    "xeon-64": Least(100, 100, 100, 94, 0),
    "epyc-256": Least(100, 99, 100, 91, 0),
    "768": Least(100, 100, 100, 95, 65),
    "l3-in-a-node": Least(97, 100, 100, 88, 44),
    "dies": Least(100, 100, 100, 88, 88),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_after_a_busy_day_free_cpus_are_whole(name):
    least, found = THRESHOLDS[name], Day(machine(name), ours).lived()
    assert found.node_local >= least.node_local
    assert found.l3_local >= least.l3_local
    assert found.cores <= least.cores
    assert found.whole_cores >= least.whole_cores
    assert found.whole_l3 >= least.whole_l3


@pytest.mark.parametrize("name", THRESHOLDS)
def test_the_figures_tell_a_placement_from_none(name):
    found = Day(machine(name), lowest).lived()
    assert found.node_local < 75
    assert found.l3_local < 66
    assert found.cores > 120


def test_what_is_bound_fills_a_socket_before_it_begins_another():
    """Twelve containers have two nodes each: never of two sockets while one socket has two free nodes."""
    topology = machine("epyc-256")
    free, draw = topology.usable, random.Random(3)
    wish = Wish(QoSClass.DEDICATED, numa=Numa.SINGLE, numa_count=2)
    for _ in range(12):
        grant = allocator.allocate(topology, free, draw.choice((4, 8, 12)), wish)
        assert grant is not None
        assert sum(1 for package in topology.packages if package & grant.cpus) == 1
        assert grant.mems.bit_count() == 2
        free &= ~grant.cpus


@pytest.mark.parametrize("placement", Placement)
def test_nobody_shares_a_core_on_an_idle_machine(placement):
    topology = machine("epyc-256")
    free, taken = topology.usable, []
    wish = Wish(QoSClass.DEDICATED, placement=placement)
    for _ in range(8):
        grant = allocator.allocate(topology, free, 4, wish)
        assert grant is not None
        free &= ~grant.cpus
        taken.append(grant.cpus)
    for core in topology.cores:
        assert sum(1 for cpus in taken if cpus & core) <= 1
