"""Each request for CPUs and nodes, on a machine that is large enough to tell them apart; read back from the files.

A pod takes 20 seconds on sixteen emulated CPUs. So `make test-vm` alone plays the scenarios that tests of values on the
same four nodes repeat (tests/unit/placing/test_nodes.py, test_candidates.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vm.node import Container, Node, cpus

MIB = 1 << 20
NODES = [cpus(f"{4 * n}-{4 * n + 3}") for n in range(4)]


def dedicated(node: Node, name: str, count: int, **wishes: Any) -> Container:
    return node.pod(name, cpus=count, qos_class="dedicated", **wishes)


def nodes_of(container: Container) -> set[int]:
    return {number for number, members in enumerate(NODES) if members & container.cpus}


def cores_of(container: Container) -> set[str]:
    """Return the cores that a container runs on, each as a list of its threads."""
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return {Path(siblings.format(cpu)).read_text().strip() for cpu in container.cpus}


def mems(container: Container) -> set[int]:
    return set(cpus(container.cgroup("cpuset.mems")))


@pytest.fixture(autouse=True)
def _nobody_else(node: Node) -> Iterator[None]:
    yield
    node.clear()


def test_the_machine_has_four_nodes(node: Node):
    online = [Path(f"/sys/devices/system/node/node{n}/cpulist").read_text().strip() for n in range(4)]
    assert [cpus(text) for text in online] == NODES


def test_whole_nodes_are_owned_and_the_listed_one_is_used(node: Node):
    listed = dedicated(node, "listed", 2, numa="single", numa_ids="2")
    whole = dedicated(node, "whole", 8, numa="exclusive", numa_count="2")
    assert (nodes_of(listed), mems(listed)) == ({2}, {2})
    assert whole.cpus == frozenset().union(*(NODES[n] for n in nodes_of(whole)))
    assert (len(nodes_of(whole)), mems(whole)) == (2, nodes_of(whole))
    assert whole.cpus.isdisjoint(listed.cpus)


@pytest.mark.tier("soak")
def test_a_request_is_divided_evenly_over_its_nodes(node: Node):
    even = dedicated(node, "even", 4, numa="single", numa_count="2")
    assert sorted(len(even.cpus & members) for members in NODES) == [0, 0, 2, 2]
    assert mems(even) == nodes_of(even)


@pytest.mark.tier("soak")
def test_each_placement_takes_the_cpus_that_it_is_named_after(node: Node):
    spread = dedicated(node, "spread", 4, cpu_placement="spread")
    assert [len(spread.cpus & members) for members in NODES] == [1, 1, 1, 1]
    node.remove(spread)
    full = dedicated(node, "full", 4, cpu_placement="full-cores")
    assert (len(full.cpus), len(cores_of(full))) == (4, 2)
    thread = dedicated(node, "thread", 3, cpu_placement="one-thread-per-core")
    assert (len(thread.cpus), len(cores_of(thread))) == (3, 3)
    assert thread.cpus.isdisjoint(full.cpus)


def test_memory_that_no_node_has_alone_is_bound_to_two(node: Node):
    """Each node has a gibibyte, of which the kernel takes a part."""
    large = dedicated(node, "large", 2, kube_qos="guaranteed", memory=1400 * MIB, numa="single")
    assert len(mems(large)) == 2
    assert nodes_of(large) <= mems(large)
