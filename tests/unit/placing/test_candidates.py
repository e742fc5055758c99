"""placing/candidates.py: nodes that could have held a dedicated container are listed, each with its obstacle.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. "4node": four nodes of two cores, 0-3, 4-7, 8-11, 12-15.
"""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import NO_ROOM, Considered, Room
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Numa, Placement, Pod, Wish
from nri_coloc.placing import allocator
from nri_coloc.placing.candidates import Candidate, candidates
from nri_coloc.service.audit import worded
from tests.unit.placing.kit import DEDICATED, Node, machine, mask

SINGLE = replace(DEDICATED, numa=Numa.SINGLE)


def found(
    count: int, free: str, wish: Wish = DEDICATED, on: str = "8cpu", room: Room = NO_ROOM
) -> tuple[Candidate, ...]:
    grant = allocator.allocate(machine(on), mask(free), count, wish, room)
    chosen = grant.cpus if grant is not None else 0
    return candidates(machine(on), Considered(mask(free), count, wish, room), chosen)


def verdicts(
    count: int, free: str, wish: Wish = DEDICATED, on: str = "8cpu", room: Room = NO_ROOM
) -> list[str]:
    return [candidate.verdict for candidate in found(count, free, wish, on, room)]


def test_every_node_is_counted():
    assert [(c.node, c.free, c.whole_cores) for c in found(2, "1-7")] == [(0, 3, 1), (1, 4, 2)]


@pytest.mark.parametrize(
    ("count", "free", "expected"),
    [
        (2, "0-7", ["chosen", "equal to node 0; the lower id wins"]),
        (
            2,
            "0-3,6-7",
            ["looser fit: 4 CPUs are free here, 2 on node 1, and fuller nodes go first", "chosen"],
        ),
        (2, "4-7", ["no CPU is free", "chosen"]),
        (4, "1-7", ["3 CPUs are free, 4 are asked for", "chosen"]),
        (2, "1,3,4-7", ["its free CPUs make 0 whole cores, 1 are needed; node 1 has them", "chosen"]),
        (1, "0-1,4-6", ["a whole core would be broken here, on node 1 none is", "chosen"]),
        (6, "0-7", ["4 of the 6 CPUs are from here", "2 of the 6 CPUs are from here"]),
    ],
    ids=["a-tie", "looser", "nothing-free", "too-few", "broken-cores", "would-break-a-core", "across"],
)
def test_what_ruled_a_node_out_is_said(count, free, expected):
    assert verdicts(count, free) == expected


def test_a_request_that_could_not_be_met_has_no_winner():
    considered = Considered(mask("0,4-5"), 3, DEDICATED)
    said = [c.verdict for c in candidates(machine(), considered, 0)]
    assert said == ["1 CPU is free, 3 are asked for", "2 CPUs are free, 3 are asked for"]


def test_the_last_cpu_of_share_is_a_reason_of_its_own():
    considered = Considered(mask("4-5"), 2, DEDICATED)
    said = [c.verdict for c in candidates(machine(), considered, 0)]
    assert said == ["no CPU is free", "it would hold the request, but the last CPU of share is never taken"]


def test_nodes_that_were_not_wished_for_are_named():
    wish = replace(SINGLE, numa_ids=0b10)
    assert verdicts(2, "0-7", wish) == ["not among the wished nodes 1", "chosen"]


def test_an_unmet_list_of_nodes_ruled_nothing_out():
    wish = replace(SINGLE, numa_ids=0b10)
    assert verdicts(4, "0-4", wish) == ["chosen", "1 CPU is free, 4 are asked for"]


def test_a_list_that_was_given_up_rules_out_no_node():
    wish = replace(SINGLE, numa_ids=0b1)
    said = verdicts(3, "0,4-11", wish, "4node")
    assert said[1:3] == ["chosen", "equal to node 1; the lower id wins"]


def test_memory_that_is_promised_rules_a_node_out():
    room = Room(9, ((0, 8), (1, 9)))
    assert verdicts(2, "0-7", SINGLE, room=room) == ["8 bytes of memory are left, 9 are asked for", "chosen"]


def test_memory_that_no_node_has_ruled_nothing_out():
    room = Room(99, ((0, 8), (1, 9)))
    assert verdicts(2, "0-7", SINGLE, room=room) == ["chosen", "equal to node 0; the lower id wins"]


def test_a_part_of_a_request_is_compared_with_a_part():
    wish, room = replace(SINGLE, numa_count=2), Room(8, ((0, 3), (1, 4), (2, 4), (3, 9)))
    said = verdicts(4, "0-11,12", wish, "4node", room)
    assert said[0] == "3 bytes of memory are left, 4 are asked for"
    assert said[1:3] == ["2 of the 4 CPUs are from here"] * 2
    assert said[3] == "1 CPU is free, 2 are asked for"


