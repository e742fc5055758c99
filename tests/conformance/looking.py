"""Readings of a node and a daemon from outside: specs as the runtime stores them, pools as the daemon serves them."""

from typing import Any

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode


def spec(node: GoNode, container_id: str) -> nri_pb2.LinuxResources:
    """Return the resources in the runtime's stored spec, adjusted and updated."""
    return node.runtime.containers[container_id].resources


def cpus(node: GoNode, container_id: str) -> CPUMask:
    """Return the CPUs in the stored spec."""
    return cpuset.parse(spec(node, container_id).cpu.cpus)


def pools(daemon: Daemon) -> dict[str, str]:
    """Return the CPUs of each pool except `reclaim`, which follows measurements and moves by itself."""
    served: dict[str, Any] = daemon.state()["pools"]
    return {name: pool["cpus"] for name, pool in served.items() if name != "reclaim"}


def owned(daemon: Daemon) -> str:
    """Return the CPUs that dedicated containers own."""
    return pools(daemon)["dedicated"]
