"""The machines of the tests: the hardware of each, and the program that runs as its first process.

A shape's name is the name of the folder of its scenarios.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Shape:
    """Describe one machine; memory and CPUs are divided evenly among the nodes.

    systemd: it is the first process, and makes cgroups.
    kubelet: a real one runs pods there.
    """

    name: str
    sockets: int
    cores: int
    nodes: int
    memory_mib: int
    systemd: bool = False
    kubelet: bool = False
    threads: int = 2

    @property
    def cpus(self) -> int:
        """Return the number of all threads of all cores."""
        return self.sockets * self.cores * self.threads

    def node_cpus(self, node: int) -> str:
        """Return the CPUs of a memory node, as a list."""
        size = self.cpus // self.nodes
        return f"{node * size}-{(node + 1) * size - 1}"


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("two_sockets", sockets=2, cores=2, nodes=2, memory_mib=4096),
        Shape("four_nodes", sockets=2, cores=4, nodes=4, memory_mib=4096),
        Shape("systemd", sockets=2, cores=2, nodes=2, memory_mib=3072, systemd=True),
        Shape("with_kubelet", sockets=2, cores=2, nodes=2, memory_mib=4096, systemd=True, kubelet=True),
    )
}
