"""A dedicated container's CPUs and memory are on the nodes that its pod asks for."""

from tests.vm.node import Container, Node, cpus


def test_a_whole_node_and_one_beside_it(node: Node):
    whole = node.pod("whole", cpus=4, qos_class="dedicated", numa="exclusive")
    bound = node.pod("bound", cpus=2, qos_class="dedicated", numa="single")
    assert {_place(whole), _place(bound)} == {("0-3", "0"), ("4-5", "1")}
    assert bound.cpus | whole.cpus == cpus("0-5")
    for container in (whole, bound):
        assert _bytes_elsewhere(container) == 0


def _place(container: Container) -> tuple[str, str]:
    return container.cgroup("cpuset.cpus"), container.cgroup("cpuset.mems")


def _bytes_elsewhere(container: Container) -> int:
    """Return the bytes of anonymous memory that the kernel took from another node."""
    line = next(
        line for line in container.cgroup("memory.numa_stat").splitlines() if line.startswith("anon ")
    )
    by_node = dict(part.split("=") for part in line.split()[1:])
    assert int(by_node.pop(f"N{container.cgroup('cpuset.mems')}")) > 0
    return sum(map(int, by_node.values()))
