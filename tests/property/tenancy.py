"""A node on which a tenant's pod lives beside other containers: the kubelet, the runtime and the daemon's decisions.

Messages go through the daemon's own translation; pods' cgroups are a table of one file each; the runtime keeps specs
and records as containerd does, so that a restart of the daemon finds them again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Literal

from nri_coloc._pb import nri_pb2
from nri_coloc.core import knobs
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import ContainerGone, ContainerUpdating, Event, Outcome, PodRemoved
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import Container, KubeQoS, Numa, QoSClass, Resources, Wish
from nri_coloc.hooks.pod_requests import PodRequests
from nri_coloc.hooks.requests_again import EVERY_S, RequestsAgain
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from nri_coloc.placing import admission, pools, protection, record, supply
from nri_coloc.placing.node import Node
from tests.property.tenants import GIB, ContainerSpec, Figures, Kind, TenantPod
from tests.rig import told
from tests.unit.parts import a_translator, listed
from tests.unit.placing.kit import machine

MEMORY: Final = 32 * GIB

DATABASE: Final = TenantPod(
    (ContainerSpec("db", Figures(2000, 2000, GIB, GIB)),),
    annotations={"coloc.nri.io/qos-class": "dedicated"},
    namespace="data",
    name="db",
)
WEB: Final = TenantPod(
    (ContainerSpec("web", Figures(500, 2000, GIB, 2 * GIB)),), namespace="front", name="web"
)
GOLD: Final = TenantPod((ContainerSpec("vip", Figures(2000)),), labels={"tier": "gold"}, name="vip")


@dataclass
class Kubelet:
    """Write pods' requests as a kubelet does.

    version: version of cgroups.
    mapping: from shares to weights.
    tells: whether the runtime also gets the request.
    is_per_qos: whether it makes cgroups for pods (`cgroupsPerQOS`).
    updates_pods: whether the runtime reports resizes of pods (UpdatePodSandbox).
    named: the CPUs that its static CPU manager writes into every spec, "" without one.
    shows_memory: whether the memory limits of pods' cgroups are the kubelet's; else they cannot be read.
    """

    version: Literal[1, 2] = 1
    mapping: Callable[[int], int] = knobs.cpu_weight
    tells: bool = True
    is_per_qos: bool = True
    updates_pods: bool = True
    named: str = ""
    shows_memory: bool = True
    files: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)

    def write(self, path: str, shares: int) -> None:
        self.files[path.lstrip("/")] = str(shares if self.version == 1 else self.mapping(shares))

    def write_limit(self, path: str, limit: int) -> None:
        self.limits[path.lstrip("/")] = str(limit)

    def text(self, path: str, controller: Literal["cpu", "memory"], _name: str) -> str | None:
        if controller == "memory":
            return self.limits.get(path) if self.shows_memory else None
        return self.files.get(path)

    def originals(self, _path: str) -> dict[str, str]:
        return {}


class Tenancy:
    """Run a node with these settings; every method lets the daemon decide, and the runtime keeps the answer."""

    def __init__(self, tuning: Tuning, kubelet: Kubelet, topology: str = "8cpu") -> None:
        self.kubelet, self.tuning, self._topology = kubelet, tuning, topology
        kubelet.write("kubepods/besteffort", 2)
        self.pods: dict[str, nri_pb2.PodSandbox] = {}
        self.containers: dict[str, nri_pb2.Container] = {}
        self._ages = count(1)
        self.start_daemon()

    # ---- the daemon ----

    def stop_daemon(self) -> None:
        """Stop the daemon: until its start the kubelet's writes reach only cgroups and specs."""
        self.is_away = True

    def start_daemon(self) -> None:
        """Start the daemon, or start it again; the runtime sends it all pods and containers."""
        self.is_away = False
        state = pools.initial(machine(self._topology), self.tuning)
        self.node = Node(state, self.tuning, MEMORY)
        self._translator = a_translator(self.tuning, PodRequests(self.kubelet, self.kubelet.version))
        pods = map(told.pod, self.pods.values())
        containers = map(told.container, self.containers.values())
        found = listed(self._translator, list(pods), list(containers))
        self._decide(self._translator.synchronized(found.pods, found.containers, self.state, self.tuning))

    def list_again(self) -> None:
        """Let the runtime send all pods and containers to the same process again, as after a lost connection."""
        self.is_away = False
        pods, containers = map(told.pod, self.pods.values()), map(told.container, self.containers.values())
        found = listed(self._translator, list(pods), list(containers))
        self._decide(self._translator.synchronized(found.pods, found.containers, self.state, self.tuning))

    @property
    def state(self) -> NodeState:
        return self.node.state

    def wait_for_a_look(self) -> None:
        """Let the daemon read the requests in pods' cgroups again, as it does every ten seconds."""
        RequestsAgain(self.node, self._translator, ()).look(EVERY_S)
        self._keep_orders()

    def _decide(self, event: Event) -> Outcome:
        outcome = self.node.decide(event)
        self._keep_orders()
        return outcome

    def _keep_orders(self) -> None:
        for container_id, message in self.containers.items():
            if container_id in self.state.containers:
                orders = admission.orders(self.state, self.state.containers[container_id])
                _lay_over(message, orders)

    # ---- pods ----

    def run(self, pod: TenantPod) -> None:
        """Run a pod until all its main containers run; init containers have ended by then."""
        self.start_pod(pod)
        for container in pod.containers:
            self.create(pod, container)
            if container.kind is Kind.INIT:
                self.end(pod, container)

    def start_pod(self, pod: TenantPod) -> None:
        message = nri_pb2.PodSandbox(id=pod.name, name=pod.name, uid=pod.name, namespace=pod.namespace)
        message.annotations.update(pod.annotations)
        message.labels.update(pod.labels)
        message.linux.cgroup_parent = self._parent(pod)
        if self.kubelet.is_per_qos:
            self.kubelet.write(message.linux.cgroup_parent, pod.shares)
            self.kubelet.write_limit(message.linux.cgroup_parent, pod.cgroup_limit)
        if self.kubelet.tells:
            message.linux.pod_resources.cpu.shares.value = pod.shares
            if pod.memory_limit:
                message.linux.pod_resources.memory.limit.value = pod.memory_limit
        self._decide(self._translator.pod_started(hook_of(HookKind.RUN_POD_SANDBOX, message), self.tuning))
        self.pods[pod.name] = message

    def create(self, pod: TenantPod, container: ContainerSpec) -> None:
        message = self._message(pod, container)
        hook = hook_of(HookKind.CREATE_CONTAINER, self.pods[pod.name], message)
        self._decide(self._translator.creating(hook, self.state, self.tuning))
        created = self.state.containers[message.id]
        _lay_over(message, created.knobs)
        message.annotations["coloc.nri.io/record"] = record.write(created)
        message.state = nri_pb2.CONTAINER_RUNNING
        self.containers[message.id] = message
        hook = hook_of(HookKind.START_CONTAINER, self.pods[pod.name], message)
        self._decide(self._translator.starting(hook, self.state, self.tuning, running=False))

    def resize(self, before: TenantPod, after: TenantPod) -> None:
        """Resize a pod in place, as a kubelet does."""
        for _ in self.steps_of_resize(before, after):
            pass

    def steps_of_resize(self, before: TenantPod, after: TenantPod) -> Iterator[None]:
        """Resize a pod in place, and yield after each write of the kubelet: a daemon may stop or start there.

        The pod's cgroup comes first if it grows, last if it shrinks. Memory comes before CPU, and containers that
        shrink come before growing ones (pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodResizeAction,
        doPodResizeAction and updatePodContainerResources).
        """
        parent = self.pods[after.name].linux.cgroup_parent
        if after.cgroup_limit > before.cgroup_limit:
            self.kubelet.write_limit(parent, after.cgroup_limit)
            yield
        there = [
            (new, before.resources_of(old), after.resources_of(new), old.figures.defaulted())
            for old, new in zip(before.containers, after.containers, strict=True)
            if f"{after.name}-{new.name}" in self.containers
        ]
        for container, had, asked, _ in there:
            if had.memory_limit != asked.memory_limit:
                self._update(after, container, replace(had, memory_limit=asked.memory_limit))
                yield
        if after.cgroup_limit < before.cgroup_limit:
            self.kubelet.write_limit(parent, after.cgroup_limit)
            yield
        if after.shares > before.shares:
            self.kubelet.write(parent, after.shares)
            yield
        differing = [
            (container, asked)
            for container, had, asked, figures in there
            if figures != container.figures.defaulted() and _of_cpu(had) != _of_cpu(asked)
        ]
        for container, asked in sorted(differing, key=lambda each: each[1].shares or 0):
            self._update(after, container, asked)
            yield
        if after.shares < before.shares:
            self.kubelet.write(parent, after.shares)
            yield
        if self.kubelet.updates_pods:
            self._update_pod(after)
            yield

    def _update(self, pod: TenantPod, container: ContainerSpec, asked: Resources) -> None:
        message, wanted = self.containers[f"{pod.name}-{container.name}"], nri_pb2.Container()
        if self.is_away:
            _write(message, asked)
            return
        _write(wanted, asked)
        hook = hook_of(HookKind.UPDATE_CONTAINER, self.pods[pod.name], message)
        hook = hook._replace(resources=told.resources(wanted.linux.resources))
        event = self.updating(hook)
        _write(message, asked)
        self._decide(event)

    def updating(self, hook: Hook) -> ContainerUpdating:
        """Return the event of a container's update."""
        return self._translator.updating(hook, self.state, self.tuning)

    def _update_pod(self, pod: TenantPod) -> None:
        if self.is_away:
            return
        wanted = nri_pb2.LinuxResources()
        wanted.cpu.shares.value = pod.shares
        hook = hook_of(HookKind.UPDATE_POD_SANDBOX, self.pods[pod.name])
        hook = hook._replace(resources=told.resources(wanted))
        event = self._translator.pod_resized(hook, self.state, self.tuning)
        if event is not None:
            self._decide(event)

    def end(self, pod: TenantPod, container: ContainerSpec) -> None:
        container_id = f"{pod.name}-{container.name}"
        self.containers.pop(container_id, None)
        self._decide(ContainerGone(container_id))

    def remove(self, pod: TenantPod) -> None:
        del self.pods[pod.name]
        self.containers = {k: each for k, each in self.containers.items() if each.pod_sandbox_id != pod.name}
        self._decide(PodRemoved(pod.name))

    def _parent(self, pod: TenantPod) -> str:
        return pod.cgroup_parent(pod.name) if self.kubelet.is_per_qos else ""

    def _message(self, pod: TenantPod, container: ContainerSpec) -> nri_pb2.Container:
        message = nri_pb2.Container(
            id=f"{pod.name}-{container.name}", pod_sandbox_id=pod.name, name=container.name
        )
        message.env.extend(container.variables)
        message.created_at = next(self._ages)
        message.linux.oom_score_adj.value = pod.oom_score_adj(container, MEMORY)
        message.linux.cgroups_path = f"{self._parent(pod)}/{message.id}"
        _write(message, pod.resources_of(container))
        message.linux.resources.cpu.cpus = self.kubelet.named
        return message

    # ---- readings ----

    def cpus(self, container_id: str) -> CPUMask:
        return self.state.cpus_of(self.state.containers[container_id])

    def owned(self, pod: TenantPod) -> int:
        """Return how many CPUs the containers of a pod own."""
        return sum(each.exclusive.bit_count() for each in self.state.of_pod(pod.name))


