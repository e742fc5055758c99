"""From the wire's messages to the model: the only translator inward.

Only the fields that placement uses are touched; mounts and devices are never decoded further, and of the
environment only the DRA CPU driver's variables. What
a stranger could abuse is dropped here: a record annotation counts only where the pod carries no such key, since
a runtime may be configured to copy pod annotations onto containers.
"""

from collections.abc import Iterable
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.workload import RECORD_KEY, Container, Phase, Pod, Resources

_CLAIM_PREFIX: Final = "DRA_CPUSET_"
"""Before a claim's uid in the name of a variable whose value is a cpulist (kubernetes-sigs/dra-driver-cpu)."""

_PHASES: Final = {nri_pb2.CONTAINER_RUNNING: Phase.RUNNING, nri_pb2.CONTAINER_PAUSED: Phase.RUNNING}


def pod_of(message: nri_pb2.PodSandbox) -> Pod:
    """Read a pod."""
    return Pod(
        id=message.id,
        uid=message.uid,
        name=message.name,
        namespace=message.namespace,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        cgroup_parent=message.linux.cgroup_parent,
        handler=message.runtime_handler,
        resources=resources_of(message.linux.pod_resources),
        overhead_bytes=max(0, message.linux.pod_overhead.memory.limit.value),
    )


def container_of(message: nri_pb2.Container, pod: Pod) -> Container:
    """Read a container of a pod that was read before."""
    linux = message.linux
    record = "" if RECORD_KEY in pod.annotations else message.annotations.get(RECORD_KEY, "")
    resources = resources_of(linux.resources)
    return Container(
        message.id,
        message.pod_sandbox_id or pod.id,
        message.name,
        _PHASES.get(message.state, Phase.CREATED),
        message.pid,
        linux.cgroups_path,
        message.created_at,
        record,
        linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None,
        resources,
        # only what another plugin has pinned can be such a one, and a creation mostly names no CPUs yet
        _claimed(message.env) if resources.cpus else 0,
    )


def _claimed(env: Iterable[str]) -> CPUMask:
    """Return the CPUs of all claims in an environment; 0 for none, and if one of them is no cpulist."""
    union = 0
    for variable in env:
        if variable.startswith(_CLAIM_PREFIX):
            try:
                union |= cpuset.parse(variable.partition("=")[2])
            except ValueError:
                return 0
    return union


def resources_of(message: nri_pb2.LinuxResources) -> Resources:
    """Read resources; a wrapper that is absent is None, in an update a zero means "keep"."""
    cpu, memory = message.cpu, message.memory
    return Resources(
        cpu.shares.value if cpu.HasField("shares") else None,
        cpu.quota.value if cpu.HasField("quota") else None,
        cpu.period.value if cpu.HasField("period") else None,
        cpu.cpus,
        cpu.mems,
        memory.limit.value if memory.HasField("limit") else None,
    )
