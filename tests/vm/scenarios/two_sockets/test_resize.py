"""A dedicated container that is resized in place, by the call that the kubelet makes."""

from tests.vm.node import PERIOD, Node, cpus, until


def test_a_resized_dedicated_container_stays_alone_on_its_cpus(node: Node):
    shop = node.pod("shop", cpus=0.5)
    web = node.pod("web", cpus=2, memory=64 << 20, qos_class="dedicated", numa="single")
    before = web.cpus
    web.update(shares=3072, quota=3 * PERIOD, period=PERIOD, memory=96 << 20, cpus="0-7")
    assert web.cgroup("cpu.max") == f"{3 * PERIOD} {PERIOD}"
    assert web.cgroup("memory.max") == str(96 << 20)
    assert web.cpus >= before
    assert web.cpus == cpus(web.cgroup("cpuset.cpus"))
    until(lambda: shop.cpus == cpus("0-7") - web.cpus, "the neighbour on all other CPUs")
    assert web.cgroup("cpuset.mems") == "0"
