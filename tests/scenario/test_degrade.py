"""Degrading in an online pool on the simulated node's files, minutes in seconds.

Eight CPUs of `share` serve three pods. `web` requests one CPU and keeps within it, `hog` and `lean` use what they get.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift, Subject
from nri_coloc.core.settings import PressureTuning, RungTuning, Tuning
from nri_coloc.core.state import DEDICATED, SHARE, Crowd, NodeState
from nri_coloc.core.workload import QoSClass, Resources, Wish
from nri_coloc.host import cgroup_layout, restoration
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.readings import CgroupReader
from nri_coloc.host.stall_readings import OpenStalls, StallReader
from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.loop import Pressure
from nri_coloc.sim.node import Node
from nri_coloc.tuning.bandwidths import PodBandwidths
from tests.scenario import pressure_bed
from tests.scenario.versions import VERSIONS
from tests.unit.pressure.kit import Doing

ON = Tuning(pressure=PressureTuning(degrade=True))
CPUS = 8000.0
OPEN = Wish(QoSClass.SHARED, avoidance=frozenset({"degrade"}))
WAITS, CALM = Doing(cpu=900, cpu_stall=0.7), Doing(cpu=900, cpu_stall=0.02)


class Told(pressure_bed.Told):
    def drifted(self, subject: Subject, state: NodeState, drift: Drift) -> None:
        raise AssertionError(drift)


class Bed(pressure_bed.Bed):
    """Runs the whole way: judge, decide, write."""

    def daemon(self) -> Pressure:
        """Start a new process, with the journal of the previous one."""
        self.told = Told()
        layout = cgroup_layout.detect(self._root)
        journal = Journal(str(self._folder / "journal"), self._root)
        writer = CgroupWriter(layout, journal, self._root, lambda _path: None)
        loop = Pressure(
            self.known,
            StallReader(layout, self._root),
            writer,
            self.told,
            disk_stalls=OpenStalls(layout),
        )
        self.bandwidths = PodBandwidths(self.known, writer, cast("Any", self.told))
        reader = CgroupReader(layout, self._root)
        self.degrader = Degrader(
            self.known, reader, judge=loop, quotas=self.bandwidths, report=cast("Any", self.told)
        )
        return loop

    def online(
        self, name: str, request_milli: int, wish: Wish = OPEN, limit_milli: int | None = None
    ) -> None:
        """Run an online pod with a CPU request, and a limit or none."""
        self.pod(name, QoSClass.SHARED, wish)
        self.request(name, request_milli)
        quota = None if limit_milli is None else limit_milli * 100
        resources = Resources(shares=request_milli * 1024 // 1000, quota=quota, period=100_000)
        self.change(name, resources)
        if quota is not None:
            tree, path = self.node.tree, self.paths[name][1]
            tree.write(
                path, *(("cpu.cfs_quota_us", str(quota)), ("cpu.max", f"{quota} 100000"))[tree.version - 1]
            )

    def change(self, name: str, resources: Resources) -> None:
        """Let the kubelet set a container's resources."""
        one = self.known.state.containers[f"{name}-app"]
        made = replace(one, pool=SHARE, container=replace(one.container, resources=resources))
        self.known.state = replace(self.known.state, containers=self.known.state.containers.adding(made))

    def request(self, name: str, milli: int | None) -> None:
        """Let a pod have a CPU request by its own cgroup; None if that was not read."""
        place = self.known.state.pods[name]
        made = replace(place, pod=replace(place.pod, cpu_request=milli))
        self.known.state = replace(self.known.state, pods={**self.known.state.pods, name: made})

    def restart(self) -> None:
        """Start a new process after the previous one was killed."""
        self.loop = self.daemon()
        self.bandwidths.take_over()
        self.bandwidths.sweep()

    def judge_again(self, name: str, **changed: Any) -> None:
        """Let a container have another class or runtime handler."""
        one = self.known.state.containers[f"{name}-app"]
        wish = replace(one.wish, **changed)
        made = replace(one, qos=wish.qos, pool=wish.qos.value, wish=wish)
        self.known.state = replace(self.known.state, containers=self.known.state.containers.adding(made))

    def second(self, doing: dict[str, Doing], span: float = 1.0) -> None:
        super().second(doing, span)
        self.degrader.look(self.now)

    def quota(self, name: str) -> int:
        """Return a container's quota in µs by the kernel's file, -1 for none."""
        tree, path = self.node.tree, self.paths[name][1]
        if tree.version == 1:
            return int(tree.read(path, "cpu.cfs_quota_us") or -1)
        text = (tree.read(path, "cpu.max") or "max").split()[0]
        return -1 if text == "max" else int(text)

    def uses(self, name: str, wanted: float) -> Doing:
        """Return the use of a container within its quota."""
        quota = self.quota(name)
        return Doing(cpu=min(wanted, quota / 100) if quota > 0 else wanted)

    def day(self, **wanted: float) -> Callable[[], dict[str, Doing]]:
        """Return a second in which containers want to use so much; `web` waits while they use 80 % of the CPUs."""

        def second() -> dict[str, Doing]:
            found = {name: self.uses(name, milli) for name, milli in wanted.items()}
            is_full = sum(one.cpu for one in found.values()) + WAITS.cpu > 0.8 * CPUS
            return {**found, "web": WAITS if is_full else CALM}

        return second

    def events(self, event: AuditEvent) -> list[Decision]:
        return [one for one in self.told.decisions if one.event is event]

    def _show(self, name: str, doing: Doing) -> None:
        super()._show(name, doing)
        pod, app = self.paths[name]
        for file in ("cpu.stat", "cpuacct.usage")[: 3 - self.node.tree.version]:
            self.node.tree.write(app, file, self.node.tree.read(pod, file) or "")


