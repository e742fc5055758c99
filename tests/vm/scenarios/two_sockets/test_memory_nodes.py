"""A dedicated container's memory lies where its CPUs are."""

from tests.vm.node import Node


def test_memory_follows_the_cpus(node: Node):
    web = node.pod("web", cpus=2, qos_class="dedicated", numa="single")
    assert web.cgroup("cpuset.cpus") == "0-1"
    assert web.cgroup("cpuset.mems") == "0"
