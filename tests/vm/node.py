"""The functions that scenarios use: pods on a node with a real containerd and the plugin, and the kernel's values.

A scenario's assertions read the kernel's own files through this module. `/proc/PID/cgroup` gives the cgroup of a
container.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any, Final, TypedDict, Unpack, cast

from tests.cluster import binaries
from tests.rig import cgroups, image, waiting
from tests.rig.configuration import Options
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri, Limits, Pod
from tests.rig.daemon import Daemon
from tests.vm import slices
from tests.vm.shapes import Shape

__all__ = ["ROOT", "Container", "Node", "becomes", "cpus", "lending", "read", "until"]

ROOT: Final = Path("/sys/fs/cgroup")
PERIOD: Final = 100_000
CALL_SECONDS: Final = 300.0  # a start, of a second, took 120 beside other work
SYNCHRONISED_SECONDS: Final = 300  # importing the daemon alone takes ten here

CGROUPFS: Final = {
    "guaranteed": "/kubepods/pod{uid}",
    "burstable": "/kubepods/burstable/pod{uid}",
    "besteffort": "/kubepods/besteffort/pod{uid}",
}
SLICES: Final = {
    "guaranteed": "kubepods-pod{unit}.slice",
    "burstable": "kubepods-burstable-pod{unit}.slice",
    "besteffort": "kubepods-besteffort-pod{unit}.slice",
}


class Asked(TypedDict, total=False):
    """Hold the resources of a container.

    cpus: request and limit, in cores.
    memory: the limit in bytes.
    oom: the kubelet's oom_score_adj.
    mounts: paths inside to folders of the machine.
    command: the program; it sleeps without one.
    """

    cpus: float
    memory: int
    oom: int | None
    mounts: dict[str, Path] | None
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """Hold a running container of a pod."""

    cri: Cri
    pod: Pod
    id: str
    pid: int

    @property
    def path(self) -> str:
        """Return its cgroup below the root, from /proc/PID/cgroup."""
        return Path(f"/proc/{self.pid}/cgroup").read_text().strip().removeprefix("0::")

    @property
    def pod_path(self) -> str:
        """Return its pod's cgroup."""
        return str(Path(self.path).parent)

    def cgroup(self, file: str) -> str:
        """Return the content of a file of its cgroup."""
        return read(self.path, file)

    def pod_cgroup(self, file: str) -> str:
        """Return the content of a file of its pod's cgroup."""
        return read(self.pod_path, file)

    @property
    def cpus(self) -> frozenset[int]:
        """Return the CPUs that the scheduler runs it on, apart from any cgroup file."""
        return cgroups.allowed_cpus(self.pid) or frozenset()

    @property
    def oom_score_adj(self) -> int:
        """Return the oom_score_adj of its first process."""
        return int(Path(f"/proc/{self.pid}/oom_score_adj").read_text())

    def update(self, **limits: Any) -> None:
        """Update it as the kubelet does when a pod is resized in place; see `Limits`."""
        self.cri.update(self.id, **limits)

    def run(self, *command: str) -> str:
        """Return the output of a program that runs in it."""
        return self.cri.execute(self.id, *command)

    def stat(self, file: str, name: str) -> int:
        """Return the value of one line of a file such as memory.stat."""
        lines = (line.split() for line in self.cgroup(file).splitlines())
        return next(int(line[1]) for line in lines if line[0] == name)