@pytest.fixture(params=VERSIONS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=request.param) as found:
        yield found


@pytest.fixture
def make(node: Node, tmp_path: Path) -> Callable[..., Bed]:
    def bed(tuning: Tuning = ON) -> Bed:
        made = Bed(node, tmp_path, tuning)
        made.online("web", 1000, Wish(QoSClass.SHARED))
        made.online("hog", 500)
        made.online("lean", 500)
        return made

    return bed


def short(bed: Bed, seconds: int = 2) -> Bed:
    """Let the hog fill the pool for some seconds after a calm time."""
    bed.seconds(20, bed.day(hog=400.0, lean=400.0))
    bed.seconds(seconds, bed.day(hog=6000.0, lean=400.0))
    return bed


def test_the_hog_of_a_short_pool_is_degraded(make: Callable[..., Bed]):
    bed = short(make())
    (degraded,) = bed.events(AuditEvent.PRESSURE_DEGRADE)
    assert bed.quota("hog") == 325_000
    assert bed.quota("lean") == bed.quota("web") == -1
    assert degraded.subject is not None
    assert (degraded.subject.id, degraded.reason) == ("hog-app", Reason.CPU_STALL)
    assert degraded.after == Knobs(quota=325_000)
    assert "shop/web" in degraded.because
    assert len(degraded.because) <= 160
    assert bed.degrader.degraded == {"hog-app": {"quota": "3.25 cores"}}


def test_a_timer_restores_the_hog(make: Callable[..., Bed]):
    bed = short(make())
    bed.seconds(59, bed.day(hog=6000.0, lean=400.0))
    assert bed.quota("hog") == 325_000
    bed.seconds(2, bed.day(hog=400.0, lean=400.0))
    assert bed.quota("hog") == -1
    (recovered,) = bed.events(AuditEvent.PRESSURE_RECOVER)
    assert (recovered.reason, recovered.after) == (Reason.CALM, Knobs(quota=-1))
    assert (recovered.inputs or {})["pool"] == SHARE
    assert bed.bandwidths.changed == {}


def test_steps_go_down_to_the_request(make: Callable[..., Bed]):
    bed = make()
    bed.online("busy", 8000)
    short(bed)
    bed.seconds(
        30,
        lambda: {
            "web": WAITS,
            "busy": Doing(cpu=6000.0),
            "lean": bed.uses("lean", 1000.0),
            "hog": bed.uses("hog", 6000.0),
        },
    )
    assert (bed.quota("hog"), bed.quota("lean"), bed.quota("web")) == (50_000, 50_000, -1)
    steps = bed.events(AuditEvent.PRESSURE_DEGRADE)
    assert min(one.after.quota or 0 for one in steps) == 50_000


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(),
        Tuning(pressure=PressureTuning(cpu=RungTuning(judges=False), degrade=True)),
    ],
    ids=["off", "no verdicts"],
)
def test_no_quota_is_lowered_unless_told_to(make: Callable[..., Bed], tuning: Tuning):
    bed = short(make(tuning), 10)
    assert bed.quota("hog") == -1
    assert not bed.events(AuditEvent.PRESSURE_DEGRADE)


def test_mode_observe_records_the_first_step_alone(make: Callable[..., Bed]):
    bed = short(make(replace(ON, observe=True)), 50)
    assert bed.quota("hog") == -1
    assert bed.degrader.degraded == {}
    (step,) = bed.told.decisions
    assert step.subject is not None
    assert (step.subject.id, step.event, step.reason) == (
        "hog-app",
        AuditEvent.PRESSURE_DEGRADE,
        Reason.CPU_STALL,
    )
    assert (step.before, step.after) == (Knobs(quota=-1), Knobs(quota=325_000))
    assert step.because.startswith("quota would be lowered, mode observe: CPU stall of shop/web")


