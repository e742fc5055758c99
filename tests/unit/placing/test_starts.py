"""placing/starts.py: a pod's cgroup needs certain CPUs until its containers have started."""

from dataclasses import replace

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    NO_MOVES,
    ContainerCreated,
    ContainerCreating,
    ContainerGone,
    Moves,
    Outcome,
)
from nri_coloc.core.workload import Container, Phase, Resources
from nri_coloc.placing import starts
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, asking, container

ALL = cpuset.parse("0-7")
NAMED = asking(0, cpus="0-7")


def needed(node: Node, pod_id: str) -> int:
    return node.state.pods[pod_id].cpus_until_start


def narrow() -> Node:
    """Return a node on which CPUs 0-1 are owned, with a reclaimed pod."""
    node = Node()
    node.create("owner", 2000, on="owner")
    node.start_pod("batch", RECLAIMED)
    return node


def created(node: Node, name: str = "job", cpus: int = ALL, on: str = "batch") -> Outcome:
    node.create(name, wish=RECLAIMED, on=on, resources=NAMED)
    return node.happen(ContainerCreated(on, name, cpus))


def test_a_pod_has_the_named_cpus():
    node = narrow()
    assert created(node).moves == Moves(pods=("batch",))
    assert needed(node, "batch") == ALL


def test_the_pool_is_no_reason_to_write():
    assert created(narrow(), cpus=cpuset.parse("2-7")).moves == NO_MOVES


def test_a_start_ends_it():
    node = narrow()
    created(node)
    assert node.start("job", wish=RECLAIMED, on="batch").moves == Moves(pods=("batch",))
    assert needed(node, "batch") == 0


def test_start_of_an_unplaced_container_ends_it():
    node = narrow()
    node.happen(ContainerCreated("batch", "stranger", ALL))
    assert "batch" in node.start("stranger", wish=RECLAIMED, on="batch").moves.pods
    assert needed(node, "batch") == 0


def test_an_end_without_a_start_ends_it():
    node = narrow()
    created(node)
    assert "batch" in node.happen(ContainerGone("job")).moves.pods
    assert needed(node, "batch") == 0


def test_an_unplaced_container_that_ends_ends_it():
    node = narrow()
    node.happen(ContainerCreated("batch", "stranger", ALL))
    assert node.happen(ContainerGone("stranger")).moves == Moves(pods=("batch",))


def test_the_next_attempt_ends_it():
    node = narrow()
    created(node, "first")
    second = replace(container("second", "batch", resources=NAMED), name="first")
    node.happen(ContainerCreating(node.pod("batch"), second, RECLAIMED))
    assert needed(node, "batch") == 0


def test_two_containers_each_count():
    node = narrow()
    created(node, "one", 0b01)
    created(node, "two", 0b10)
    node.start("one", wish=RECLAIMED, on="batch")
    assert needed(node, "batch") == 0b10


def test_a_later_specification_replaces_the_former():
    node = narrow()
    created(node)
    node.happen(ContainerCreated("batch", "job", 0))
    assert needed(node, "batch") == 0


def test_an_online_pod_needs_nothing():
    node = Node()
    node.start_pod("web", SHARED)
    assert node.happen(ContainerCreated("web", "app", ALL)) == Outcome(node.state)
    assert needed(node, "web") == 0


def test_the_list_tells_of_created_containers_only():
    def listed(name: str, phase: Phase, cpus: str) -> Container:
        return Container(name, "batch", name, phase, resources=Resources(cpus=cpus))

    found = starts.listed(
        [
            listed("waits", Phase.CREATED, "0-7"),
            listed("runs", Phase.RUNNING, "0-7"),
            listed("names none", Phase.CREATED, ""),
        ]
    )
    assert found == {"batch": (("waits", ALL),)}


def test_our_own_list_changes_nothing():
    node = narrow()
    created(node)
    assert node.synchronize().state.pods == node.state.pods
    assert needed(node, "batch") == ALL
