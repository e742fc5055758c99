"""A dedicated container is resized in place, by the call that the kubelet makes."""

from tests.vm.node import PERIOD, Container, Node, becomes, cpus


def resize(container: Container, whole_cpus: int, memory: int) -> None:
    """Send the kubelet's update; it names CPUs only where its own CPU manager does."""
    limits = {"shares": whole_cpus * 1024, "quota": whole_cpus * PERIOD, "period": PERIOD, "memory": memory}
    container.update(**limits)
    assert container.cgroup("cpu.max") == f"{whole_cpus * PERIOD} {PERIOD}"
    assert container.cgroup("memory.max") == str(memory)


def test_a_resized_dedicated_container_grows_and_shrinks_alone_on_its_cpus(node: Node):
    shop = node.pod("shop", cpus=0.5)
    web = node.pod("web", cpus=2, memory=64 << 20, qos_class="dedicated", numa="single")
    before = web.cpus
    resize(web, 3, 96 << 20)
    becomes(lambda: len(web.cpus), 3)
    grown = web.cpus
    assert before < grown == cpus(web.cgroup("cpuset.cpus"))
    becomes(lambda: shop.cpus, cpus("0-7") - grown)
    assert web.cgroup("cpuset.mems") == "0"
    resize(web, 1, 64 << 20)
    becomes(lambda: len(web.cpus), 1)
    assert web.cpus < grown
    becomes(lambda: shop.cpus, cpus("0-7") - web.cpus)


def test_cpus_in_the_kubelets_update_are_ours(node: Node):
    web = node.pod("other", cpus=2, qos_class="dedicated")
    before = web.cpus
    web.update(cpus="0-7")
    becomes(lambda: (web.cpus, cpus(web.cgroup("cpuset.cpus"))), (before, before))
