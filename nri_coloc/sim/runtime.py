"""Simulate a container runtime: containerd's order of hooks, its one lock, and its stored state.

The state survives `kill` and `listen`, as containerd's state survives its process: sandboxes, specs with all
adjustments of plugins, and running containers with their cgroups. A plugin that fails or is late is dropped, and the
operation continues. If a plugin refuses a hook, the operation fails in the same cases as in containerd.

An update of a container without a cgroup changes only its spec. While a container is started, the lock is held, so no
other operation runs between the creation of its cgroup and its StartContainer.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.core.workload import Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.nri import version as versions
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import runc, spec
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.sim.identity import Identity
from nri_coloc.sim.plugin_link import Containers, Pods, Updates
from nri_coloc.sim.plugins import Plugins
from nri_coloc.sim.processes import ProcessTable
from nri_coloc.sim.spec import Container, ContainerRequest, Phase, Pod, PodRequest

TRACE_LENGTH: Final = 10_000
PAUSE_OOM_SCORE_ADJ: Final = -998


@dataclass(frozen=True, slots=True)
class Told:
    """One hook that the runtime sent: its duration in seconds and the number of plugins that answered."""

    kind: HookKind
    pod_id: str
    container_id: str
    seconds: float
    answers: int


class Runtime:
    """A runtime. Each public operation is a CRI call: one at a time, with containerd's order of hooks.

    Size: one method for each CRI call and its hooks, under one lock.
    """

    def __init__(
        self,
        socket: Path,
        tree: CgroupTree,
        processes: ProcessTable,
        version: str = "2.1.9",
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.version = version
        self.lock = RLock()
        self.plugins = Plugins(socket, version, self.lock, self._snapshot, self._apply_asked)
        self.pods: dict[str, Pod] = {}
        self.containers: dict[str, Container] = {}
        self.trace: deque[Told] = deque(maxlen=TRACE_LENGTH)
        self.failures: list[str] = []
        self._tree = tree
        self._processes = processes
        self._clock = clock
        self._identity = Identity()
        self._before_restart: frozenset[str] = frozenset()

    # ---- the process ----

    def listen(self) -> None:
        """Start, or restart after `kill`. After a restart, end events of older pods are not sent (§6.4)."""
        self._before_restart = frozenset(self.pods)
        self.plugins.listen()

    def kill(self) -> None:
        """End the process: the socket is removed, connections close, containers keep running."""
        self.plugins.close()

    # ---- pods ----

    def run_pod(self, request: PodRequest, uid: str = "") -> str:
        """Run a sandbox in the pod's cgroup, which the kubelet created, and return its id."""
        with self.lock:
            pod = Pod(self._identity.runtime_id(), uid or self._identity.uid(), request)
            pause = f"{pod.cgroup}/{pod.id}"
            runc.create(self._tree, pause, nri_pb2.LinuxResources())
            pod.pid = self._processes.spawn(pause, PAUSE_OOM_SCORE_ADJ)
            self._tree.enter(pause, pod.pid)
            self.pods[pod.id] = pod
            try:
                self._tell(HookKind.RUN_POD_SANDBOX, pod)
            except RuntimeRefused:
                self.stop_pod(pod.id)
                self.remove_pod(pod.id)
                raise
            return pod.id

    def update_pod(self, pod_id: str, resources: Resources) -> None:
        """Send a pod's new resources to the plugins. Versions before 2.2 send nothing; no version changes its state."""
        with self.lock:
            if versions.has_pod_updates(self.plugins.version):
                told = spec.to_message(resources, as_update=True)
                for _ in self._ask(HookKind.UPDATE_POD_SANDBOX, self._pod(pod_id), None, told):
                    pass

    def stop_pod(self, pod_id: str) -> None:
        """Stop all containers, then the sandbox; do nothing if it is stopped."""
        with self.lock:
            pod = self._pod(pod_id)
            for container in self.of_pod(pod_id):
                self.stop(container.id)
            if pod.ready:
                pod.ready = False
                self._processes.end(pod.pid)
                self._tree.remove(f"{pod.cgroup}/{pod.id}")
                self._tell_end(HookKind.STOP_POD_SANDBOX, pod)

    def remove_pod(self, pod_id: str) -> None:
        """Stop and remove a sandbox with all its containers."""
        with self.lock:
            pod = self._pod(pod_id)
            self.stop_pod(pod_id)
            for container in self.of_pod(pod_id):
                self.remove(container.id)
            self._tell_end(HookKind.REMOVE_POD_SANDBOX, pod)
            del self.pods[pod_id]

    # ---- containers ----

    def create(self, pod_id: str, request: ContainerRequest) -> str:
        """Create a container with the plugins' adjustments, without a cgroup, and return its id."""
        with self.lock:
            pod = self._pod(pod_id)
            container = Container(
                id=self._identity.runtime_id(),
                pod=pod,
                request=request,
                resources=spec.to_message(request.resources),
                annotations=dict(request.annotations),
                oom_score_adj=request.oom_score_adj,
                created_at=self._clock(),
                attempt=sum(one.request.name == request.name for one in self.of_pod(pod_id)),
            )
            try:
                self._adjust(container)
            except RuntimeRefused:
                self._undo(container)
                raise
            container.stored = True
            self.containers[container.id] = container
            self._tell_only(HookKind.POST_CREATE_CONTAINER, container)
            return container.id

    def start(self, container_id: str) -> None:
        """Create the task, send the hooks, and mark the container as running."""
        with self.lock:
            container = self._container(container_id)
            if container.phase is not Phase.CREATED:
                raise RuntimeRefused(f"container {container_id} is {container.phase.name.lower()}")
            self._make_task(container)
            try:
                container.pid = self._processes.spawn(container.cgroup, container.oom_score_adj)
                self._tree.enter(container.cgroup, container.pid)
                self._tell(HookKind.START_CONTAINER, container.pod, container)
            except RuntimeRefused:
                self._end(container)
                raise
            container.phase = Phase.RUNNING
            self._tell_only(HookKind.POST_START_CONTAINER, container)

    def update(
        self, container_id: str, requested: Resources, unified: Mapping[str, str] | None = None
    ) -> None:
        """Change resources as the kubelet does: the plugins get the request and may override parts of it."""
        with self.lock:
            container = self._container(container_id)
            wanted = spec.to_message(requested, as_update=True)
            wanted.unified.update(unified or {})
            for answer in self._ask(HookKind.UPDATE_CONTAINER, container.pod, container, wanted):
                own = [update for update in answer.update if update.container_id == container_id]
                self._apply([update for update in answer.update if update.container_id != container_id])
                for update in own:
                    if not update.linux.HasField("resources"):  # an empty answer wins over the request
                        wanted.Clear()
                    spec.overlay(wanted, update.linux.resources)
            self._change(container, wanted)
            self._tell_only(HookKind.POST_UPDATE_CONTAINER, container)

    def stop(self, container_id: str) -> None:
        """End a container and send its event once; do nothing if it has ended."""
        with self.lock:
            self._end(self._container(container_id))

    def remove(self, container_id: str) -> None:
        """Stop and remove a container."""
        with self.lock:
            container = self._container(container_id)
            self._end(container)
            self._tell_only(HookKind.REMOVE_CONTAINER, container)
            del self.containers[container_id]

    def of_pod(self, pod_id: str) -> list[Container]:
        """Return a pod's containers in the order of their creation."""
        return [container for container in self.containers.values() if container.pod.id == pod_id]

    # ---- steps of the operations ----

    def _make_task(self, container: Container) -> None:
        """Create a container's cgroup with runc. If that fails, the container has exited, and plugins get no event."""
        try:
            runc.create(self._tree, container.cgroup, container.resources, container.request.broken)
        except RuntimeRefused:
            self._tree.remove(container.cgroup)
            container.phase = Phase.EXITED
            raise

    def _adjust(self, container: Container) -> None:
        updates: list[nri_pb2.ContainerUpdate] = []
        pinned: set[str] = set()
        for answer in self._ask(HookKind.CREATE_CONTAINER, container.pod, container):
            named = {update.container_id for update in answer.update if update.linux.resources.cpu.cpus}
            named |= {container.id} if answer.adjust.linux.resources.cpu.cpus else set()
            if pinned & named:  # also if both name the same CPUs (nri-protocol §7)
                raise RuntimeRefused(f"plugins both tried to set CPU pinning of {min(pinned & named)}")
            pinned |= named
            if any(update.container_id == container.id for update in answer.update):
                raise RuntimeRefused(f"a plugin asked update of {container.id} during creation")
            spec.adjust(container, answer.adjust, self.plugins.version, self._tree.version)
            updates += answer.update
        self._apply(updates)

    def _undo(self, container: Container) -> None:
        """Send the end events of a container whose creation failed, as containerd does."""
        self._end(container)
        self._tell_only(HookKind.REMOVE_CONTAINER, container)

    def _end(self, container: Container) -> None:
        if container.phase is Phase.EXITED:
            return
        container.phase = Phase.EXITED
        self._processes.end(container.pid)
        self._tree.remove(container.cgroup)
        container.pid = 0
        with suppress(RuntimeRefused):  # containerd logs it and continues
            for answer in self._ask(HookKind.STOP_CONTAINER, container.pod, container):
                self._apply(answer.update)

    def _change(self, container: Container, wanted: nri_pb2.LinuxResources) -> None:
        """Merge an update into the stored spec and a running container's files. If runc refuses it, the spec stays."""
        merged = nri_pb2.LinuxResources()
        merged.CopyFrom(container.resources)
        spec.update(merged, wanted)
        if container.phase is Phase.RUNNING:
            runc.update(self._tree, container.cgroup, merged)
        container.resources = merged

    def _apply(self, updates: Updates) -> list[nri_pb2.ContainerUpdate]:
        """Apply plugins' updates and return the failed ones. Unknown containers are skipped."""
        failed = []
        for update in updates:
            container = self.containers.get(update.container_id)
            if container is None:
                continue
            try:
                self._change(container, update.linux.resources)
            except RuntimeRefused as error:
                self.failures.append(f"{container.name}: {error}")
                failed.append(update)
        return failed

    def _apply_asked(self, updates: Updates) -> list[nri_pb2.ContainerUpdate]:
        with self.lock:
            return [update for update in self._apply(updates) if not update.ignore_failure]

    # ---- hooks to the plugins ----

    def _tell(self, kind: HookKind, pod: Pod, container: Container | None = None) -> None:
        for _ in self._ask(kind, pod, container):
            pass

    def _tell_only(self, kind: HookKind, container: Container) -> None:
        """Send an event that no plugin can stop: a refusal is only recorded in `failures`, as containerd logs it."""
        try:
            self._tell(kind, container.pod, container)
        except RuntimeRefused as error:
            self.failures.append(str(error))

    def _tell_end(self, kind: HookKind, pod: Pod) -> None:
        if pod.id in self._before_restart:
            return
        try:
            self._tell(kind, pod)
        except RuntimeRefused as error:
            self.failures.append(str(error))

    def _ask(
        self,
        kind: HookKind,
        pod: Pod,
        container: Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> Iterator[Any]:
        told = container.message(self.plugins.version) if container else None
        with self._traced(kind, pod, container) as answers:
            for answer in self.plugins.ask(kind, pod.message(), told, resources):
                answers.append(answer)
                yield answer
                if told is not None and container is not None and kind is HookKind.CREATE_CONTAINER:
                    told.CopyFrom(container.message(self.plugins.version))  # as adjusted so far

    @contextmanager
    def _traced(self, kind: HookKind, pod: Pod, container: Container | None) -> Iterator[list[Any]]:
        answers: list[Any] = []
        began = time.monotonic()
        try:
            yield answers
        finally:
            seconds = time.monotonic() - began
            self.trace.append(Told(kind, pod.id, container.id if container else "", seconds, len(answers)))

    # ---- state ----

    def _snapshot(self) -> tuple[Pods, Containers]:
        live = [one for one in self.containers.values() if one.phase is not Phase.EXITED]
        messages = [container.message(self.plugins.version) for container in live]
        return [pod.message() for pod in self.pods.values()], messages

    def _pod(self, pod_id: str) -> Pod:
        try:
            return self.pods[pod_id]
        except KeyError as error:
            raise RuntimeRefused(f"sandbox {pod_id} not found") from error

    def _container(self, container_id: str) -> Container:
        try:
            return self.containers[container_id]
        except KeyError as error:
            raise RuntimeRefused(f"container {container_id} not found") from error
