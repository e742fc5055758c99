"""Pods that were lent a part of the node by Koordinator's annotation, with their runtime and kernel values."""

import json
from typing import Final

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.workloads import PERIOD, Workload

SPEC: Final = "node.koordinator.sh/extended-resource-spec"
MI: Final = 1 << 20
LENT: Final = {"shares": 512, "quota": 50_000, "memory": 64 * MI}
"""What half a CPU and 64 MiB come to."""


def lent(cri: Cri, name: str, milli: int = 500, memory: int = 64 * MI) -> Workload:
    """Run a BestEffort pod that was lent this much CPU (milli-cores) and memory (bytes)."""
    amounts = {"kubernetes.io/batch-cpu": milli, "kubernetes.io/batch-memory": memory}
    told = {"containers": {"app": {"requests": amounts, "limits": amounts}}}
    annotations = {SPEC: json.dumps(told)}
    return workloads.run(cri, name, annotations=annotations, parent=kubepods.BESTEFFORT, oom=1000)


def held(workload: Workload) -> dict[str, int]:
    """Return the amounts in the runtime's spec."""
    resources = workload.cri.info(workload.id)["runtimeSpec"]["linux"]["resources"]
    cpu = resources.get("cpu", {})
    limit = resources.get("memory", {}).get("limit", 0)
    return {"shares": cpu.get("shares", 0), "quota": cpu.get("quota", 0), "memory": limit}


def in_force(workload: Workload) -> bool:
    """Return whether the container's cgroup has `LENT`."""
    return (
        cgroups.quota(workload.cgroup) == (LENT["quota"], PERIOD)
        and cgroups.memory_limit(workload.cgroup) == LENT["memory"]
        and cgroups.shares(workload.cgroup) in (LENT["shares"], None)
    )