def test_mode_observe_restores(make: Callable[..., Bed]):
    bed = short(make())
    bed.known.tuning = replace(ON, observe=True)
    bed.second(bed.day(hog=400.0)())
    assert bed.quota("hog") == -1
    assert bed.told.decisions[-1].reason is Reason.RECONFIGURED


@pytest.mark.parametrize("allowed", [None, frozenset[str](), frozenset({"throttle", "evict"})])
def test_only_a_pod_that_allows_it_is_degraded(make: Callable[..., Bed], allowed: frozenset[str] | None):
    bed = make()
    bed.online("greedy", 500, Wish(QoSClass.SHARED, avoidance=allowed))
    bed.seconds(20, bed.day(hog=400.0))
    bed.seconds(10, bed.day(hog=400.0, greedy=6000.0))
    assert bed.quota("greedy") == bed.quota("hog") == -1


@pytest.mark.parametrize("name", ["hog", "web"], ids=["the heavy pod", "the hurt pod"])
def test_an_unknown_request_degrades_nothing(make: Callable[..., Bed], name: str):
    bed = make()
    bed.request(name, None)
    short(bed, 10)
    assert bed.quota("hog") == -1


def test_an_unread_request_ends_degrading(make: Callable[..., Bed]):
    bed = short(make())
    bed.request("hog", None)
    bed.second(bed.day(hog=6000.0)())
    assert bed.quota("hog") == -1


@pytest.mark.parametrize(
    "elsewhere",
    [{"qos": QoSClass.DEDICATED, "pool": DEDICATED, "exclusive": 0b11}, {"pool": "gold"}],
    ids=["its own CPUs", "another pool"],
)
def test_a_stall_elsewhere_degrades_nothing(make: Callable[..., Bed], elsewhere: dict[str, Any]):
    bed = make()
    state = bed.known.state
    one = state.containers["web-app"]
    sidecar = replace(one, container=replace(one.container, id="web-sidecar", name="sidecar"))
    containers = state.containers.adding(replace(one, **elsewhere)).adding(sidecar)
    bed.known.state = replace(state, containers=containers)
    assert short(bed, 10).quota("hog") == -1


def test_a_reclaimed_culprit_goes_first(make: Callable[..., Bed]):
    bed = make()
    bed.pod("batch", QoSClass.RECLAIMED)
    bed.seconds(20, lambda: {"web": CALM, "hog": Doing(cpu=6000.0)})
    bed.seconds(5, lambda: {"web": WAITS, "hog": Doing(cpu=6000.0), "batch": Doing(cpu=4000.0)})
    assert bed.events(AuditEvent.PRESSURE_VERDICT)
    assert bed.quota("hog") == -1


def test_one_culprit_of_many_hurt_pods_goes_first(make: Callable[..., Bed]):
    bed = make()
    bed.pod("batch", QoSClass.RECLAIMED)
    names = ["web", "api", "db"]
    for name in names[1:]:
        bed.online(name, 1000, Wish(QoSClass.SHARED))
    bed.seconds(20, lambda: {**dict.fromkeys(names, CALM), "hog": Doing(cpu=4500.0)})
    hurt = {**dict.fromkeys(names, WAITS), "hog": Doing(cpu=4500.0), "batch": Doing(cpu=2000.0)}
    bed.seconds(5, lambda: hurt)
    assert bed.events(AuditEvent.PRESSURE_VERDICT)
    assert bed.quota("hog") == -1


def test_a_late_verdict_comes_before_degrading(make: Callable[..., Bed]):
    bed = make()
    bed.pod("batch", QoSClass.RECLAIMED)
    bed.seconds(20, lambda: {"web": CALM, "hog": Doing(cpu=3000.0)})
    bed.seconds(6, lambda: {"web": WAITS, "hog": Doing(cpu=3000.0)})  # no culprit, and idle CPU
    bed.seconds(20, lambda: {"web": CALM, "hog": Doing(cpu=6000.0)})
    hurt = {"web": WAITS, "hog": Doing(cpu=6000.0), "batch": Doing(cpu=2000.0)}
    bed.seconds(8, lambda: hurt)
    assert bed.events(AuditEvent.PRESSURE_VERDICT)
    assert bed.quota("hog") == -1


def test_an_idle_reclaimed_pod_delays_nothing(make: Callable[..., Bed]):
    bed = make()
    bed.pod("batch", QoSClass.RECLAIMED)
    assert short(bed).quota("hog") == 325_000


def test_only_quotas_in_force_are_counted(make: Callable[..., Bed]):
    """On cgroup v1 no quota is written to a container without one in a pod that has one."""
    bed = make()
    tree, (pod, _) = bed.node.tree, bed.paths["hog"]
    if tree.version == 1:
        tree.write(pod, "cpu.cfs_quota_us", "700000")
    bed.seconds(20, bed.day(hog=400.0, lean=400.0))
    bed.seconds(6, bed.day(hog=5000.0, lean=1500.0))
    found = [name for name in ("hog", "lean") if bed.quota(name) > 0]
    assert found == (["lean"] if tree.version == 1 else ["hog"])
    assert len(bed.degrader.degraded) == 1


