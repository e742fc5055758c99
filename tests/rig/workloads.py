"""Pods for tests: one container in a pod of some class, which first prints its CPUs.

A container asks for the amounts that the kubelet would derive from its requests. Its first process prints the CPUs that
it may use, before any other program runs in it.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack, cast

from tests.rig import cgroups, kubepods, packages
from tests.rig.cri import Cri, Limits, Pod
from tests.rig.waiting import wait_until

QOS: Final = "coloc.nri.io/qos-class"
PERIOD: Final = 100_000
_SAY_CPUS: Final = (
    'while read -r line; do case "$line" in Cpus_allowed_list*) echo "$line";; esac; done < /proc/self/status'
)
COMMAND: Final = ("/bin/sh", "-c", f"{_SAY_CPUS}; exec sleep 1000000")
NODE_CPUS: Final = cgroups.online()


@dataclass(frozen=True, slots=True)
class Workload:
    """Hold a container and its pod, and read the kernel's values of it."""

    cri: Cri
    pod: Pod
    id: str

    @property
    def cgroup(self) -> str:
        """Return the container's cgroup."""
        return self.cri.cgroup(self.id)

    @property
    def cpus(self) -> frozenset[int] | None:
        """Return the CPUs of its cgroup now."""
        return cgroups.cpus(self.cgroup)

    @property
    def cpuset_file(self) -> Path:
        """Return the file that holds these CPUs."""
        return cgroups.file(self.cgroup, "cpuset", "cpuset.cpus")

    @property
    def spec_cpus(self) -> str:
        """Return the CPUs in the runtime's spec."""
        resources = self.cri.info(self.id)["runtimeSpec"]["linux"]["resources"]
        return str(resources.get("cpu", {}).get("cpus", ""))

    def start(self) -> "Workload":
        """Start the container, if it was only created."""
        self.cri.start(self.id)
        return self

    def first_cpus(self) -> frozenset[int]:
        """Return the CPUs on which its very first instructions could run, from its own output."""
        path = Path(self.cri.status(self.id).status.log_path)
        wait_until(lambda: path.exists() and "Cpus_allowed_list" in path.read_text(), 60, f"words in {path}")
        line = path.read_text().splitlines()[0]
        return cgroups.members(line.rpartition(":")[2])


def may_lower_oom_scores() -> bool:
    """Return whether root has CAP_SYS_RESOURCE here (capability 24)."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)


class Pods(TypedDict, total=False):
    """Hold the settings of a pod that a test may change; `parent` is the kubelet's cgroup of its class."""

    namespace: str
    annotations: Mapping[str, str] | None
    parent: str


class Containers(Limits, total=False):
    """Hold the settings of a container that a test may change; `request` is its CPU request and its limit."""

    request: float
    command: Sequence[str]
    started: bool


class Asked(Pods, Containers, total=False):
    """Hold both, for a pod with one container."""


def run(cri: Cri, name: str, qos: str = "", **asked: Unpack[Asked]) -> Workload:
    """Run a pod with one container `app`; an annotation asks for `qos`."""
    wanted = {**({QOS: qos} if qos else {}), **(asked.pop("annotations", None) or {})}
    namespace, parent = asked.pop("namespace", "default"), asked.pop("parent", kubepods.BURSTABLE)
    pod = cri.run_pod(name, namespace, annotations=wanted, cgroup_parent=parent)
    return add(cri, pod, "app", **cast("Containers", asked))


def dedicated(cri: Cri, name: str = "web", request: float = 1, *, started: bool = True) -> Workload:
    """Run a pod whose container wants CPUs of its own."""
    return run(cri, name, "dedicated", request=request, started=started)


def shared(cri: Cri, name: str = "neighbour", *, started: bool = True) -> Workload:
    """Run a pod of the pool `share`."""
    return run(cri, name, request=0.1, started=started)


def reclaimed(cri: Cri, name: str = "batch") -> Workload:
    """Run a BestEffort pod, which is a reclaimed pod without any annotation."""
    return run(cri, name, parent=kubepods.BESTEFFORT, oom=1000)


def add(cri: Cri, pod: Pod, name: str, **asked: Unpack[Containers]) -> Workload:
    """Add one more container to a pod."""
    request, command = asked.pop("request", 0), asked.pop("command", COMMAND)
    started = asked.pop("started", True)
    wanted: Limits = {"shares": 2}
    if request:
        wanted = {"shares": int(request * 1024), "quota": int(request * PERIOD), "period": PERIOD}
    wanted.update(cast("Limits", asked))
    found = Workload(cri, pod, cri.create_container(pod, name, command=command, **wanted))
    return found.start() if started else found


def attempt(cri: Cri, pod: Pod, number: int, *, broken: bool = False) -> Workload:
    """Create one attempt of a container that asks for a CPU; if it is `broken`, runc refuses a mount at the start."""
    limits: Limits = {"shares": 1024, "quota": PERIOD, "period": PERIOD}
    mounts = {"/bin": Path("/proc/self/status")} if broken else {}
    made = cri.create_container(pod, "app", command=COMMAND, mounts=mounts, attempt=number, **limits)
    return Workload(cri, pod, made)


def witness_pod(cri: Cri, program: Path) -> Pod:
    """Return a pod for a `witness`, and make its program: a copy of busybox that no other process opens."""
    shutil.copyfile(packages.unpacked("busybox").program("busybox"), program)
    program.chmod(0o755)
    return cri.run_pod("witness", annotations={QOS: "dedicated"})


def witness(cri: Cri, pod: Pod, program: Path) -> Workload:
    """Run a dedicated container whose programs are the machine's own file `program`.

    The file is mounted over the container's. A watch on it sees the file opened right before the first instruction.
    """
    limits: Limits = {"shares": 1024, "quota": PERIOD, "period": PERIOD}
    mounts = {"/bin/busybox": program}
    return Workload(
        cri, pod, cri.create_container(pod, "app", command=COMMAND, mounts=mounts, **limits)
    ).start()
