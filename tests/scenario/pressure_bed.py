"""The bed of pressure scenarios: pods on the simulated node, whose counters move a second at a time.

The disk serves requests in 0.2 ms when it is idle and twenty times slower when others saturate it. A reclaimed pod's
reads are bounded by the limit in its cgroup's own files.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from nri_coloc.core.decisions import Decision
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.settings import PressureTuning, RungTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.workload import Container, KubeQoS, Pod, QoSClass, Resources, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, io_limits
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.stall_readings import OpenStalls, StallReader
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node as DaemonNode
from nri_coloc.pressure.loop import Pressure
from nri_coloc.sim.machines import MACHINES, topology
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest
from tests.rig.records import mistakes
from tests.unit.pressure import kit
from tests.unit.pressure.kit import DISK, MIB, Doing

CAPACITY, SATURATED = 400.0 * MIB, 150.0 * MIB
REQUEST = 64 * 1024
QUICKEST_S = 0.0002
ACTS = PressureTuning(io=RungTuning(throttles=True))
BUSY_READER = 400.0 * MIB
NOTHING = Doing()


class Told:
    """Collects decisions and refusals."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.refusals: list[KernelInterfaceError] = []

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        for one in decisions:
            assert list(mistakes(one.because, one.inputs or {})) == []
            self.decisions.append(one)

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None:
        self.refusals.append(failure)

    def events(self, event: AuditEvent) -> list[Decision]:
        return [one for one in self.decisions if one.event is event]