def memory_left(node: Tenancy) -> int:
    """Return the memory that all nodes have left for the next bound container, bytes."""
    asked = Container("next", "next", resources=Resources(memory_limit=1))
    room = supply.room(node.state, asked, Wish(QoSClass.DEDICATED, numa=Numa.SINGLE), 0)
    return sum(amount for _, amount in room.left)


class Memory:
    """Hold the OOM scores of a tenant's containers, which an in-place resize leaves as they were at the creation.

    before: the memory that was left for bound containers without the tenant, bytes.
    """

    def __init__(self, node: Tenancy, pod: TenantPod, before: int) -> None:
        self._node, self._before = node, before
        self._scores = {each.name: pod.oom_score_adj(each, MEMORY) for each in pod.containers}

    def created(self, pod: TenantPod, container: ContainerSpec) -> None:
        self._scores[container.name] = pod.oom_score_adj(container, MEMORY)

    def allowed(self, pod: TenantPod) -> int:
        """Return the most memory that may be protected, bytes.

        Of a Burstable container whose request alone was lowered the former request counts (docs/annotations.md).
        """
        if pod.qos is not KubeQoS.BURSTABLE:
            return pod.memory_request
        told = [(MEMORY * (1000 - self._scores[each.name]) // 1000, each) for each in pod.containers]
        limits = [pod.resources_of(each).memory_limit or amount for amount, each in told]
        former = [amount for (amount, _), limit in zip(told, limits, strict=True) if amount <= limit]
        return max([pod.memory_request, *former])

    def is_within(self, pod: TenantPod) -> None:
        state = self._node.state
        assert protection.of_pod(state, pod.name).amount <= self.allowed(pod)
        assert self._before - memory_left(self._node) <= self.allowed(pod)


def hook_of(kind: HookKind, pod: nri_pb2.PodSandbox, container: nri_pb2.Container | None = None) -> Hook:
    about = None if container is None else told.container(container)
    return Hook(Call(1, kind.value, 0), kind, told.pod(pod), about, None)


def _of_cpu(resources: Resources) -> tuple[int | None, int | None]:
    return resources.shares, resources.quota


def _write(message: nri_pb2.Container, resources: Resources) -> None:
    cpu = message.linux.resources.cpu
    cpu.shares.value, cpu.quota.value = resources.shares or 0, resources.quota or 0
    cpu.period.value = resources.period or 0
    if resources.memory_limit:
        message.linux.resources.memory.limit.value = resources.memory_limit


def _lay_over(message: nri_pb2.Container, ours: Knobs) -> None:
    """Put our values into a stored spec, as the answer to a creation and a push do."""
    cpu = message.linux.resources.cpu
    cpu.cpus, cpu.mems = ours.cpus or cpu.cpus, ours.mems or cpu.mems
    for name in ("shares", "quota", "period"):
        if getattr(ours, name) is not None:
            getattr(cpu, name).value = getattr(ours, name)
    if ours.memory_limit is not None:
        message.linux.resources.memory.limit.value = ours.memory_limit
    if ours.oom_score_adj is not None:
        message.linux.oom_score_adj.value = ours.oom_score_adj