def test_a_quota_is_not_counted_during_a_resize(make: Callable[..., Bed]):
    bed = short(make())
    bed.bandwidths.resized("hog")
    assert bed.quota("hog") == -1
    assert bed.degrader.degraded == {}


def test_switching_off_restores(make: Callable[..., Bed]):
    bed = short(make())
    bed.known.tuning = Tuning()
    bed.second(bed.day(hog=6000.0)())
    assert bed.quota("hog") == -1
    assert bed.told.decisions[-1].reason is Reason.RECONFIGURED


def test_the_end_restores(make: Callable[..., Bed]):
    bed = short(make())
    bed.degrader.end()
    assert bed.quota("hog") == -1
    assert bed.told.decisions[-1].reason is Reason.UNWATCHED


@pytest.mark.parametrize("limit_milli", [None, 7000], ids=["no limit", "a limit"])
def test_a_killed_daemons_quota_is_restored(make: Callable[..., Bed], limit_milli: int | None):
    bed = make()
    bed.online("capped", 500, limit_milli=limit_milli)
    bed.seconds(20, bed.day(capped=400.0))
    bed.seconds(2, bed.day(capped=6000.0))
    assert bed.quota("capped") == 325_000
    bed.restart()
    assert bed.quota("capped") == (700_000 if limit_milli else -1)
    assert [one.reason for one in bed.events(AuditEvent.PRESSURE_RECOVER)] == [Reason.UNWATCHED]


@pytest.mark.parametrize("handler", ["ignore", "pod"])
def test_another_handler_restores(make: Callable[..., Bed], handler: str):
    bed = short(make())
    bed.judge_again("hog", handler=handler)
    bed.second(bed.day(hog=400.0)())
    assert bed.quota("hog") == -1


@pytest.mark.parametrize("limit_milli", [None, 7000], ids=["no limit", "a limit"])
@pytest.mark.parametrize(
    "changed",
    [{"handler": "ignore"}, {"handler": "pod"}, {"qos": QoSClass.RECLAIMED}],
    ids=["ignored", "a VM", "reclaimed"],
)
def test_a_changed_containers_left_quota_is_restored(
    make: Callable[..., Bed], changed: dict[str, object], limit_milli: int | None
):
    bed = make()
    bed.online("capped", 500, limit_milli=limit_milli)
    bed.seconds(20, bed.day(capped=400.0))
    bed.seconds(2, bed.day(capped=6000.0))
    assert bed.quota("capped") == 325_000
    bed.judge_again("capped", **changed)
    bed.restart()
    assert bed.quota("capped") == (700_000 if limit_milli else -1)


def test_restore_takes_the_quota_back(make: Callable[..., Bed], tmp_path: Path):
    bed = short(make())
    root = str(bed.node.host_root)
    restored = restoration.restore(Journal(str(tmp_path / "journal"), root), root, bed.node.tree.version)
    assert restored.done
    assert not restored.refused
    assert bed.quota("hog") == -1


def test_a_resize_restores_at_once(make: Callable[..., Bed]):
    bed = short(make())
    bed.change("hog", Resources(shares=512, quota=600_000, period=100_000))
    bed.bandwidths.resized("hog")
    assert bed.quota("hog") == 600_000
    bed.second(bed.day(hog=400.0)())
    assert bed.bandwidths.changed == {}
    assert {one.reason for one in bed.events(AuditEvent.PRESSURE_RECOVER)} == {Reason.RECONFIGURED}


def test_a_container_that_ends_is_forgotten(make: Callable[..., Bed]):
    bed = short(make())
    kept = [one for one in bed.known.state.containers.values() if one.id != "hog-app"]
    bed.known.state = replace(bed.known.state, containers=Crowd.of(kept))
    bed.seconds(2, bed.day(lean=400.0))
    assert bed.bandwidths.changed == {}
    assert bed.degrader.degraded == {}


def test_a_sawtooth_is_restored_once_a_minute(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(20, bed.day(hog=400.0))
    restored = []
    for second in range(600):
        bed.second(bed.day(hog=6000.0 if second // 7 % 2 else 400.0, lean=400.0)())
        restored += [second for _ in bed.events(AuditEvent.PRESSURE_RECOVER)]
        bed.told.decisions.clear()
    assert len(restored) > 1
    assert all(later - earlier >= 60 for earlier, later in pairwise(restored))


def test_a_calm_full_pool_degrades_nothing(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(60, lambda: {"web": CALM, "hog": Doing(cpu=6500.0)})
    assert bed.told.decisions == []
