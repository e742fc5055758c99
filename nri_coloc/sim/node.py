"""Simulate a node in a folder: machine, cgroups, runtime, CRI, the kubelet's part, and the workload.

    folder/host      the daemon's "/": sys and proc
    folder/run       the sockets of NRI and CRI

The daemon runs unchanged against it, as its own process. `tick` or `start_clock` moves the time. The other threads
belong to the runtime.
"""

import errno
import uuid
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import BentCgroupTree, CgroupTree
from nri_coloc.sim.cri_server import CriServer
from nri_coloc.sim.identity import Identity
from nri_coloc.sim.kernel import Kernel
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.processes import ProcessTable
from nri_coloc.sim.runtime import Runtime
from nri_coloc.sim.spec import Container, ContainerRequest, PodRequest
from nri_coloc.sim.ticker import PERIOD_S, Ticker
from nri_coloc.sim.workload import Load, Workload


class Node:
    """A simulated node. Use it in a `with` block, or call `start` and `close`.

    Size: one method for each action of a test or the demo on a node.
    """

    def __init__(
        self,
        folder: Path,
        machine: str = "8cpu",
        *,
        cgroup: int = 2,
        runtime_version: str = "2.1.9",
        cgroup_root: str = "",
        bent_weights: bool = False,
    ) -> None:
        self._cgroup_root = cgroup_root
        self._machine = spec = machines.MACHINES[machine]
        topology = machines.topology(spec)
        self.host_root = folder / "host"
        self.nri_socket = folder / "run/nri.sock"
        self.cri_socket = folder / "run/cri.sock"
        machines.plant(spec, self.host_root)
        self._boot()
        tree_of = BentCgroupTree if bent_weights else CgroupTree
        self.tree = tree_of(
            self.host_root,
            cgroup,
            topology.online,
            topology.all_mems,
            legacy=spec.legacy,
            psi=spec.psi,
        )
        self._kernel = Kernel(self.tree) if cgroup == 2 else None
        self.tree.plant(self.kubepods)
        self.processes = ProcessTable(self.host_root, cgroup)
        self.runtime = Runtime(self.nri_socket, self.tree, self.processes, runtime_version)
        self.cri = CriServer(self.cri_socket, self.runtime)
        self.workload = Workload(self.tree, self.host_root, topology.online)
        self._identity = Identity()
        self._ticker: Ticker | None = None

    def _boot(self) -> None:
        """Write a boot id, as the kernel does (proc_sys_kernel(5))."""
        file = self.host_root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{uuid.uuid4()}\n")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the kernel's thread and the runtime."""
        if self._kernel:
            self._kernel.start()
        self.start_runtime()

    def close(self) -> None:
        """Stop the runtime and all threads; the files stay."""
        self.kill_runtime()
        if self._ticker:
            self._ticker.close()
            self._ticker = None
        self.workload.close()
        if self._kernel:
            self._kernel.close()

    def start_runtime(self) -> None:
        """Start or restart the runtime's process."""
        self.runtime.listen()
        self.cri.listen()

    def kill_runtime(self) -> None:
        """End the runtime's process: both sockets are removed, the containers stay."""
        self.cri.close()
        self.runtime.kill()

    # ---- the kubelet's calls, with its own writes ----

    @property
    def kubepods(self) -> str:
        """Return the kubelet's cgroup for pods, below the hierarchy's root."""
        return f"{self._cgroup_root}/kubepods".lstrip("/")

    def replace_kubelet(self, cgroup_root: str) -> None:
        """Start another kubelet with another cgroup root; the pods of the first kubelet keep running."""
        self._cgroup_root = cgroup_root
        for path in (
            cgroup_root,
            self.kubepods,
            *(f"{self.kubepods}/{name}" for name in ("burstable", "besteffort")),
        ):
            self.tree.make(path)
        self.tree.write(f"{self.kubepods}/besteffort", *self.tree.weight(2))

    def run_pod(self, request: PodRequest) -> str:
        """Create the pod's cgroup, then its sandbox; return the sandbox's id."""
        request = replace(request, cgroup_root=self._cgroup_root)
        uid = self._identity.uid()
        cgroup = request.cgroup_parent(uid).lstrip("/")
        self.tree.make(cgroup)
        self.tree.write(cgroup, *self.tree.weight(request.shares))
        try:
            pod_id = self.runtime.run_pod(request, uid)
        except RuntimeRefused:
            self.tree.remove(cgroup)
            raise
        self._weigh_classes()
        return pod_id

    def limit_pod(self, pod_id: str, quota: int) -> None:
        """Write the CPU quota of a pod's cgroup, in µs; raise OSError (EINVAL) if a kernel would refuse it."""
        path = self.runtime.pods[pod_id].cgroup
        if not self.tree.takes_quota(path, quota):
            raise OSError(errno.EINVAL, "Invalid argument", f"/{path}")
        if self.tree.version == 1:
            self.tree.write(path, "cpu.cfs_quota_us", str(quota))
        else:
            self.tree.write(path, "cpu.max", f"{quota if quota >= 0 else 'max'} 100000")

    def run_container(self, pod_id: str, request: ContainerRequest, load: Load | None = None) -> str:
        """Create and start a container, return its id; `load` is the CPU that it wants."""
        container_id = self.runtime.create(pod_id, request)
        self.runtime.start(container_id)
        if load is not None:
            self.workload.attach(self.runtime.containers[container_id].cgroup, load)
        return container_id

    def resize_pod(self, pod_id: str, shares: int) -> None:
        """Change a pod's CPU request: write it into the pod's cgroup, then call the runtime."""
        self.tree.write(self.runtime.pods[pod_id].cgroup, *self.tree.weight(shares))
        self.runtime.update_pod(pod_id, Resources(shares=shares))

    def remove_pod(self, pod_id: str) -> None:
        """Stop and remove a pod, then its cgroup."""
        pod = self.runtime.pods[pod_id]
        for container in self.runtime.of_pod(pod_id):
            self.workload.end(container.cgroup)
        self.runtime.remove_pod(pod_id)
        self.tree.remove(pod.cgroup)
        self._weigh_classes()

    def _weigh_classes(self) -> None:
        """Write the sum of the Burstable pods' shares to their QoS cgroup; BestEffort keeps the smallest weight."""
        requests = [pod.request for pod in self.runtime.pods.values()]
        burstable = sum(request.shares for request in requests if request.qos is KubeQoS.BURSTABLE)
        self.tree.write(f"{self.kubepods}/burstable", *self.tree.weight(max(2, burstable)))

    # ---- use of containers ----

    def set_demand(self, container_id: str, cpus: float) -> None:
        """Set the number of CPUs that a container wants; 0 for none. Counters move with `tick` or the clock."""
        path = self.runtime.containers[container_id].cgroup
        if cpus > 0:
            self.workload.attach(path, lambda _seconds: cpus)
        else:
            self.workload.detach(path)

    def set_delay(self, container_id: str, part: float) -> None:
        """Set the smallest part of the time, 0 to 1, for which a container's task waits for a CPU."""
        self.workload.delay(self.runtime.containers[container_id].cgroup, part)

    def set_memory(self, container_id: str, held: Held) -> None:
        """Set the memory that a container holds; its files and the machine's files show it at once."""
        self.workload.hold(self.runtime.containers[container_id].cgroup, held)

    def start_clock(self, period_s: float = PERIOD_S) -> None:
        """Move the workload with the wall clock until `close`, instead of by calls of `tick`."""
        if self._ticker is None:
            self._ticker = Ticker(self.workload, period_s)

    def tick(self, now: float) -> None:
        """Move the workload's CPU use forward to `now` (seconds)."""
        self.workload.tick(now)

    # ---- the machine ----

    def plug(self, cpus: CPUMask) -> None:
        """Set the machine's online CPUs."""
        offline = machines.topology(self._machine).online & ~cpus
        machines.plant(machines.without(self._machine, offline), self.host_root, "sys/devices/system/")
        self.tree.plug(cpus)

    # ---- reading ----

    def pod(self, name: str) -> str:
        """Return the id of the pod "namespace/name"."""
        for pod in self.runtime.pods.values():
            if f"{pod.request.namespace}/{pod.request.name}" == name:
                return pod.id
        raise KeyError(name)

    def container(self, name: str) -> Container:
        """Return the container "namespace/pod/container"."""
        for container in self.runtime.containers.values():
            if container.name == name:
                return container
        raise KeyError(name)

    def cpus(self, container_id: str) -> CPUMask:
        """Return the CPUs that a container may use, by its cgroup files."""
        return self.tree.effective(self.runtime.containers[container_id].cgroup)
