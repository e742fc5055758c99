"""placing/allocator.py: the choice of CPUs has a reason, and a sentence with every figure.

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


class TestWords:
    def test_a_whole_core_is_the_lowest_of_its_node(self):
        because = (
            "core 0-1 is the lowest free whole core of node 0, which has 4 of 4 CPUs free; free were 0-7"
        )
        assert grant(2) == Grant(0b11, Reason.WHOLE_CORE, because)

    def test_a_core_that_is_not_the_lowest_is_not_called_so(self):
        free = cpuset.render(machine("768").usable & ~mask("16,400"))
        found = grant(2, free, "768")
        assert found.reason is Reason.WHOLE_CORE
        assert found.because.startswith("core 17,401 is the tightest fit of the free whole cores of node 0,")

    @pytest.mark.parametrize(
        ("count", "free", "reason", "because"),
        [
            (
                3,
                "0-7",
                Reason.THREADS,
                "CPUs 0-2 are the tightest fit of free threads in node 0, which has 4 of 4",
            ),
            (4, "0-7", Reason.WHOLE_NODE, "CPUs 0-3 are all of node 0, which has 4 of 4 CPUs free"),
            (5, "0-7", Reason.ACROSS_NODES, "CPUs 0-4 lie on nodes 0, 1: no single node has 5 CPUs free"),
            (
                1,
                "3-7",
                Reason.THREADS,
                "CPUs 3 are the tightest fit of free threads in node 0, which has 1 of 4",
            ),
        ],
        ids=["threads", "node", "across", "one"],
    )
    def test_the_shape_is_named_with_its_figures(self, count, free, reason, because):
        found = grant(count, free)
        assert found.reason is reason
        assert found.because.startswith(because)
        assert found.because.endswith(f"; free were {free}")

    def test_several_whole_cores_are_counted(self):
        found = grant(4, "0-5", "laptop-no-numa")
        assert found.reason is Reason.WHOLE_CORES
        assert found.because.startswith("CPUs 0-1,4-5 are 2 whole cores of node 0")

    def test_nodes_that_a_wish_parts_are_not_blamed(self):
        found = grant(2, by=wish(placement=Placement.SPREAD))
        words = "CPUs 0,4 lie on nodes 0, 1: as the wish says; free were 0-7; wished were placement spread"
        assert (found.reason, found.because) == (Reason.ACROSS_NODES, words)

    def test_every_part_of_a_wish_is_said(self):
        by = wish(placement=Placement.FULL_CORES, numa=Numa.EXCLUSIVE, numa_count=1, numa_ids=0b10)
        words = "wished were placement full-cores, numa exclusive, numa-count 1, numa-ids 1"
        assert grant(4, by=by).because.endswith(words)

    def test_an_unbound_wish_says_nothing_of_nodes(self):
        assert wished(wish(numa_count=2, numa_ids=1)) == ""

    def test_the_free_cpus_are_said_before_a_wish_narrows_them(self):
        found = grant(2, by=wish(placement=Placement.ONE_THREAD_PER_CORE))
        assert "node 0, which has 4 of 4 CPUs free; free were 0-7;" in found.because


class TestThreadWords:
    @pytest.mark.parametrize(
        ("placement", "words"),
        [
            (Placement.SPREAD, "CPUs 0,2 are as far apart as possible in node 0"),
            (Placement.ONE_THREAD_PER_CORE, "CPUs 0,2 are a thread each of free cores of node 0"),
        ],
        ids=["spread", "one-thread"],
    )
    def test_threads_that_were_wished_for_are_not_called_a_tight_fit(self, placement, words):
        found = grant(2, "0-3", by=wish(placement=placement, numa=Numa.SINGLE))
        assert found.reason is Reason.THREADS
        assert found.because.startswith(words)


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
