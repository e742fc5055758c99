"""placing/allocator.py: the choice of CPUs has a reason, and every figure that decided.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. "768": node 0 has 0-191 and their siblings 384-575.
"""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Considered, Room
from nri_coloc.core.reasons import Reason
from nri_coloc.core.workload import Numa, Placement
from nri_coloc.placing import allocator
from nri_coloc.placing.allocator import Grant, inputs, wished
from tests.unit.placing.kit import machine, mask
from tests.unit.placing.test_allocator import grant, wish


class TestReasons:
    def test_a_whole_core_is_the_lowest_of_its_node(self):
        because = "own CPUs 0-1: lowest free whole core of node 0"
        assert grant(2) == Grant(0b11, Reason.WHOLE_CORE, because)

    def test_a_core_in_a_broken_group_is_the_tightest(self):
        free = cpuset.render(machine("768").usable & ~mask("16,400"))
        found = grant(2, free, "768")
        assert (cpuset.render(found.cpus), found.reason) == ("17,401", Reason.WHOLE_CORE)

    @pytest.mark.parametrize(
        ("count", "free", "cpus", "reason"),
        [
            (3, "0-7", "0-2", Reason.THREADS),
            (4, "0-7", "0-3", Reason.WHOLE_NODE),
            (5, "0-7", "0-4", Reason.ACROSS_NODES),
            (1, "3-7", "3", Reason.THREADS),
        ],
        ids=["threads", "node", "across", "one"],
    )
    def test_the_reason_names_the_shape(self, count, free, cpus, reason):
        found = grant(count, free)
        assert (cpuset.render(found.cpus), found.reason) == (cpus, reason)

    def test_several_whole_cores_have_a_reason(self):
        assert grant(4, "0-5", "laptop-no-numa").reason is Reason.WHOLE_CORES

    def test_a_spread_choice_lies_across_nodes(self):
        assert grant(2, by=wish(placement=Placement.SPREAD)).reason is Reason.ACROSS_NODES

    def test_every_part_of_a_wish_is_a_figure(self):
        by = wish(placement=Placement.FULL_CORES, numa=Numa.EXCLUSIVE, numa_count=1, numa_ids=0b10)
        assert wished(by) == {
            "placement": "full-cores",
            "numa": "exclusive",
            "numa_count": 1,
            "numa_ids": "1",
            "numa_evenly": 0,
            "one_socket": 0,
        }

    def test_an_unbound_wish_has_no_nodes(self):
        assert wished(wish(numa_count=2, numa_ids=1)) == {}

    @pytest.mark.parametrize("placement", [Placement.SPREAD, Placement.ONE_THREAD_PER_CORE])
    def test_wished_threads_are_threads(self, placement):
        assert grant(2, "0-3", by=wish(placement=placement, numa=Numa.SINGLE)).reason is Reason.THREADS


class TestInputs:
    def test_a_whole_core_has_the_designs_figures(self):
        assert inputs(machine("8cpu"), Considered(0xFF, 2, wish()), 0b11) == {
            "n": 2,
            "free": "0-7",
            "node": 0,
            "node_free": 4,
        }

    @pytest.mark.parametrize("placement", Placement)
    @pytest.mark.parametrize("numa", Numa)
    @pytest.mark.parametrize("free", ["0-7", "1-6", "0-1,4-7"])
    def test_the_choice_can_be_made_again(self, placement, numa, free):
        wanted = wish(placement=placement, numa=numa)
        room = Room(1 << 30, ((0, 2 << 30), (1, 4 << 30)), mask("0-7"))
        topology = machine("8cpu")
        found = allocator.allocate(topology, mask(free), 2, wanted, room)
        assert found is not None
        used = inputs(topology, Considered(mask(free), 2, wanted, room), found.cpus)
        again = wish(
            placement=Placement(str(used.get("placement", "packed"))),
            numa=Numa(str(used.get("numa", "none"))),
            numa_count=int(used.get("numa_count", 0)),
            numa_ids=mask(str(used.get("numa_ids", ""))),
        )
        left = tuple(
            (node, int(used[key])) for node in (0, 1) if (key := f"memory_left_bytes_node_{node}") in used
        )
        its_room = Room(int(used.get("memory_bytes", 0)), left, mask(str(used.get("ownable", ""))))
        chosen = allocator.allocate(topology, mask(str(used["free"])), int(used["n"]), again, its_room)
        assert chosen is not None
        assert chosen.cpus == found.cpus