class Bed:
    """Moves the pods' counters a second at a time, and lets the loop take its turn."""

    writes: type[CgroupWriter] = CgroupWriter

    def __init__(self, node: Node, folder: Path, tuning: Tuning) -> None:
        self.node, self.now = node, 1000.0
        self.known = DaemonNode(pools.initial(topology(MACHINES["8cpu"]), tuning), tuning, memory_bytes=0)
        self.known.told = True
        self.told = Told()
        self._root, self._folder = str(node.host_root), folder
        (node.host_root / "proc/stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
        self._counters: dict[str, kit.Pod] = {}
        self._shown: dict[tuple[str, str], str] = {}
        self._turn_at = self.now
        self.paths: dict[str, tuple[str, str]] = {}
        self._sandboxes: dict[str, str] = {}
        self.loop = self.daemon()

    def daemon(self) -> Pressure:
        """Start a new loop, with the journal of the previous one."""
        layout = cgroup_layout.detect(self._root)
        journal = Journal(str(self._folder / "journal"), self._root)
        writer = self.writes(layout, journal, self._root, lambda _path: None)
        return Pressure(
            self.known,
            StallReader(layout, self._root),
            writer,
            self.told,
            disk_stalls=OpenStalls(layout),
        )

    def pod(
        self, name: str, qos: QoSClass, wish: Wish | None = None, beside: Assignment | None = None
    ) -> str:
        """Run a pod with one container; `beside`: another container of it."""
        kube = KubeQoS.BEST_EFFORT if qos is QoSClass.RECLAIMED else KubeQoS.BURSTABLE
        sandbox = self.node.run_pod(PodRequest(name, "shop", kube))
        app = self.node.run_container(sandbox, ContainerRequest("app"))
        runtime, self._sandboxes[name] = self.node.runtime, sandbox
        pod_path, app_path = runtime.pods[sandbox].cgroup, runtime.containers[app].cgroup
        self.paths[name] = pod_path, app_path
        pod = Pod(name, name, name, "shop", cgroup_parent=f"/{pod_path}")
        wished = wish or Wish(qos)
        is_boxed = qos is QoSClass.RECLAIMED and beside is None and not wished.kept
        place = PodPlace(pod, wished, boxed=is_boxed)
        container = Container(f"{name}-app", name, "app", cgroups_path=f"/{app_path}", resources=Resources())
        assignment = Assignment(container, qos, qos.value, wish=wished)
        state = self.known.state
        self.known.state = replace(
            state,
            pods={**state.pods, name: place},
            containers=Crowd.of([*state.containers.values(), assignment, *([beside] if beside else [])]),
        )
        return name

    def restart_container(self, name: str) -> None:
        """Let a new container of a pod follow its first one."""
        app = self.node.run_container(self._sandboxes[name], ContainerRequest("app-again"))
        pod_path, app_path = self.paths[name][0], self.node.runtime.containers[app].cgroup
        self.paths[name] = pod_path, app_path
        apps = self.known.state.containers
        was = apps[f"{name}-app"]
        again = replace(was, container=replace(was.container, cgroups_path=f"/{app_path}"))
        others = (one for one in apps.values() if one is not was)
        self.known.state = replace(self.known.state, containers=Crowd.of([*others, again]))

    def second(self, doing: dict[str, Doing], span: float = 1.0) -> None:
        self._move(doing, span)
        self._turn()

    def wake(self, doing: Callable[[float], dict[str, Doing]]) -> None:
        """Play the main thread until it wakes for a turn or a check; `doing` takes the seconds until then."""
        span = min(self._turn_at - self.now, self.loop.times.check_in(self.now))
        self._move(doing(span), span)
        if self.now >= self._turn_at or self.loop.times.is_alarmed(self.now):
            self._turn()

    def _turn(self) -> None:
        self.loop.look(self.now)
        self._turn_at = self.now + min(1.0, self.loop.times.due_in(self.now))

    def _move(self, doing: dict[str, Doing], span: float) -> None:
        self.now += span
        for name in self.paths:
            self._show(name, doing.get(name, NOTHING))

    def seconds(self, count: int, doing: Callable[[], dict[str, Doing]]) -> None:
        for _ in range(count):
            self.second(doing())

    def limit(self, name: str) -> float | None:
        """Return the limit of a pod's reads in bytes a second, by the kernel's file."""
        pod, app = self.paths[name]
        path, file = (pod, "io.max") if self.node.tree.version == 2 else (app, io_limits.NAMES[1][0])
        shown = io_limits.shown(self.node.tree.read(path, file) or "").get(DISK)
        return None if shown is None else float(shown.split()[0].removeprefix("rbps="))

    def reads(self, name: str, wanted: float) -> Doing:
        """Return what a reader of the disk gets of its wish, within its limit."""
        limit = self.limit(name)
        got = min(wanted, CAPACITY, limit if limit is not None else wanted)
        return Doing(read=got, operations=got / REQUEST)

    def waits(self, others: list[Doing]) -> Doing:
        """Return the closed loop of an online reader beside others."""
        busy = min(1.0, sum(one.read for one in others) / SATURATED)
        latency = QUICKEST_S / (1 - 0.95 * busy)
        operations = 1 / (latency + QUICKEST_S)
        return Doing(io_stall=latency * operations, read=4096 * operations, operations=operations)

    def _show(self, name: str, doing: Doing) -> None:
        """Write a pod's counters into its files."""
        found = self._counters.setdefault(name, kit.Pod(self.now - 1.0)).after(doing, self.now)
        path, io = self.paths[name][0], (found.devices or {})[doing.disk]
        texts = {
            f"{kind}.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull total=0"
            for kind, us in (("cpu", found.cpu_us), ("memory", found.memory_us), ("io", found.io_us))
        }
        if self.node.tree.version == 2:
            texts |= {
                "cpu.stat": f"usage_usec {found.usage_us}\nnr_throttled 0\nthrottled_usec {found.throttled_us}",
                "memory.current": str(found.memory_bytes),
                "memory.events": f"low 0\nhigh 0\nmax {found.limit_hits}",
                "io.stat": f"{doing.disk} rbytes={io.read_bytes} wbytes=0 rios={io.reads} wios=0",
            }
        else:
            texts |= {
                "cpuacct.usage": str((found.usage_us or 0) * 1000),
                "cpu.stat": f"nr_throttled 0\nthrottled_time {(found.throttled_us or 0) * 1000}",
                "memory.usage_in_bytes": str(found.memory_bytes),
                "blkio.throttle.io_service_bytes_recursive": f"{doing.disk} Read {io.read_bytes}",
                "blkio.throttle.io_serviced_recursive": f"{doing.disk} Read {io.reads}",
            }
            self.node.tree.write(self.paths[name][1], "memory.failcnt", str(found.limit_hits))
        for file, text in texts.items():
            if self._shown.get((path, file)) != text:
                self.node.tree.write(path, file, text)
                self._shown[path, file] = text


def day(bed: Bed, wanted: float) -> Callable[[], dict[str, Doing]]:
    """Return a second in which the hog wants to read so much."""

    def second() -> dict[str, Doing]:
        hog = bed.reads("hog", wanted)
        return {"web": bed.waits([hog]), "hog": hog, "quiet": Doing(read=1.0 * MIB, operations=16)}

    return second


def hurt(bed: Bed) -> Bed:
    bed.seconds(20, day(bed, 0))
    bed.seconds(2, day(bed, BUSY_READER))
    return bed
