"""Eviction on the simulated node's files, minutes in seconds: shortage, order, grace, cool-down, and open again.

The cluster accepts an order a second later. An evicted pod ends after its grace period, and its memory is free then.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.decisions import Decision
from nri_coloc.core.evictions import Closed, EvictionWish, Ordered, Outcome, Result
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Headroom
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.readings import DiskLeft, GroupReading, NodeReading, Picture, Pressure
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import DiskTuning, PressureTuning, ReclaimTuning, Tuning
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
from nri_coloc.pressure.eviction import COOL_S, MOST, NO_PACE, Given, Pace
from nri_coloc.pressure.evictor import LONGEST_LEAVE_S, SPARED_S, Evictor
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.starvation import MOVED_S, STARVED_S
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.pressure.verdict import Judgement, Resource, Strain
from nri_coloc.sim.machines import MACHINES, topology
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest

GIB = 1 << 30
EVICTS = Tuning(pressure=PressureTuning(evict=True, disk=DiskTuning(closes=True)))
GRACE_S = 10.0
SNAPSHOT_S = 60.0


class Cluster:
    """Implements `core.evictions.Evictions` by the daemon's own book, and carries orders out.

    refusal: why no order can be given.
    budgets, refused: names of pods that a PodDisruptionBudget protects, and that the controller never evicts.
    grace_s: seconds from the eviction to the end of a pod.
    """

    def __init__(self) -> None:
        self.refusal = ""
        self.budgets: set[str] = set()
        self.refused: set[str] = set()
        self.grace_s = GRACE_S
        self.ordered: list[EvictionWish] = []
        self.ends: dict[str, float] = {}
        self._book = Book()

    def impossible(self, *, by_operator: bool = False) -> str:
        return self.refusal

    def order(self, wish: EvictionWish, now_s: float) -> Ordered:
        if problem := eviction_orders.problem(self._book, wish, now_s):
            return Ordered(refusal=problem)
        self.ordered.append(wish)
        number, outcome = str(len(self.ordered)), self._outcome(wish.name)
        book = eviction_orders.ordered(self._book, number, wish, now_s)
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

    def open(self, now_s: float) -> frozenset[str]:
        return eviction_orders.leaving(self._book, now_s)

    def last(self, pod_uid: str) -> Closed | None:
        return self._book.closed.get(pod_uid)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.ordered]


class MilderRungs:
    """The verdicts of the turn, and the pods whose limit gave no relief."""

    def __init__(self) -> None:
        self.verdicts: tuple[Verdict, ...] = ()
        self.in_vain: set[str] = set()

    def gave_no_relief(self, pod_id: str, resource: Resource) -> bool:
        return pod_id in self.in_vain


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

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        self.decisions += decisions


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
            MemoryLeftReader(layout, root),
            starved=self.starved,
            disks=self.disks,
            uses=StallReader(layout, root),
            ladder=self.ladder,
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


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=request.param) as found:
        yield found


@pytest.fixture
def make(node: Node) -> Callable[..., Bed]:
    def bed(tuning: Tuning = EVICTS, **pods: float) -> Bed:
        made = Bed(node, tuning)
        for name, held in pods.items():
            made.pod(name)
            made.holds(name, held)
        return made

    return bed


def short(bed: Bed) -> Bed:
    """Let memory be short: 0.1 GiB are available."""
    bed.leaves(0.1)
    bed.seconds(2)
    return bed


def test_shortage_order_cool_down_and_open_again(make: Callable[..., Bed]):
    bed = short(make(small=1, large=2))
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.pod_uid, wish.reason) == ("large", "uid-large", Reason.MEMORY_SHORT)
    assert bed.is_cooling
    bed.seconds(int(GRACE_S + COOL_S))
    assert bed.cluster.names == ["large"]
    bed.seconds(3)
    assert not bed.is_cooling


def test_an_eviction_follows_a_shortage_in_two_seconds(make: Callable[..., Bed]):
    bed = make(hog=2)
    bed.seconds(5)
    bed.leaves(0.1)
    bed.seconds(1)
    assert bed.cluster.names == []
    bed.seconds(1)
    assert bed.cluster.names == ["hog"]


def test_several_go_for_a_large_shortage(make: Callable[..., Bed]):
    bed = make(EVICTS, **{f"worker-{n}": 0.25 for n in range(9)})
    short(bed)
    assert len(bed.cluster.ordered) == MOST
    bed.seconds(30)
    assert len(bed.cluster.ordered) == MOST


def test_page_cache_is_no_shortage(make: Callable[..., Bed]):
    bed = make(reader=0.5)
    bed.holds("reader", 0.5, file=bed.total / GIB - 1.5)
    bed.seconds(30)
    assert bed.cluster.ordered == []


def test_a_flapping_load_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(hog=2)
    bed.leaves(0.1)

    def second() -> None:
        bed.holds("hog", 2 if bed.now % 2 else 0.0)

    bed.seconds(600, second)
    assert bed.cluster.ordered == []


def test_a_budget_sends_the_next_pod(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    bed.cluster.budgets = {"second"}
    short(bed)
    bed.seconds(1)
    assert bed.cluster.names == ["second", "first"]


def test_a_pod_that_ignores_sigterm_counts_as_leaving(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    bed.cluster.grace_s = 300.0
    short(bed)
    bed.seconds(290)
    assert bed.cluster.names == ["second"]
    assert bed.is_cooling


def test_a_refused_pod_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=1, daemon=4)
    bed.cluster.refused = {"daemon"}
    short(bed)
    bed.seconds(int(SPARED_S) + 5)
    bed.pod("late")
    bed.holds("late", 1)
    bed.seconds(2)
    assert bed.cluster.names == ["daemon", "first", "late"]


def test_an_unknown_sandbox_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=1, No_Name=4)
    assert short(bed).cluster.names == ["first"]


def test_a_refused_eviction_closes_no_node(make: Callable[..., Bed]):
    bed = make(only=2)
    bed.cluster.budgets = {"only"}
    short(bed)
    bed.seconds(2)
    assert not bed.is_cooling
    assert bed.kept[-1] < bed.now


def test_many_budgets_hold_back_no_other(make: Callable[..., Bed]):
    guarded = {f"guarded-{n}": 1.0 for n in range(20)}
    bed = make(EVICTS, other=0.2, **guarded)
    bed.cluster.budgets = set(guarded)
    short(bed)
    bed.seconds(15)
    assert "other" in bed.cluster.names


def test_an_endless_grace_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=2, endless=2)
    told(bed, endless=NOTHING_TOLD._replace(killed_at=bed.now + 1e9))
    short(bed)
    bed.seconds(590)
    assert bed.cluster.names == []
    bed.seconds(10)
    assert bed.cluster.names == ["first"]


def test_an_endless_grace_prolongs_no_cool_down(make: Callable[..., Bed]):
    bed = make(endless=2)
    bed.cluster.grace_s = 1e9
    short(bed)
    told(bed, endless=NOTHING_TOLD._replace(killed_at=bed.now + 1e9))
    bed.holds("web", 0)
    bed.seconds(int(LONGEST_LEAVE_S + COOL_S) + 5)
    assert not bed.is_cooling


def promised(bed: Bed, **gib: int) -> None:
    """Let the annotations of pods promise lent memory."""
    state = bed.known.state
    for name, amount in gib.items():
        wish = Wish(QoSClass.RECLAIMED, origins=(("memory-limit", "theirs", f"{amount}Gi"),))
        known = state.containers[f"{name}-app"]
        loan = replace(known, knobs=Knobs(memory_limit=amount * GIB), wish=wish)
        state = replace(state, containers=state.containers.adding(loan))
    bed.known.state = state


def test_an_own_limit_is_no_loan(make: Callable[..., Bed]):
    bed = make(limited=2, honest=2)
    state = bed.known.state
    limited = state.containers["limited-app"]
    own = replace(limited.container, resources=Resources(memory_limit=64 * GIB))
    bed.known.state = replace(state, containers=state.containers.adding(replace(limited, container=own)))
    promised(bed, honest=3)
    assert short(bed).cluster.names == ["limited"]


def test_avoidance_spares_a_pod(make: Callable[..., Bed]):
    bed = make()
    bed.pod("spared", wish=Wish(QoSClass.RECLAIMED, avoidance=frozenset({"throttle"})))
    bed.holds("spared", 4)
    short(bed)
    bed.seconds(30)
    assert bed.cluster.ordered == []


def mixed(bed: Bed, *, online: bool) -> Bed:
    """Run a pod whose annotations name another class for one container, which exists or not."""
    bed.pod("both", wish=Wish(QoSClass.RECLAIMED, mixed=True))
    bed.holds("both", 4)
    if online:
        state = bed.known.state
        web = Assignment(Container("both-web", "both", "web"), QoSClass.SHARED, QoSClass.SHARED.value)
        pods = {**state.pods, "both": replace(state.pods["both"], boxed=False)}
        bed.known.state = replace(state, pods=pods, containers=state.containers.adding(web))
    return short(bed)


def test_a_pod_with_an_online_container_stays(make: Callable[..., Bed]):
    assert mixed(make(), online=True).cluster.ordered == []


def test_a_class_for_a_missing_container_spares_nothing(make: Callable[..., Bed]):
    assert mixed(make(), online=False).cluster.names == ["both"]


@pytest.mark.parametrize("refusal", ["mode observe changes nothing", "no companion is connected"])
def test_what_would_go_is_told_once_a_minute(make: Callable[..., Bed], refusal: str):
    bed = make(hog=2)
    bed.cluster.refusal = refusal
    short(bed)
    bed.seconds(119)
    assert bed.cluster.ordered == []
    assert not bed.is_cooling
    told = bed.told.decisions
    assert [(one.pod_id, one.reason) for one in told] == [("hog", Reason.DECLINED)] * 2
    assert told[0].because == f"not evicted: {refusal} (cause=memory_short, scope=node)"


def test_nothing_is_evicted_by_default(make: Callable[..., Bed]):
    bed = short(make(Tuning(), hog=2))
    bed.seconds(30)
    assert (bed.cluster.ordered, bed.told.decisions) == ([], [])


def test_a_headroom_of_zero_evicts_no_pod(make: Callable[..., Bed]):
    nothing = ReclaimTuning(lend=0.0, offer=0.0, paused="by an operator")
    bed = make(replace(EVICTS, reclaim=nothing), hog=2)
    bed.seconds(300)
    assert bed.cluster.ordered == []


def test_a_restart_keeps_the_cool_down(make: Callable[..., Bed]):
    bed = short(make(first=2, second=2))
    bed.seconds(30)
    kept = bed.kept[-1]
    bed.evictor = bed.daemon(Pace(cools_until_s=kept))
    bed.seconds(1)
    assert bed.is_cooling
    assert bed.evictor.pace.cools_until_s == kept


def test_kubepods_near_its_own_limit(make: Callable[..., Bed]):
    bed = make(hog=2)
    name = "memory.max" if bed.node.tree.version == 2 else "memory.limit_in_bytes"
    bed.node.tree.write("kubepods", name, str(4 * GIB))
    bed.holds("web", 1.9)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.holds("web", 1.99)
    bed.seconds(2)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.inputs["scope"]) == ("hog", "kubepods")


# ---- facts of the API server ----


def told(bed: Bed, **facts: Facts) -> None:
    state = bed.known.state
    known = {
        f"uid-{name}": one._replace(uid=f"uid-{name}", namespace="shop", name=name)
        for name, one in facts.items()
    }
    bed.known.state = replace(state, facts=PodFacts(known))


NOTHING_TOLD = Facts(uid="", namespace="", name="", owner=Owner(), priority=0, cpu_milli=0, memory_bytes=0)


def test_a_lower_priority_class_goes_first(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    told(bed, first=NOTHING_TOLD._replace(priority=-10), second=NOTHING_TOLD._replace(priority=10))
    assert short(bed).cluster.names == ["first"]


def lent(memory_bytes: int) -> Facts:
    """Return the facts about a pod whose spec requests lent memory."""
    return NOTHING_TOLD._replace(
        containers=(ContainerFacts("app", Kind.MAIN, 0, 0, Lent(memory_bytes=memory_bytes)),)
    )


def test_a_loan_beyond_the_spec_spares_no_pod(make: Callable[..., Bed]):
    bed = make(greedy=2, honest=2)
    promised(bed, greedy=64, honest=3)
    told(bed, greedy=lent(GIB), honest=lent(3 * GIB))
    assert short(bed).cluster.names == ["greedy"]


def test_a_lent_request_needs_no_annotation(make: Callable[..., Bed]):
    bed = make(nothing=2, honest=2)
    told(bed, nothing=NOTHING_TOLD, honest=lent(3 * GIB))
    assert short(bed).cluster.names == ["nothing"]


def test_a_false_request_counts_for_an_equal_part(make: Callable[..., Bed]):
    bed = make(false=2, other=2)
    told(bed, false=lent(2**63 - 1), other=lent(2**63 - 1))
    (wish,) = short(bed).cluster.ordered
    assert wish.inputs["lent_bytes"] == bed.known.state.topology.memory_bytes // 2


def test_a_deleted_pod_counts_during_its_grace(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    told(bed, second=NOTHING_TOLD._replace(killed_at=bed.now + 60))
    short(bed)
    bed.seconds(57)
    assert bed.cluster.ordered == []
    bed.seconds(2)
    assert len(bed.cluster.ordered) == 1


# ---- CPU ----


def starves(bed: Bed, names: Iterable[str], used: float = 8.0) -> Callable[[], None]:
    """Return a second in which pods wait all the time and get no CPU; a snapshot shows it each minute.

    used: CPUs of the node that are in use.
    """

    def second() -> None:
        if bed.now - bed.picture.at < SNAPSHOT_S:
            return
        waiting = GroupReading(1, bed.now, usage_us=0, cpu=Pressure(int(bed.now * 1e6)))
        there = [name for name in names if name in bed.known.state.pods]
        bed.picture = Picture(
            bed.now,
            NodeReading(bed.now, usage_us=int(bed.now * used * 1e6)),
            pods=dict.fromkeys(there, waiting),
            containers={f"{name}-app": waiting for name in there},
        )

    return second


def test_a_starved_pod_is_moved_away(make: Callable[..., Bed]):
    bed = make(first=1, second=1)
    second = starves(bed, ("first", "second"))
    bed.seconds(int(MOVED_S), second)
    assert bed.cluster.ordered == []
    bed.seconds(3, second)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.reason) == ("second", Reason.CPU_STARVED)
    assert bed.is_cooling


def test_starving_beside_idle_cpus_closes_no_node(make: Callable[..., Bed]):
    bed = make(first=1, second=1)
    bed.seconds(int(MOVED_S) + 3, starves(bed, ("first", "second"), used=2.0))
    assert len(bed.cluster.ordered) == 1
    assert not bed.is_cooling


def test_starving_beside_idle_cpus_prolongs_no_cool_down(make: Callable[..., Bed]):
    bed = make(guarded=1)
    bed.cluster.budgets = {"guarded"}
    bed.evictor = bed.daemon(Pace(cools_until_s=bed.now + MOVED_S + 60))
    bed.seconds(int(MOVED_S) + 90, starves(bed, ("guarded",), used=2.0))
    assert not bed.is_cooling


def test_an_evicted_starved_pod_had_its_event_before(make: Callable[..., Bed]):
    bed = make(hog=1)
    second = starves(bed, ("hog",))
    bed.seconds(int(STARVED_S) + 1, second)
    (told,) = bed.told.decisions
    assert (told.event, told.reason, told.pod_id) == (AuditEvent.POD_STARVED, Reason.WITHOUT_CPU, "hog")
    assert bed.cluster.ordered == []
    bed.seconds(int(MOVED_S - STARVED_S) + 1, second)
    assert bed.cluster.names == ["hog"]


def test_starved_pods_go_one_by_one(make: Callable[..., Bed]):
    bed = make(EVICTS, **{f"worker-{n}": 0.1 for n in range(4)})
    bed.seconds(3 * int(MOVED_S) + 200, starves(bed, [f"worker-{n}" for n in range(4)]))
    assert len(bed.cluster.ordered) == 3


def test_memory_and_cpu_short_at_once(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    second = starves(bed, ("first", "second"))
    bed.seconds(int(MOVED_S) - 10, second)
    bed.leaves(0.1)
    bed.seconds(20, second)
    assert bed.cluster.names == ["second"]


# ---- verdicts ----


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


def test_a_lasting_memory_stall_evicts_the_culprit(make: Callable[..., Bed]):
    bed = make(hog=1, quiet=1)
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 29),)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 30),)
    bed.seconds(5)
    assert [(one.name, one.reason) for one in bed.cluster.ordered] == [("hog", Reason.MEMORY_STALL)]


def test_a_victim_that_ended_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(hog=1)
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 30),)
    bed.end("web")
    bed.seconds(5)
    assert bed.cluster.ordered == []


def test_a_limit_in_vain_evicts_the_culprit(make: Callable[..., Bed]):
    bed = make(hog=1)
    bed.ladder.verdicts = (verdict(Resource.IO, "hog", 90),)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.ladder.in_vain = {"hog"}
    bed.seconds(5)
    assert [(one.name, one.reason) for one in bed.cluster.ordered] == [("hog", Reason.IO_STALL)]


# ---- disks ----


def fills(bed: Bed, **mib: float) -> Callable[[], None]:
    """Return a second in which pods write so many MiB to the disk, and as much less is left."""
    written = dict.fromkeys(mib, 0.0)

    def second() -> None:
        for name, amount in mib.items():
            if name in bed.known.state.pods:
                written[name] += amount
                bed.disk.left -= amount / 1024 / 100
                bed.wrote(name, int(written[name] * (1 << 20)))

    return second


def test_the_largest_writer_to_a_short_disk_goes(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left = 0.105
    second = fills(bed, small=4, large=20)
    bed.seconds(59, second)
    assert bed.cluster.names == []
    bed.seconds(5, second)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.reason, wish.inputs["scope"]) == ("large", Reason.DISK_SPACE, "node")
    assert wish.inputs["written_bytes"] == 20 * 60 << 20
    assert (wish.inputs["lost"] >> 20, wish.inputs["disk"]) == (24 * 60, "8:0")
    assert bed.is_cooling
    bed.seconds(30, second)
    assert bed.cluster.names == ["large"]


def test_the_next_writer_goes_if_the_disk_still_fills(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left = 0.105
    bed.seconds(180, fills(bed, small=4, large=20))
    assert bed.cluster.names == ["large", "small"]


def filled_while_the_pace_is_used_up(bed: Bed) -> Bed:
    """Let a pod fill the disk, while other evictions use up the pace for half a minute more."""
    bed.disk.left = 0.105
    orders = tuple(Given(f"other-{n}", bed.now + 35, awaits=False) for n in range(MOST))
    bed.evictor = bed.daemon(Pace(orders))
    bed.seconds(65, fills(bed, small=15, large=20))
    assert bed.cluster.names == []
    return bed


def test_a_filled_disk_waits_for_the_pace(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.seconds(35)
    assert bed.cluster.names == ["large"], "a full disk fills no further"


def test_a_disk_that_is_free_again_evicts_none(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.disk.left = 0.5
    bed.seconds(15)
    bed.disk.left = 0.105
    bed.seconds(300)
    assert bed.cluster.names == []


def test_a_budget_sends_the_next_writer(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.cluster.budgets = {"large"}
    bed.disk.left = 0.105
    bed.seconds(65, fills(bed, small=15, large=20))
    bed.seconds(10)
    assert bed.cluster.names == ["large", "small"]


@pytest.mark.parametrize(
    ("left", "large"),
    [(0.5, 20.0), (0.105, 0.0), (0.105, 0.5)],
    ids=["enough is left", "it fills no further", "by other writers"],
)
def test_a_disk_that_pods_do_not_fill_evicts_none(make: Callable[..., Bed], left: float, large: float):
    bed = make(small=1, large=1)
    bed.disk.left = left
    bed.seconds(300, fills(bed, small=0.0, large=large))
    assert bed.cluster.ordered == []


def leaves_always(bed: Bed, name: str) -> None:
    """Let the API server delete a pod that stays for its long grace period."""
    told(bed, **{name: NOTHING_TOLD._replace(killed_at=bed.now + LONGEST_LEAVE_S)})


def test_a_leaving_bystander_delays_no_disk_eviction(make: Callable[..., Bed]):
    bed = make(bystander=1, large=1)
    bed.disk.left = 0.105
    leaves_always(bed, "bystander")
    bed.seconds(65, fills(bed, bystander=1, large=20))
    assert bed.cluster.names == ["large"]


def test_a_leaving_writer_sends_no_other(make: Callable[..., Bed]):
    bed = make(large=1, leaver=1)
    bed.disk.left = 0.105
    leaves_always(bed, "leaver")
    bed.seconds(130, fills(bed, large=20, leaver=15))
    assert bed.cluster.names == []


def test_a_leaving_disk_order_sends_no_other(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left, bed.cluster.grace_s = 0.105, 300.0
    writes = fills(bed, small=4, large=20)
    bed.seconds(65, writes)
    bed.seconds(200, fills(bed, small=4))
    assert bed.cluster.names == ["large"], "it writes no more, and its space is not free yet"


def test_a_few_lost_bytes_evict_no_writer(make: Callable[..., Bed]):
    bed = make(writer=1)
    bed.disk.left = 0.105
    writes = fills(bed, writer=20)

    def second() -> None:
        left = bed.disk.left
        writes()
        bed.disk.left = left - 1e-9

    bed.seconds(300, second)
    assert bed.cluster.ordered == []


def test_an_unknown_disk_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(large=1)
    bed.disk.left, bed.disk.number = 0.105, ""
    bed.seconds(180, fills(bed, large=20))
    assert bed.cluster.ordered == []


def test_a_short_disk_evicts_no_pod_by_default(make: Callable[..., Bed]):
    bed = make(Tuning(pressure=PressureTuning(disk=DiskTuning(closes=True))), large=1)
    bed.disk.left = 0.105
    bed.seconds(180, fills(bed, large=20))
    assert bed.cluster.ordered == []
