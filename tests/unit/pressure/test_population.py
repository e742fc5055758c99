"""pressure/population.py: the population of a node is made again only after a change."""

from dataclasses import replace

import pytest

from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, Pod, QoSClass
from nri_coloc.pressure.population import LatestPopulation

POD = Pod("p1", "uid-1", "shop", "web", cgroup_parent="/kubepods/pod1")
TWO_CPUS = Topology.build([CPU(0), CPU(1)], {0: 1})
SHARED = Assignment(Container("c", "p1"), QoSClass.SHARED, "share")
STATE = NodeState(TWO_CPUS, Pools(), pods={"p1": PodPlace(POD)}, containers=Crowd.of([SHARED]))


def test_an_unchanged_node_keeps_its_population():
    known = LatestPopulation()
    first = known.of(STATE)
    assert list(first.online) == ["p1"]
    assert known.of(replace(STATE, generation=STATE.generation + 1)) is first


@pytest.mark.parametrize(
    ("changed", "online", "cpus"),
    [
        (replace(STATE, pods={}), [], 2),
        (replace(STATE, containers=Crowd.of([])), [], 2),
        (replace(STATE, topology=Topology.build([CPU(0)], {0: 1})), ["p1"], 1),
    ],
    ids=["pods", "containers", "cpus"],
)
def test_a_changed_node_has_another_population(changed, online, cpus):
    known = LatestPopulation()
    known.of(STATE)
    found = known.of(changed)
    assert (list(found.online), found.cpus) == (online, cpus)
