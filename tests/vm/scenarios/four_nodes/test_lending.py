"""The reclaim pool on four nodes: equal parts of each, away from a dedicated container that is larger than a node.

The scenarios judge where the pool lies. Its size is ordered (`lending`): sixteen emulated CPUs are a load themselves.
For the same reason `make test-vm` alone plays scenarios whose result another machine or a test of values shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.vm.node import Container, Node, becomes, cpus, lending, until
from tests.vm.sound import Crowd

NODES = [cpus(f"{4 * n}-{4 * n + 3}") for n in range(4)]
ALL = cpus("0-15")
LENT = 8
CORE = 2  # CPUs


@dataclass
class Pods:
    shop: Container  # shared, without a limit
    batch: Container  # reclaimed

    @property
    def box(self) -> frozenset[int]:
        """Return the reclaimed pod's CPUs, by its own file."""
        return cpus(self.batch.pod_cgroup("cpuset.cpus"))

    @property
    def by_node(self) -> list[int]:
        """Return the number of the reclaim pool's CPUs on each node."""
        box = self.box
        return [len(box & members) for members in NODES]

    def beside(self, *owners: Container) -> Crowd:
        """Return all containers, for the invariants."""
        return Crowd(owners, (self.batch,), (self.shop,))


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[Pods]:
    node.plugin.config.write(lending(CORE))
    yield Pods(
        shop=node.pod("shop"),
        batch=node.pod("batch", kube_qos="besteffort", oom=1000),
    )
    node.plugin.config.write("")


@pytest.fixture(scope="module")
def web(node: Node, pods: Pods) -> Container:
    """Run a pod with six CPUs; a node has four."""
    node.plugin.config.write(lending(LENT))
    until(lambda: len(pods.box) == LENT, "a box of the size that was ordered")
    return node.pod("web", cpus=6, qos_class="dedicated", numa="single")


@pytest.mark.tier("soak")
def test_a_box_of_half_the_machine_has_half_of_each_node(node: Node, pods: Pods):
    until(lambda: len(pods.box) == CORE, "a box of one core")
    node.plugin.config.write(lending(LENT))
    becomes(lambda: pods.by_node, [2, 2, 2, 2])
    becomes(pods.beside().breaches, [])


def test_reclaimed_pods_leave_both_nodes_of_a_large_container(pods: Pods, web: Container):
    assert len(web.cpus) == 6
    assert web.cpus <= NODES[0] | NODES[1]  # of one socket
    assert cpus(web.cgroup("cpuset.mems")) == {0, 1}
    until(lambda: len(pods.box) == LENT and not pods.box & web.cpus, "the reclaim pool beside it")
    becomes(lambda: pods.shop.cpus, ALL - web.cpus)
    becomes(pods.beside(web).breaches, [])


def test_a_resized_reclaim_pool_takes_equally_from_both_other_nodes(node: Node, pods: Pods, web: Container):
    for most, by_node in ((4, [0, 0, 2, 2]), (LENT, [0, 0, 4, 4])):
        node.plugin.config.write(lending(most))
        becomes(lambda: pods.by_node, by_node)
    becomes(pods.beside(web).breaches, [])


@pytest.mark.tier("soak")
def test_a_reclaim_pool_gets_all_that_is_left_and_nothing_dedicated(node: Node, pods: Pods, web: Container):
    whole = node.pod("whole", cpus=4, qos_class="dedicated", numa="exclusive", numa_ids="3")
    assert (whole.cpus, whole.cgroup("cpuset.mems")) == (NODES[3], "3")
    node.plugin.config.write(lending(16))
    becomes(lambda: pods.box, ALL - web.cpus - whole.cpus)
    becomes(pods.beside(web, whole).breaches, [])