def test_a_group_with_one_cache_is_a_reason():
    said = verdicts(4, "0,2,4,6,16,18,20,22,8-15,24-31", on="l3-in-a-node")
    assert said == ["no group of cores with one cache holds it here, on node 1 one does", "chosen"]


def test_cores_of_another_kind_do_not_count():
    (one,) = found(6, "12-23", on="hybrid")
    assert one.verdict == "chosen"
    two_nodes = Topology.build([CPU(0), CPU(1), CPU(2, 1, 1, kind=1), CPU(3, 1, 1)])
    said = [c.verdict for c in candidates(two_nodes, Considered(mask("0-3"), 2, DEDICATED), mask("0-1"))]
    assert said == ["chosen", "1 CPU is free on cores of that kind, 2 are asked for"]


def test_isolated_cpus_are_compared_with_isolated_cpus():
    wish = replace(DEDICATED, pool="isolated", numa=Numa.EXCLUSIVE)
    assert verdicts(2, "2-3,6", wish, "isolated") == [
        "chosen",
        "1 CPU is free, 2 are asked for",
    ]


def test_whole_nodes_are_wanted_whole():
    wish = replace(DEDICATED, numa=Numa.EXCLUSIVE)
    said = verdicts(4, "0-2,4-7", wish)
    assert said == ["not a whole free node: 3 of 4 CPUs are free", "chosen"]


def test_threads_that_the_placement_cannot_use_do_not_count():
    wish = replace(DEDICATED, placement=Placement.FULL_CORES)
    assert verdicts(4, "0-2,4-7", wish) == ["2 CPUs are free for full-cores, 4 are asked for", "chosen"]


def test_several_nodes_on_purpose_are_said_to_be():
    wish = replace(SINGLE, numa_count=2)
    said = verdicts(4, "0-15", wish, "4node")
    assert said[:2] == ["2 of the 4 CPUs are from here"] * 2
    assert (
        said[2:]
        == ["several nodes are needed: the chosen ones share a socket, have fewer free CPUs or lower ids"] * 2
    )


@pytest.mark.parametrize("name", ["memory-only-node", "offline", "virtual", "hybrid", "768"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("placement", Placement)
def test_somebody_is_always_chosen_where_cpus_were_found(name, count, placement):
    topology = machine(name)
    wish = replace(DEDICATED, placement=placement)
    grant = allocator.allocate(topology, topology.usable, count, wish)
    if grant is None:
        assert (placement, count % 2) == (Placement.FULL_CORES, 1)
        return
    said = [c.verdict for c in candidates(topology, Considered(topology.usable, count, wish), grant.cpus)]
    assert any(verdict == "chosen" or "from here" in verdict for verdict in said)


def test_a_decision_carries_what_it_considered():
    node = Node()
    outcome = node.create("web", 2000)
    (admission, *_) = outcome.decisions
    assert admission.considered == Considered(mask("0-7"), 2, DEDICATED)
    assert worded(admission, Pod("a"), "d1", None).extra == {}


def test_who_did_not_choose_considered_nothing():
    node = Node()
    node.create("app", 2000)
    assert node.create("proxy", 100).decisions[0].considered is None


def test_without_a_whole_free_node_none_is_excluded():
    wish = replace(DEDICATED, numa=Numa.EXCLUSIVE)
    assert verdicts(4, "0-2,4-6", wish) == ["2 of the 4 CPUs are from here"] * 2


def test_single_thread_cores_are_no_whole_wide_core():
    hybrid = Topology.build(
        [
            CPU(0),
            CPU(1, core="b"),
            CPU(2, core="b"),
            CPU(3, 1, 1, core="c"),
            CPU(4, 1, 1, core="c"),
            CPU(5, 1, 1),
        ]
    )
    considered = Considered(mask("0-1,3-5"), 2, DEDICATED)
    said = [c.verdict for c in candidates(hybrid, considered, mask("3-4"))]
    assert said == ["node 1 keeps more cores whole", "chosen"]


def test_a_candidate_is_written_by_the_names_of_the_audit():
    (first, _) = found(2, "1-7")
    assert first.as_json() == {"node": 0, "free": 3, "whole_cores": 1, "verdict": "chosen"}


@pytest.mark.parametrize(
    ("placement", "free", "verdict"),
    [
        (Placement.FULL_CORES, "1,3-7", "0 CPUs are free for full-cores, 2 are asked for"),
        (
            Placement.ONE_THREAD_PER_CORE,
            "0-1,4-7",
            "1 CPU is free for one-thread-per-core, 2 are asked for",
        ),
    ],
    ids=["whole-cores", "first-threads"],
)
def test_cpus_that_the_placement_cannot_use_do_not_count(placement, free, verdict):
    assert verdicts(2, free, replace(DEDICATED, placement=placement)) == [verdict, "chosen"]
