"""A CRI client for tests: the kubelet's calls in short form, over grpc.

Pods look like the kubelet's. They have its labels and its cgroup paths, which are made before the sandbox. They are on
the machine's own network (which needs no CNI). The ledger remembers every pod cgroup, so the clean-up finds it in any
case.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

import grpc
from google.protobuf.message import Message

from nri_coloc._pb import cri_pb2, cri_pb2_grpc
from tests.rig import image, kubepods

CALL_SECONDS: Final = 120.0  # as the kubelet's
COMMAND_SECONDS: Final = 300
POD_NAME: Final = "io.kubernetes.pod.name"
"""The kubelet's label on sandboxes and containers."""
_CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Pod:
    """Describe a running pod sandbox."""

    id: str
    uid: str
    name: str
    namespace: str
    cgroup: str
    config: cri_pb2.PodSandboxConfig


class Limits(TypedDict, total=False):
    """Hold resources of a container; a key that is absent is not set, or in an update not changed."""

    shares: int
    quota: int
    period: int
    memory: int
    swap: int
    cpus: str
    mems: str
    oom: int


class Cri:
    """Hold one connection; errors are grpc's own, as a kubelet would see them."""

    def __init__(self, socket: Path, ledger: kubepods.Ledger) -> None:
        self.call_seconds = CALL_SECONDS
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)
        self._runtime: Any = cri_pb2_grpc.RuntimeServiceStub(self._channel)
        self._ledger = ledger
        self._logs = socket.parent / "logs"
        self._cgroups: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def answers(self) -> bool:
        """Return whether CRI is up: it lists pods only after it has recovered its state."""
        try:
            self._runtime.ListPodSandbox(cri_pb2.ListPodSandboxRequest(), timeout=60)
        except grpc.RpcError:
            return False
        return True

    def _call(self, method: str, request: Message, seconds: float | None = None) -> Any:
        """Return the answer to one call; wait for a containerd that is just starting."""
        patience = self.call_seconds if seconds is None else seconds
        return getattr(self._runtime, method)(request, timeout=patience, wait_for_ready=True)

    def version(self) -> str:
        """Return the runtime's own version."""
        reply = self._call("Version", cri_pb2.VersionRequest())
        return str(reply.runtime_version)

    def run_pod(
        self,
        name: str,
        namespace: str = "default",
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        cgroup_parent: str = kubepods.BURSTABLE,
        shares: int = 0,
    ) -> Pod:
        """Return a running pod: its cgroup is made, then its sandbox.

        cgroup_parent: may hold `{uid}`, or `{unit}` in a slice's name.
        shares: the pod's CPU request; 0: the kernel's default, as without a kubelet.
        """
        uid = str(uuid.uuid4())
        cgroup = cgroup_parent.format(uid=uid, unit=uid.replace("-", "_"))
        config = _pod_config(name, namespace, uid)
        config.log_directory = str(self._logs)
        config.annotations.update(annotations or {})
        config.labels.update(labels or {})
        config.linux.cgroup_parent = cgroup
        self._make_cgroup(cgroup)
        if shares:
            self.weigh(cgroup, shares)
        reply = self._call("RunPodSandbox", cri_pb2.RunPodSandboxRequest(config=config))
        return Pod(
            id=reply.pod_sandbox_id, uid=uid, name=name, namespace=namespace, cgroup=cgroup, config=config
        )

    def weigh(self, cgroup: str, shares: int) -> None:
        """Write a pod's CPU request into its cgroup, as the kubelet does before it asks for a container's resize."""
        kubepods.weigh(cgroup, shares)

    def _make_cgroup(self, cgroup: str) -> None:
        self._ledger.add(cgroup)
        kubepods.create(cgroup)

    def create_container(
        self,
        pod: Pod,
        name: str,
        *,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = image.SLEEP,
        mounts: Mapping[str, Path] | None = None,
        attempt: int = 0,
        **limits: Unpack[Limits],
    ) -> str:
        """Return the id of a container that is created and not started.

        mounts: paths inside to files or folders of the machine.
        attempt: how many containers of this name the pod has had before.
        """
        config = cri_pb2.ContainerConfig(
            metadata=cri_pb2.ContainerMetadata(name=name, attempt=attempt),
            image=cri_pb2.ImageSpec(image=image.BUSYBOX),
            command=command,
            envs=[cri_pb2.KeyValue(key=key, value=value.encode()) for key, value in (env or {}).items()],
            mounts=[
                cri_pb2.Mount(container_path=inside, host_path=str(outside))
                for inside, outside in (mounts or {}).items()
            ],
            labels={**pod.config.labels, "io.kubernetes.container.name": name},
            log_path=f"{pod.uid}-{name}-{attempt}.log",
            linux=cri_pb2.LinuxContainerConfig(resources=resources(**limits)),
        )
        config.linux.security_context.namespace_options.network = cri_pb2.NODE
        request = cri_pb2.CreateContainerRequest(
            pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config
        )
        reply = self._call("CreateContainer", request)
        self._cgroups[reply.container_id] = f"{pod.cgroup}/{reply.container_id}"
        return str(reply.container_id)

    def start(self, container: str) -> None:
        """Start a created container."""
        request = cri_pb2.StartContainerRequest(container_id=container)
        self._call("StartContainer", request)

    def run_container(self, pod: Pod, name: str, **limits: Unpack[Limits]) -> str:
        """Return the id of a started container that sleeps."""
        container = self.create_container(pod, name, **limits)
        self.start(container)
        return container

    def stop(self, container: str, grace: int = 0) -> None:
        """Stop a container; without grace it is killed at once."""
        request = cri_pb2.StopContainerRequest(container_id=container, timeout=grace)
        self._call("StopContainer", request)

    def remove(self, container: str, seconds: float | None = None) -> None:
        """Remove a container; a running one is killed."""
        request = cri_pb2.RemoveContainerRequest(container_id=container)
        self._call("RemoveContainer", request, seconds)

    def update(self, container: str, **limits: Unpack[Limits]) -> None:
        """Update a container's resources as the kubelet does for an in-place resize."""
        request = cri_pb2.UpdateContainerResourcesRequest(container_id=container)
        request.linux.CopyFrom(resources(**limits))
        self._call("UpdateContainerResources", request)

    def execute(self, container: str, *command: str) -> str:
        """Return the output of a command inside a container; raises if the command fails."""
        request = cri_pb2.ExecSyncRequest(container_id=container, cmd=command, timeout=COMMAND_SECONDS)
        reply = self._call("ExecSync", request, COMMAND_SECONDS)
        if reply.exit_code:
            raise AssertionError(f"{command} ended with {reply.exit_code}: {reply.stderr.decode()}")
        return str(reply.stdout.decode())

    def status(self, container: str) -> cri_pb2.ContainerStatusResponse:
        """Return the runtime's whole status of a container, `info` included."""
        request = cri_pb2.ContainerStatusRequest(container_id=container, verbose=True)
        reply = self._call("ContainerStatus", request)
        assert isinstance(reply, cri_pb2.ContainerStatusResponse)
        return reply

    def info(self, container: str) -> dict[str, Any]:
        """Return containerd's own view: `pid`, `runtimeSpec`, `config`."""
        found: dict[str, Any] = json.loads(self.status(container).info["info"])
        return found

    def pid(self, container: str) -> int:
        """Return the pid of a container's first process, as the machine sees it."""
        return int(self.info(container)["pid"])

    def cgroup(self, container: str) -> str:
        """Return the path of a container's cgroup below each hierarchy's root."""
        known = self._cgroups.get(container)
        return known or str(self.info(container)["runtimeSpec"]["linux"]["cgroupsPath"])

    def list_pods(self, seconds: float | None = None, *, name: str = "") -> list[str]:
        """Return the ids of all sandboxes, or of the pods with one name."""
        named = cri_pb2.PodSandboxFilter(label_selector={POD_NAME: name} if name else {})
        reply = self._call("ListPodSandbox", cri_pb2.ListPodSandboxRequest(filter=named), seconds)
        return [pod.id for pod in reply.items]

    def list_containers(self, pod: str = "", seconds: float | None = None) -> list[str]:
        """Return the ids of all containers, or of one pod's."""
        request = cri_pb2.ListContainersRequest(filter=cri_pb2.ContainerFilter(pod_sandbox_id=pod))
        reply = self._call("ListContainers", request, seconds)
        return [container.id for container in reply.containers]

    def stop_pod(self, pod: str, seconds: float | None = None) -> None:
        """Stop a sandbox with all its containers."""
        self._call("StopPodSandbox", cri_pb2.StopPodSandboxRequest(pod_sandbox_id=pod), seconds)

    def remove_pod(self, pod: str, seconds: float | None = None) -> None:
        """Stop and remove a sandbox, its containers before it as the kubelet does; a second time does nothing.

        If containerd from 1.7.26 on removes the containers itself, it takes its lock on registrations twice. It then
        hangs for ever when a plugin registers in between.
        """
        self.stop_pod(pod, seconds)
        for container in self.list_containers(pod, seconds):
            self.remove(container, seconds)
        self._call("RemovePodSandbox", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod), seconds)

    def remove_all(self, seconds: float = 60) -> None:
        """Remove every pod, and the pods' cgroups; raises grpc's error if the runtime fails."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda pod: self.remove_pod(pod, seconds), self.list_pods(seconds)))
        for cgroup in self._ledger.cgroups():
            if kubepods.remove(cgroup):
                self._ledger.strike(cgroup)


def resources(**limits: Unpack[Limits]) -> cri_pb2.LinuxContainerResources:
    """Return the resources in the wire's form."""
    return cri_pb2.LinuxContainerResources(
        cpu_shares=limits.get("shares", 0),
        cpu_quota=limits.get("quota", 0),
        cpu_period=limits.get("period", 0),
        memory_limit_in_bytes=limits.get("memory", 0),
        memory_swap_limit_in_bytes=limits.get("swap", 0),
        cpuset_cpus=limits.get("cpus", ""),
        cpuset_mems=limits.get("mems", ""),
        oom_score_adj=limits.get("oom", 0),
    )


def _pod_config(name: str, namespace: str, uid: str) -> cri_pb2.PodSandboxConfig:
    config = cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=name, uid=uid, namespace=namespace),
        labels={
            POD_NAME: name,
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.uid": uid,
        },
    )
    config.linux.security_context.namespace_options.network = cri_pb2.NODE
    return config
