"""The runtime's stored specs of pods and containers, and their changes by answers of plugins.

There are two different merges (nri-protocol §5). An adjustment at creation applies each present field, also an
explicit zero. In an update, zero and empty mean "keep". Fields that a runtime version ignores silently are ignored
silently here too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.nri import version as versions
from nri_coloc.nri.version import NriVersion

NO_REQUEST: Final = Resources(shares=2)
"""The resources that the kubelet gives a container without requests."""


class Phase(Enum):
    CREATED = nri_pb2.CONTAINER_CREATED
    RUNNING = nri_pb2.CONTAINER_RUNNING
    EXITED = nri_pb2.CONTAINER_STOPPED


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The kubelet's request for a pod.

    shares: CPU shares of the pod's cgroup.
    cgroup_root: the kubelet's --cgroup-root without a leading slash, "" for the root of the hierarchy.
    """

    name: str
    namespace: str = "default"
    qos: KubeQoS = KubeQoS.BURSTABLE
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    shares: int = 2
    handler: str = ""
    cgroup_root: str = ""

    def cgroup_parent(self, uid: str) -> str:
        """Return the pod's cgroup under the cgroupfs driver, with a leading slash."""
        level = {KubeQoS.BURSTABLE: "burstable/", KubeQoS.BEST_EFFORT: "besteffort/"}.get(self.qos, "")
        root = f"/{self.cgroup_root}" if self.cgroup_root else ""
        return f"{root}/kubepods/{level}pod{uid}"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The kubelet's request for a container.

    env: number of environment variables, to make the message long.
    mounts: number of mounts, to make the message long.
    variables: further variables as "NAME=value", such as another driver adds.
    broken: the reason of a simulated failure of runc, "" for none.
    """

    name: str
    resources: Resources = NO_REQUEST
    oom_score_adj: int = 1000
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: int = 0
    mounts: int = 0
    variables: tuple[str, ...] = ()
    broken: str = ""


def native(request_milli: int, limit_milli: int | None = None, memory_limit: int | None = None) -> Resources:
    """Return the kubelet's resources for native requests and limits (pkg/kubelet/cm/helpers_linux.go).

    request_milli: thousandths of a CPU.
    limit_milli: thousandths of a CPU, None for no limit.
    memory_limit: bytes, None for no limit.
    """
    quota = None if limit_milli is None else limit_milli * 100
    return Resources(
        shares=max(2, request_milli * 1024 // 1000),
        quota=quota,
        period=None if quota is None else 100_000,
        memory_limit=memory_limit,
    )


@dataclass(slots=True)
class Pod:
    """A sandbox, with its pause container."""

    id: str
    uid: str
    request: PodRequest
    pid: int = 0
    ready: bool = True

    @property
    def cgroup(self) -> str:
        return self.request.cgroup_parent(self.uid).lstrip("/")

    def message(self) -> nri_pb2.PodSandbox:
        request = self.request
        message = nri_pb2.PodSandbox(
            id=self.id,
            name=request.name,
            uid=self.uid,
            namespace=request.namespace,
            annotations=request.annotations,
            runtime_handler=request.handler,
            pid=self.pid,
        )
        message.labels.update(_labels(self) | dict(request.labels))
        # stale after a resize, as in containerd
        message.linux.pod_resources.cpu.shares.value = request.shares
        message.linux.cgroup_parent = f"/{self.cgroup}"
        message.linux.cgroups_path = f"/{self.cgroup}/{self.id}"
        return message


@dataclass(slots=True)
class Container:
    """A container with its stored spec: `resources`, `annotations` and `oom_score_adj` include adjustments.

    attempt: number of earlier containers with this name in the pod.
    """

    id: str
    pod: Pod
    request: ContainerRequest
    resources: nri_pb2.LinuxResources
    annotations: dict[str, str]
    oom_score_adj: int
    created_at: int = 0
    phase: Phase = Phase.CREATED
    stored: bool = False
    stop_told: bool = False
    pid: int = 0
    attempt: int = 0

    @property
    def cgroup(self) -> str:
        return f"{self.pod.cgroup}/{self.id}"

    @property
    def name(self) -> str:
        return f"{self.pod.request.namespace}/{self.pod.request.name}/{self.request.name}"

    def message(self, version: NriVersion) -> nri_pb2.Container:
        message = nri_pb2.Container(
            id=self.id,
            pod_sandbox_id=self.pod.id,
            name=self.request.name,
            state=self.phase.value if self.stored else nri_pb2.CONTAINER_UNKNOWN,
            annotations=self.annotations,
            args=("sleep", "infinity"),
            env=[
                *(f"VARIABLE_{number}=value-{number}" for number in range(self.request.env)),
                *self.request.variables,
            ],
            pid=self.pid,
        )
        message.labels.update(_labels(self.pod) | {"io.kubernetes.container.name": self.request.name})
        for number in range(self.request.mounts):
            message.mounts.add(
                destination=f"/mnt/{number}",
                type="bind",
                source=f"/volumes/{number}",
                options=("rbind", "ro"),
            )
        message.linux.cgroups_path = f"/{self.cgroup}"
        message.linux.oom_score_adj.value = self.oom_score_adj
        message.linux.resources.CopyFrom(self.resources)
        if not versions.has_pod_updates(version):  # `unified` and the time of creation are sent from 0.10 on
            message.linux.resources.ClearField("unified")
        else:
            message.created_at = self.created_at
        return message


def _labels(pod: Pod) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod.request.name,
        "io.kubernetes.pod.namespace": pod.request.namespace,
        "io.kubernetes.pod.uid": pod.uid,
    }


def to_message(resources: Resources, *, as_update: bool = False) -> nri_pb2.LinuxResources:
    """Return resources as an NRI message. In an update, the runtime sends zero for each value that is not set."""
    message = nri_pb2.LinuxResources()
    cpu = message.cpu
    for field_, value in ((cpu.shares, resources.shares), (cpu.quota, resources.quota)):
        if value is not None or as_update:
            field_.value = value or 0
    if resources.period is not None or as_update:
        cpu.period.value = resources.period or 0
    if resources.memory_limit is not None or as_update:
        message.memory.limit.value = resources.memory_limit or 0
    cpu.cpus, cpu.mems = resources.cpus, resources.mems
    return message


def adjust(container: Container, wanted: nri_pb2.ContainerAdjustment, nri: NriVersion, cgroup: int) -> None:
    """Apply an adjustment to the spec of a container during its creation."""
    for key, value in wanted.annotations.items():
        if key.startswith("-"):
            container.annotations.pop(key[1:], None)
        else:
            container.annotations[key] = value
    if wanted.linux.HasField("oom_score_adj") and versions.takes_oom_score_adj(nri):
        container.oom_score_adj = wanted.linux.oom_score_adj.value
    resources = wanted.linux.resources
    if resources.unified and cgroup == 1:
        raise RuntimeRefused("cannot use unified on cgroup v1")
    _overlay(container.resources, resources, explicit=True)


def update(spec: nri_pb2.LinuxResources, wanted: nri_pb2.LinuxResources) -> None:
    """Merge an update into a spec: zero and empty keep the stored value."""
    _overlay(spec, wanted, explicit=False)


def overlay(request: nri_pb2.LinuxResources, answer: nri_pb2.LinuxResources) -> None:
    """Override the kubelet's request with each present field of a plugin's answer."""
    _overlay(request, answer, explicit=True)


def _overlay(spec: nri_pb2.LinuxResources, wanted: nri_pb2.LinuxResources, *, explicit: bool) -> None:
    for name in ("shares", "quota", "period"):
        if wanted.cpu.HasField(name) and (explicit or getattr(wanted.cpu, name).value):
            getattr(spec.cpu, name).value = getattr(wanted.cpu, name).value
    if wanted.cpu.cpus:
        spec.cpu.cpus = wanted.cpu.cpus
    if wanted.cpu.mems:
        spec.cpu.mems = wanted.cpu.mems
    if wanted.memory.limit.value:
        spec.memory.limit.value = wanted.memory.limit.value
    spec.unified.update(wanted.unified)
