"""The machine has the properties that the other scenarios rely on."""

from pathlib import Path

from tests.vm.node import Node, read

CPU = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")


def test_it_has_two_sockets_two_nodes_and_smt(node: Node):
    topology = [CPU / f"cpu{number}/topology" for number in range(8)]
    assert [(NODES / f"node{n}/cpulist").read_text().strip() for n in (0, 1)] == ["0-3", "4-7"]
    assert [(t / "physical_package_id").read_text().strip() for t in topology] == ["0"] * 4 + ["1"] * 4
    assert (topology[5] / "thread_siblings_list").read_text().strip() == "4-5"
    assert {"cpuset", "cpu", "io", "memory"} <= set(read("/", "cgroup.controllers").split())
