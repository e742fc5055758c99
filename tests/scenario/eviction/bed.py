"""A node whose memory and disk are filled by hand, minutes in seconds.

The cluster accepts an order a second later. An evicted pod ends after its grace period, and its memory is free then.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from nri_coloc.core.decisions import Decision
from nri_coloc.core.evictions import Closed, EvictionWish, Ordered, Outcome, Result
from nri_coloc.core.lending import Headroom
from nri_coloc.core.pod_facts import Facts, Owner, PodFacts
from nri_coloc.core.readings import DiskLeft, NodeReading, Picture
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import DiskTuning, PressureTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.workload import Container, KubeQoS, Pod, QoSClass, Resources, Tolerance, Wish
from nri_coloc.host import cgroup_layout
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.stall_readings import StallReader
from nri_coloc.kubernetes import eviction_orders
from nri_coloc.kubernetes.eviction_orders import Book
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node as DaemonNode
from nri_coloc.pressure.culprit import Evidence, Suspect
from nri_coloc.pressure.disks import Disks
from nri_coloc.pressure.eviction import NO_PACE, Pace
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.shortages import Shortages
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.pressure.verdict import Judgement, Resource, Strain
from nri_coloc.sim.machines import MACHINES, topology
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest
from tests.rig.records import mistakes, unknown_figures

GIB = 1 << 30
EVICTS = Tuning(pressure=PressureTuning(evict=True, disk=DiskTuning(closes=True)))
GRACE_S = 10.0
SNAPSHOT_S = 60.0


class Cluster:
    """Implements `core.evictions.Evictions` by the daemon's own book, and carries orders out.

    refusal: why no order can be given.
    budgets, refused: names of pods that a PodDisruptionBudget protects, and that the controller never evicts.
    grace_s: seconds from the eviction to the end of a pod.
    gives_notice: whether orders stay open, as while a notice runs.
    asked: names of the pods of all wishes, also of wishes without an order.
    """

    def __init__(self) -> None:
        self.refusal = ""
        self.budgets: set[str] = set()
        self.refused: set[str] = set()
        self.grace_s = GRACE_S
        self.gives_notice = False
        self.asked: list[str] = []
        self.ordered: list[EvictionWish] = []
        self.ends: dict[str, float] = {}
        self._book = Book()

    def impossible(self, *, by_operator: bool = False) -> str:
        return self.refusal

    def order(self, wish: EvictionWish, now_s: float) -> Ordered:
        self.asked.append(wish.name)
        if problem := eviction_orders.problem(self._book, wish, now_s):
            return Ordered(refusal=problem)
        assert list(unknown_figures(wish.text, wish.inputs)) == []
        self.ordered.append(wish)
        number, outcome = str(len(self.ordered)), self._outcome(wish.name)
        book = self._book = eviction_orders.ordered(self._book, number, wish, now_s)
        if self.gives_notice:
            return Ordered(number)
        self._book = eviction_orders.with_results(
            book, [Result(number, outcome, "told by the controller")], now_s
        ).book
        if outcome is Outcome.ACCEPTED:
            self.ends.setdefault(wish.pod_uid, now_s + self.grace_s)
        return Ordered(number)

    def _outcome(self, name: str) -> Outcome:
        if name in self.refused:
            return Outcome.REFUSED
        return Outcome.BUDGET if name in self.budgets else Outcome.ACCEPTED

    def withdraw(self, order_ids: Collection[str], why: str, now_s: float) -> None:
        results = [Result(one, Outcome.UNREACHABLE, why) for one in order_ids]
        self._book = eviction_orders.with_results(self._book, results, now_s).book

    def open(self, now_s: float) -> frozenset[str]:
        return eviction_orders.leaving(self._book, now_s)

    def last(self, pod_uid: str) -> Closed | None:
        return self._book.closed.get(pod_uid)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.ordered]


class MilderRungs:
    """The verdicts of the turn, and the culprits and victims whose limit gave no relief."""

    def __init__(self) -> None:
        self.verdicts: tuple[Verdict, ...] = ()
        self.in_vain: set[tuple[str, str]] = set()

    def gave_no_relief(self, pod_id: str, resource: Resource, victim: str) -> bool:
        return (pod_id, victim) in self.in_vain


class NodeDisk:
    """The one disk of the node, 100 GiB, and the part of it that is left."""

    def __init__(self) -> None:
        self.left, self.number = 0.5, "8:0"

    def node(self) -> DiskLeft:
        return DiskLeft(100 * GIB, int(self.left * 100 * GIB), 1000, 900, self.number)

    def images(self) -> None:
        return None


class Told:
    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None:
        assert event is AuditEvent.PRESSURE_DISK
        assert list(mistakes(because, fields["extra"]["inputs"])) == []

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        for one in decisions:
            assert list(mistakes(one.because, one.inputs or {})) == []
            self.decisions.append(one)


class KeptCoolDown:
    """The cool-down that the previous process kept, and the ends that were kept since."""

    def __init__(self, begun: Pace, kept: list[float]) -> None:
        self._begun, self._kept = begun, kept

    def begun(self) -> Pace:
        return self._begun

    def keep(self, until_s: float) -> None:
        self._kept.append(until_s)


class Bed:
    """A node whose memory is filled by hand, a second at a time."""

    def __init__(self, node: Node, tuning: Tuning) -> None:
        self.node, self.now = node, 1000.0
        self.known = DaemonNode(pools.initial(topology(MACHINES["8cpu"]), tuning), tuning, memory_bytes=0)
        self.known.told = True
        self.told, self.cluster, self.picture = Told(), Cluster(), Picture(0.0, NodeReading(0.0))
        self.starved = StarvedPods(
            self.known, self.told, picture=lambda: self.picture, headroom=lambda: Headroom(cpu_milli=4000)
        )
        self.ladder, self.kept = MilderRungs(), list[float]()
        self.disk = NodeDisk()
        self.disks = Disks(self.known, self.disk, self.told)
        self.apps: dict[str, str] = {}
        meminfo = (node.host_root / "proc/meminfo").read_text()
        self.total = int(meminfo.split("MemTotal:")[1].split()[0]) * 1024
        self.evictor = self.daemon()
        self.pod("web", QoSClass.SHARED)

    def daemon(self, begun: Pace = NO_PACE) -> Evictor:
        """Start the evictor anew."""
        root = str(self.node.host_root)
        layout = cgroup_layout.detect(root)
        evictor = Evictor(
            self.known,
            Shortages(
                MemoryLeftReader(layout, root),
                StallReader(layout, root),
                starved=self.starved,
                disks=self.disks,
                ladder=self.ladder,
            ),
            orders=self.cluster,
            report=self.told,
            cool_down=KeptCoolDown(begun, self.kept),
        )
        evictor.begin()
        return evictor

    def pod(self, name: str, qos: QoSClass = QoSClass.RECLAIMED, wish: Wish | None = None) -> None:
        wish = wish or Wish(qos)
        kube = KubeQoS.BEST_EFFORT if qos is QoSClass.RECLAIMED else KubeQoS.BURSTABLE
        sandbox = self.node.run_pod(PodRequest(name, "shop", kube))
        app = self.apps[name] = self.node.run_container(sandbox, ContainerRequest("app"))
        runtime = self.node.runtime
        parent, path = f"/{runtime.pods[sandbox].cgroup}", f"/{runtime.containers[app].cgroup}"
        pod = Pod(name, f"uid-{name}", name, "shop", cgroup_parent=parent)
        is_boxed = qos is QoSClass.RECLAIMED
        container = Container(f"{name}-app", name, "app", cgroups_path=path, resources=Resources())
        state = self.known.state
        self.known.state = replace(
            state,
            pods={**state.pods, name: PodPlace(pod, wish, boxed=is_boxed)},
            containers=Crowd.of(
                [*state.containers.values(), Assignment(container, qos, qos.value, wish=wish)]
            ),
            box=(*state.box, name) if is_boxed else state.box,
        )

    def holds(self, name: str, anon: float, file: float = 0.0) -> None:
        """Let a pod hold so many GiB."""
        self.node.set_memory(self.apps[name], Held(int(anon * GIB), 0, int(file * GIB)))

    def wrote(self, name: str, written: int) -> None:
        """Let a pod have written so many bytes to the disk."""
        folder = self.node.runtime.containers[self.apps[name]].cgroup.rpartition("/")[0]
        if self.node.tree.version == 2:
            self.node.tree.write(folder, "io.stat", f"8:0 rbytes=0 wbytes={written} rios=0 wios=1")
            return
        for file, count in (("io_service_bytes", written), ("io_serviced", 1)):
            text = f"8:0 Read 0\n8:0 Write {count}\nTotal {count}"
            self.node.tree.write(folder, f"blkio.throttle.{file}_recursive", text)

    def leaves(self, available: float) -> None:
        """Let the online pod hold all memory but so many GiB."""
        root = str(self.node.host_root)
        left = MemoryLeftReader(cgroup_layout.detect(root), root).machine(0.0)
        assert left is not None
        self.holds("web", left.available / GIB - available)

    def seconds(self, count: int, each: Callable[[], None] | None = None) -> None:
        for _ in range(count):
            self.now += 1
            for uid, ends in list(self.cluster.ends.items()):
                if self.now >= ends:
                    self.end(uid.removeprefix("uid-"))
                    del self.cluster.ends[uid]
            if each is not None:
                each()
            self.starved.look()
            self.disks.look(self.now)
            self.evictor.look(self.now)

    def end(self, name: str) -> None:
        """End a pod: its memory is free."""
        self.holds(name, 0)
        state = self.known.state
        self.known.state = replace(
            state,
            pods={k: one for k, one in state.pods.items() if k != name},
            containers=state.containers.without(f"{name}-app"),
            box=tuple(k for k in state.box if k != name),
        )

    @property
    def is_cooling(self) -> bool:
        return self.evictor.pace.is_cooling(self.now)


def short(bed: Bed) -> Bed:
    """Let memory be short: 0.1 GiB are available."""
    bed.leaves(0.1)
    bed.seconds(2)
    return bed


def told(bed: Bed, **facts: Facts) -> None:
    state = bed.known.state
    known = {
        f"uid-{name}": one._replace(uid=f"uid-{name}", namespace="shop", name=name)
        for name, one in facts.items()
    }
    bed.known.state = replace(state, facts=PodFacts(known))


NOTHING_TOLD = Facts(uid="", namespace="", name="", owner=Owner(), priority=0, cpu_milli=0, memory_bytes=0)


def verdict(resource: Resource, culprit: str, readings: int) -> Verdict:
    return Verdict(
        victim="web",
        resource=resource,
        judgement=Judgement(hurt=True, wait=0.5, baseline=0.0, spread=0.0, bound=0.1),
        strain=Strain(0.5),
        evidence=Evidence((Suspect(culprit, 0.0, 100.0),), 0.9),
        readings=readings,
        tolerance=Tolerance.NORMAL,
    )