class Node:
    """Hold the machine; one for all scenarios of a boot."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        options = Options(
            plugin_request_timeout="20s",  # the machine is ten times slower than any real one
            plugin_registration_timeout="60s",
            restrict_oom_score_adj=False,
            systemd_cgroup=shape.systemd,
        )
        runc = binaries.programs(binaries.runc()) / "runc" if shape.kubelet else None
        self.containerd = Containerd("2", options, runc=runc)
        self.plugin = Daemon(self.containerd)
        self.cri: Cri = slices.SystemdCri(self.containerd) if shape.systemd else self.containerd.cri()
        self.cri.call_seconds = CALL_SECONDS
        self._parents = SLICES if shape.systemd else CGROUPFS
        self._usual = self.plugin

    def start(self) -> None:
        """Start containerd and the plugin side by side; the plugin waits for the socket."""
        self.plugin.start()
        self.containerd.start()

    def make_ready(self) -> None:
        """Start both if the last scenario has left one of them stopped or broken."""
        if self.containerd.pid is None:
            self.containerd.start()
        if self.plugin.is_dead:
            self.plugin.start()
        self.plugin.wait_synchronised(SYNCHRONISED_SECONDS)

    def clear(self) -> None:
        """Remove every pod."""
        if self.containerd.pid is None:
            self.containerd.start()
        self.cri.remove_all(seconds=300)

    def pod(
        self, name: str, *, kube_qos: str = "burstable", namespace: str = "default", **wishes: Any
    ) -> Container:
        """Run a pod with one container; a wish that is no field of `Asked` is an annotation.

        `numa_count="2"` is the annotation `coloc.nri.io/numa-count: "2"`.
        """
        asked = {key: wishes.pop(key) for key in Asked.__annotations__ if key in wishes}
        wanted = {f"coloc.nri.io/{key.replace('_', '-')}": value for key, value in wishes.items()}
        # a slice has a weight from the start on, which is the pod's request; another cgroup has the kernel's default
        shares = int(asked.get("cpus", 0) * 1024) if self.shape.systemd else 0
        pod = self.cri.run_pod(
            name, namespace, annotations=wanted, cgroup_parent=self._parents[kube_qos], shares=shares
        )
        return self.container(pod, **cast("Asked", asked))

    def container(self, pod: Pod, name: str = "app", **asked: Unpack[Asked]) -> Container:
        """Run one more container in a pod."""
        limits: Limits = {"shares": 2}
        if cpus := asked.get("cpus"):
            limits = {"shares": int(cpus * 1024), "quota": int(cpus * PERIOD), "period": PERIOD}
        if memory := asked.get("memory"):
            limits["memory"] = memory
        if (oom := asked.get("oom")) is not None:
            limits["oom"] = oom
        command = asked.get("command", image.SLEEP)
        made = self.cri.create_container(pod, name, command=command, mounts=asked.get("mounts"), **limits)
        self.cri.start(made)
        return Container(self.cri, pod, made, self.cri.pid(made))

    def remove(self, container: Container) -> None:
        """Remove a container's pod."""
        self.cri.remove_pod(container.pod.id)

    @property
    def memory_bytes(self) -> int:
        """Return all of the machine's memory in bytes, as the kubelet sees it."""
        words = Path("/proc/meminfo").read_text().split()
        return int(words[1]) * 1024

    def oom_score_of_request(self, request: int) -> int:
        """Return the oom_score_adj of a burstable container with this memory request in bytes (pkg/kubelet/qos)."""
        return 1000 - 1000 * request // self.memory_bytes

    def last_words(self) -> list[tuple[str, str]]:
        """Return containerd's log, for a failure; the plugin's own words are shown for each test."""
        return [("containerd's log", self.containerd.log_tail(15))]

    def keep_logs(self, folder: Path) -> None:
        """Copy all logs to the host."""
        copyfile(self.containerd.log, folder / "containerd.log")
        for name in ("log", "audit"):
            copyfile(self.plugin.folder / name, folder / f"plugin.{name}")


def read(cgroup: str, file: str) -> str:
    """Return the content of a cgroup's file; `cgroup` is below the root."""
    return (ROOT / cgroup.lstrip("/") / file).read_text().strip()


def cpus(text: str) -> frozenset[int]:
    """Return the numbers of a list such as "0-3,8"."""
    return cgroups.members(text)


def lending(size: int) -> str:
    """Return a configuration that gives the reclaim pool this many CPUs under any load.

    No scenario waits for the pool to grow by itself: the emulator's own noise looks like online use, so growth may take
    any time.
    """
    return f"reclaim: {{enabled: true}}\npools: {{reclaim: {{minCPUs: {size}, maxCPUs: {size}}}}}\n"


def becomes(look: Callable[[], object], wanted: object, seconds: float = 0.0) -> None:
    """Wait until `look` returns the wanted value; the failure shows the last value."""
    waiting.becomes(look, wanted, seconds)


def until(predicate: Callable[[], object], what: str, seconds: float = 0.0) -> None:
    """Wait until the predicate is true, up to a bound; `what` names the missing condition in the failure."""
    waiting.wait_until(predicate, seconds, what)
