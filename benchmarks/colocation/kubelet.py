"""The kubelet's part that the rig leaves out: weights of pods and QoS classes, and the limit of all pods' memory.

Source, Kubernetes' pkg/kubelet/cm: a pod's cgroup has the shares of its requests, `burstable` the sum of its pods',
`besteffort` 2, kubepods those of the allocatable CPUs and a memory limit of the allocatable memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.rig import RigError, cgroups, kubepods

KUBEPODS: Final = "/kubepods"
BURSTABLE: Final = "/kubepods/burstable"
BESTEFFORT: Final = "/kubepods/besteffort"
LEAST_SHARES: Final = 2


def weigh(cgroup: str, shares: int) -> None:
    """Set a cgroup's CPU weight; on v2 by the kubelet's own conversion."""
    if cgroups.is_v2():
        weight = 1 + (shares - 2) * 9999 // 262142
        cgroups.file(cgroup, "cpu", "cpu.weight").write_text(str(weight))
    else:
        cgroups.file(cgroup, "cpu", "cpu.shares").write_text(str(shares))


def used_us(cgroup: str) -> int:
    """Return the CPU time that a cgroup has used, in microseconds."""
    if not cgroups.is_v2():
        return int(cgroups.file(cgroup, "cpuacct", "cpuacct.usage").read_text()) // 1000
    line = next(
        x for x in cgroups.file(cgroup, "cpu", "cpu.stat").read_text().splitlines() if "usage_usec" in x
    )
    return int(line.split()[1])


@contextmanager
def node(allocatable: int) -> Iterator[None]:
    """Set up a node with this many bytes for pods; restore its original values at the end."""
    if kubepods.processes(KUBEPODS):
        raise RigError(f"there are pods in {KUBEPODS} already: this is for a machine without any")
    was_there = bool(kubepods.folders(KUBEPODS))
    kubepods.create(BURSTABLE)
    kubepods.create(BESTEFFORT)
    weigh(BESTEFFORT, LEAST_SHARES)
    limit = cgroups.file(KUBEPODS, "memory", "memory.max" if cgroups.is_v2() else "memory.limit_in_bytes")
    before = limit.read_text()
    weigh(KUBEPODS, 1024 * len(cgroups.online()))
    limit.write_text(str(allocatable))
    try:
        yield
    finally:
        if not was_there:
            kubepods.remove(KUBEPODS)
        elif limit.exists():
            limit.write_text(before if cgroups.is_v2() else "-1")
