"""A dedicated container's CPUs and memory lie where its pod wants them."""

from tests.vm.node import Node


def test_a_container_bound_to_one_node_gets_its_cpus_and_its_memory_there(node: Node):
    web = node.pod("web", cpus=2, qos_class="dedicated", numa="single")
    assert web.cgroup("cpuset.cpus") == "0-1"
    assert web.cgroup("cpuset.mems") == "0"
