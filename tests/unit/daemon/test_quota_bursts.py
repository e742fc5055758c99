"""Quotas of throttled online containers rise while the node is idle and fall when it is not, by file."""

from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nri_coloc.actuation.bandwidths import PodBandwidth, Write, Written
from nri_coloc.actuation.files import Correction
from nri_coloc.daemon import bandwidths, refusals
from nri_coloc.daemon.bandwidths import RESIZE_LASTS_S, PodBandwidths
from nri_coloc.daemon.drift import REPAIRS_PER_MINUTE
from nri_coloc.daemon.quota_bursts import EVERY_S, QuotaBursts
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model.events import ContainerGone, ContainerUpdating, PodRemoved, Reconfigured
from nri_coloc.model.lending import Binding, Headroom
from nri_coloc.model.readings import GroupReading
from nri_coloc.model.tuning import BurstTuning, ReclaimTuning, Tuning
from nri_coloc.model.workload import Resources, Wish
from tests.unit.daemon.kit import a_node, a_report, create
from tests.unit.policy import kit

ON = Tuning(reclaim=ReclaimTuning(burst=BurstTuning(quota_percent=300)))
QUOTA = 100_000


BUSY = KernelInterfaceError("/cpu.max", "write '1' to", "Device or resource busy")


class Files:
    """Stands for the writer and for the reader: what is to hold by pod, counters by path.

    `meanwhile` happens in the middle of a write.
    """

    def __init__(self) -> None:
        self.applied: list[PodBandwidth] = []
        self.writes = 1
        self.failures: tuple[KernelInterfaceError, ...] = ()
        self.usage_us = 0
        self.held = 0
        self.gone = False
        self.key = 1
        self.meanwhile: Callable[[], None] = lambda: None
        self.left: set[str] = set()
        self.quotas: dict[str, int] = {}
        self.refuses_quotas = False

    def held_back(self) -> set[str]:
        return self.left

    def bandwidth(self, pod: PodBandwidth) -> Written:
        self.meanwhile()
        self.applied.append(pod)
        done = (
            Write("", Correction("cpu.max.burst", "0", "50000")),
            Write("kubepods/podweb/app", Correction("cpu.max", "max 100000", "200000 100000")),
            Write("kubepods/podweb/app", Correction("cpu.max.burst", "0", "50000")),
        )
        return Written((*done[: self.writes], *self._quotas_of(pod)), self.failures)

    def _quotas_of(self, pod: PodBandwidth) -> list[Write]:
        """Hold the quotas as a hierarchy of version 2 does; returns the writes that this took."""
        wanted = {"": QUOTA + pod.extra} | {k: one.quota for k, one in pod.containers.items() if one.quota}
        done = []
        for target, quota in wanted.items():
            before = self.quotas.get(target, QUOTA)
            if quota != before and not self.refuses_quotas:
                self.quotas[target] = quota
                done.append(Write(target, Correction("cpu.max", f"{before} 100000", f"{quota} 100000")))
        return done

    def container(self, path: str, at: float) -> GroupReading | None:
        if self.gone:
            return None
        return GroupReading(self.key, at, usage_us=self.usage_us, throttled_periods=self.held)


class Rig:
    def __init__(self, tuning: Tuning = ON, wish=kit.SHARED) -> None:
        self.node = a_node(tuning)
        self.report, self.heard = a_report(self.node)
        self.files = Files()
        self.bandwidths = PodBandwidths(self.node, cast("Any", self.files), self.report)
        self.headroom = Headroom(2000, 0, 1000, Binding.ONLINE_USE, 4000)
        self.bursts = QuotaBursts(self.node, self.bandwidths, self.files, lambda: self.headroom, self.report)
        self.now = 0.0
        create(self.node, "app", wish, 1000)
        self.limit("app")

    def limit(self, name: str, quota: int = QUOTA) -> None:
        """The kubelet gives it a quota."""
        known = self.node.state.containers[name]
        asked = Resources(quota=quota, period=100_000)
        self.node.decide(ContainerUpdating(kit.pod(), known.container, known.wish, asked))

    def pass_by(self, used_milli: int = 1000, held: float = 0.5) -> None:
        """Let a turn pass in which the container was held back."""
        self.now += EVERY_S
        self.files.usage_us += int(used_milli * EVERY_S * 1000)
        self.files.held += int(held * EVERY_S * 10)
        self.bursts.look(self.now)

    def raised(self) -> int:
        self.pass_by()
        self.pass_by()
        return self.bandwidths.raised["app"].quota

    def resize(self, quota: int) -> None:
        """The kubelet gives it another quota, and the hook of that writes."""
        self.limit("app", quota)
        self.bandwidths.resized("web")

    def last_written(self) -> list[int | None]:
        return [share.quota for share in self.files.applied[-1].containers.values()]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_who_cannot_be_read_any_more_goes_back_first_and_is_not_forgotten(rig):
    rig.raised()
    rig.files.gone = True
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.raised == {}


def test_a_refused_return_is_tried_again_at_the_end(rig):
    rig.raised()
    rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
    rig.files.gone = True
    rig.pass_by()
    rig.files.refuses_quotas, rig.files.failures = False, ()
    rig.bursts.end()
    assert rig.files.quotas["kubepods/podweb/app"] == QUOTA


def test_a_throttled_container_goes_up_while_the_node_is_idle(rig):
    assert rig.raised() == 120_000
    assert rig.files.applied[-1].extra == 20_000


def test_what_an_operator_lets_the_box_have_is_no_bound_for_online_containers(rig):
    rig.headroom = Headroom(0, 0, 1000, Binding.ONLINE_USE, 4000)
    assert rig.raised() == 120_000


def test_on_a_busy_node_it_goes_back_and_its_own_quota_is_written(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 100)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.raised == {}
    shares = [share for pod in rig.files.applied for share in pod.containers.values()]
    assert [share.quota for share in shares][-1] in (QUOTA, None)
    assert QUOTA in [share.quota for share in shares]


def test_a_raise_that_the_kernel_does_not_take_back_is_not_forgotten(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE)
    rig.files.failures = (KernelInterfaceError("/cpu.cfs_quota_us", "write", "Invalid argument"),)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.raised["app"].quota == QUOTA
    rig.files.failures = ()
    rig.bandwidths.drifts.forgive()
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.raised == {}


APP = "kubepods/podweb/app"


def switched_off(rig: Rig) -> None:
    rig.node.tuning = Tuning()
    rig.bursts.look(rig.now + 0.1)


class TestWhatIsTold:
    def test_a_raise_is_told_of_the_container_and_of_its_pod_with_what_decided_it(self, rig):
        rig.raised()
        pod, app = rig.heard.records
        assert rig.heard.said() == [("pod.limit", "quota_burst"), ("container.update", "quota_burst")]
        assert (pod.pod, pod.container, pod.before, pod.after) == (
            "web", "", {"quota": 100_000}, {"quota": 120_000},
        )  # fmt: skip
        assert pod.because == "the quotas of its containers are raised by 20000 in all"
        assert (app.container, app.before, app.after) == ("app", {"quota": 100_000}, {"quota": 120_000})
        assert pod.decision_id == app.decision_id
        assert app.because == (
            "node idle: online pods use 1000m of 8000m, raised below 45%, lowered from 50% on; it uses 1000m of its"
            " 1000m, held back 50% of the time; 1.20 of its own 100000, at most 3.00, within 4000m for all raises"
            " together"
        )

    def test_it_is_counted_as_other_decisions_are(self, rig):
        rig.raised()
        counted = 'decisions_total{event="container.update",reason="quota_burst"} 1.0'
        assert counted in rig.report.metrics.render().decode()

    def test_a_quota_that_stays_is_not_told_again(self, rig):
        rig.raised()
        rig.heard.records.clear()
        rig.files.writes = 0
        for _ in range(3):
            rig.pass_by(held=0.0)
        assert rig.heard.records == []

    def test_every_step_of_the_return_is_told(self, rig):
        rig.raised()
        rig.pass_by()
        rig.heard.records.clear()
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        for _ in range(5):
            rig.pass_by(1400, held=0.0)
        told = [(one.before["quota"], one.after["quota"]) for one in rig.heard.records if one.container]
        assert told == [(144_000, 115_200), (115_200, QUOTA)]
        assert rig.heard.records[-1].because.startswith("node overload: online pods use 7900m of 8000m")

    def test_what_the_kernel_refused_is_not_told_as_done(self, rig):
        rig.files.refuses_quotas = True
        rig.raised()
        assert rig.heard.records == []

    def test_what_the_kernel_takes_at_a_later_try_is_told_as_ours(self, rig, monkeypatch):
        monkeypatch.setattr(refusals, "FIRST_PAUSE_S", 0.0)
        rig.raised()
        rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        rig.pass_by(1400, held=0.0)
        rig.heard.records.clear()
        rig.files.refuses_quotas, rig.files.failures = False, ()
        rig.bandwidths.sweep()
        assert {one.reason for one in rig.heard.records} == {"quota_burst"}

    @pytest.mark.parametrize(
        ("end", "because"),
        [
            (lambda rig: rig.bursts.end(), "the daemon ends, and nobody would lower it: its own 100000"),
            (switched_off, "the quota burst is switched off: its own 100000"),
            (
                lambda rig: rig.resize(110_000),
                "its own 110000: a resize of its pod is under way",
            ),
        ],
        ids=["the daemon ends", "switched off", "resized"],
    )
    def test_whatever_ends_a_raise_is_told(self, rig, end, because):
        rig.raised()
        end(rig)
        assert rig.heard.records[-1].because == because

    def test_what_a_former_life_left_is_told_when_it_goes_back(self):
        rig = Rig(Tuning())
        rig.files.left, rig.files.quotas = {APP}, {APP: 200_000}
        rig.pass_by()
        (app,) = rig.heard.records
        assert (app.before, app.after) == ({"quota": 200_000}, {"quota": QUOTA})

    def test_a_container_that_is_gone_meanwhile_is_not_told_of(self, rig):
        rig.pass_by()
        rig.files.meanwhile = lambda: rig.node.decide(ContainerGone("app"))
        rig.pass_by()
        assert [one.container for one in rig.heard.records] == [""]


@pytest.mark.parametrize("tuning", [ON, Tuning()], ids=["on", "off"])
def test_what_a_former_life_raised_and_this_one_does_not_goes_back_to_the_kubelets_own(tuning):
    rig = Rig(tuning)
    rig.files.left = {APP, "kubepods/podweb"}
    rig.pass_by(held=0.0)
    assert [pod.containers[APP].quota for pod in rig.files.applied] == [QUOTA]
    rig.pass_by(held=0.0)
    assert rig.bandwidths.raised == {}


def test_nobody_is_taken_over_before_the_runtime_has_told_everything():
    rig = Rig(Tuning())
    rig.bursts.told_all = lambda: False
    rig.files.left = {APP}
    rig.pass_by()
    assert (rig.bandwidths.raised, rig.files.applied) == ({}, [])


def test_a_burst_that_only_a_former_life_wanted_is_given_back():
    rig = Rig(Tuning(), wish=bursting(None))
    rig.files.left = {"kubepods/podweb"}
    rig.pass_by()
    rig.bandwidths.sweep()
    assert last_burst(rig) is None
    rig.bandwidths.sweep()
    assert len(rig.files.applied) == 1


def test_at_the_end_what_was_raised_is_the_kubelets_own_again(rig):
    rig.raised()
    rig.bursts.end()
    assert rig.files.applied[-1].containers[APP].quota == QUOTA
    assert rig.files.applied[-1].extra == 0


def test_at_the_end_nothing_is_written_where_nobody_was_raised(rig):
    rig.bursts.end()
    assert rig.files.applied == []


def bursting(percent: int | None) -> Wish:
    return replace(kit.SHARED, cpu_burst_percent=percent)


def reconfigured(rig: Rig, wish: Wish) -> None:
    """New settings, under which the container wishes something else."""
    rig.node.decide(Reconfigured(rig.node.state.topology, {"app": wish}, {}))
    rig.bandwidths.follow("app")


def last_burst(rig: Rig) -> int | None:
    return rig.files.applied[-1].containers["kubepods/podweb/app"].burst


def test_a_burst_follows_new_settings_and_its_end():
    rig = Rig(wish=bursting(None))
    for percent, burst in ((50, 50_000), (20, 20_000), (None, None)):
        reconfigured(rig, bursting(percent))
        assert last_burst(rig) == burst
    assert len(rig.files.applied) == 3


def test_a_move_that_changes_no_bandwidth_writes_none():
    rig = Rig(wish=bursting(None))
    rig.bandwidths.follow("app")
    assert rig.files.applied == []
    reconfigured(rig, bursting(50))
    rig.bandwidths.follow("app")
    rig.bandwidths.follow("gone")
    assert len(rig.files.applied) == 1


def test_a_pod_of_which_nobody_wants_anything_any_more_is_not_looked_at_again():
    rig = Rig(wish=bursting(50))
    rig.bandwidths.sweep()
    reconfigured(rig, bursting(None))
    rig.bandwidths.sweep()
    looked = len(rig.files.applied)
    rig.bandwidths.sweep()
    assert len(rig.files.applied) == looked


@pytest.mark.parametrize("binding", [Binding.STALE, Binding.NOT_MEASURED])
def test_without_readings_nobody_goes_up(rig, binding):
    rig.headroom = Headroom(4000, 0, 0, binding, 4000)
    rig.pass_by()
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rig: setattr(rig.files, "gone", True),
        lambda rig: setattr(rig.files, "key", 2),
        lambda rig: setattr(rig.files, "held", -100),
        lambda rig: rig.node.decide(ContainerGone("app")),
    ],
    ids=["gone", "made anew", "a counter that went back", "ended"],
)
def test_who_is_not_known_is_not_raised(rig, spoil):
    rig.pass_by()
    spoil(rig)
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize(
    "wish",
    [kit.RECLAIMED, kit.DEDICATED, kit.SYSTEM, replace(kit.SHARED, preserve=frozenset({"cpu"}))],
    ids=["reclaimed", "dedicated", "system", "preserved"],
)
def test_only_online_containers_of_a_pool_burst(wish):
    rig = Rig(wish=wish)
    rig.pass_by()
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize("tuning", [Tuning(), replace(ON, observe=True)], ids=["off", "observing"])
def test_it_does_nothing_unless_it_is_on(tuning):
    rig = Rig(tuning)
    rig.pass_by()
    rig.pass_by()
    assert rig.files.applied == []


def test_switched_off_what_was_raised_goes_back_at_once(rig):
    rig.raised()
    rig.node.tuning = Tuning()
    rig.bursts.look(rig.now + 0.1)
    assert rig.bandwidths.raised == {}
    assert [s.quota for s in rig.files.applied[-1].containers.values()] == [QUOTA]


def test_it_is_not_reckoned_oftener_than_it_is_worth(rig):
    rig.pass_by()
    seen = len(rig.files.applied)
    rig.bursts.look(rig.now + 0.1)
    assert len(rig.files.applied) == seen


class TestAnObserver:
    @pytest.fixture
    def rig(self) -> Rig:
        return Rig(replace(ON, observe=True))

    def told(self, rig: Rig) -> list[tuple[Any, Any]]:
        assert set(rig.heard.said()) == {("container.update", "quota_burst")}
        return [(one.before, one.after) for one in rig.heard.records]

    def test_tells_what_would_be_written(self, rig):
        for _ in range(3):
            rig.pass_by()
        assert self.told(rig) == [
            ({"quota": QUOTA}, {"quota": 120_000}),
            ({"quota": 120_000}, {"quota": 144_000}),
        ]
        assert rig.heard.records[0].because.startswith("node idle: online pods use 1000m of 8000m")
        assert (rig.files.applied, rig.bandwidths.raised) == ([], {})

    def test_tells_it_once_and_the_return_too(self, rig):
        rig.pass_by()
        rig.pass_by()
        rig.pass_by(held=0.0)
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        rig.pass_by(held=0.0)
        assert self.told(rig)[1:] == [({"quota": 120_000}, {"quota": QUOTA})]

    def test_tells_the_return_when_it_is_switched_off(self, rig):
        rig.pass_by()
        rig.pass_by()
        rig.node.tuning = Tuning(observe=True)
        rig.pass_by()
        rig.pass_by()
        assert self.told(rig)[1:] == [({"quota": 120_000}, {"quota": QUOTA})]

    def test_leaves_what_a_former_life_raised_for_the_day_on_which_it_may_act(self, rig):
        rig.files.left, rig.files.quotas = {APP}, {APP: 200_000}
        rig.pass_by(held=0.0)
        assert rig.files.applied == []
        rig.node.tuning = ON
        rig.pass_by(held=0.0)
        assert rig.files.quotas[APP] == QUOTA


class TestPodsBandwidths:
    BURSTING = replace(kit.SHARED, cpu_burst_percent=50)

    def test_a_container_that_starts_has_its_burst_and_its_pod_is_told(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.place("app")
        (pod,) = rig.files.applied
        assert pod.path == "kubepods/podweb"
        (share,) = pod.containers.values()
        assert (share.own, share.quota, share.burst) == (QUOTA, None, 50_000)

    def test_pods_that_want_neither_are_not_looked_at(self, rig):
        rig.bandwidths.place("app")
        rig.bandwidths.place("nobody")
        rig.bandwidths.sweep()
        assert rig.files.applied == []

    def test_a_resize_goes_by_the_new_quota_and_ends_a_raise(self, rig):
        rig.raised()
        rig.limit("app", 150_000)
        rig.bandwidths.resized("web")
        assert rig.last_written() == [150_000]
        assert rig.files.applied[-1].extra == 0

    def test_a_resize_of_another_container_lowers_the_raised_ones_of_its_pod_before_the_kubelet_writes(
        self, rig
    ):
        create(rig.node, "sidecar")
        rig.limit("sidecar", 50_000)
        rig.raised()
        before = len(rig.files.applied)
        rig.limit("sidecar", 20_000)
        rig.bandwidths.resized("web")
        assert len(rig.files.applied) == before + 1
        assert rig.files.applied[-1].containers[APP].quota == QUOTA
        assert rig.files.applied[-1].extra == 0

    def test_nobody_of_a_pod_is_raised_until_its_resize_has_ended(self, rig, monkeypatch):
        at = [100.0]
        monkeypatch.setattr(bandwidths, "time", SimpleNamespace(monotonic=lambda: at[0]))
        rig.raised()
        rig.bandwidths.resized("web")
        rig.pass_by()
        rig.bandwidths.sweep()
        assert rig.last_written() == [QUOTA]
        at[0] += RESIZE_LASTS_S
        rig.pass_by()
        assert rig.last_written()[0] > QUOTA

    def test_a_resize_of_a_pod_where_nobody_is_raised_writes_nothing(self, rig):
        rig.bandwidths.resized("web")
        rig.bandwidths.resized("nobody")
        assert rig.files.applied == []

    def test_a_raise_that_is_reckoned_while_it_is_resized_is_not_written(self, rig: Rig):
        rig.raised()

        def resized_meanwhile() -> Headroom:
            rig.resize(50_000)
            return rig.headroom

        rig.bursts = QuotaBursts(rig.node, rig.bandwidths, rig.files, resized_meanwhile, rig.report)
        rig.pass_by()
        assert rig.last_written() == [50_000]

    def test_a_write_under_way_does_not_come_after_that_of_a_resize(self, rig):
        rig.raised()
        hook = Thread(target=rig.resize, args=(50_000,))

        def resized_meanwhile() -> None:
            rig.files.meanwhile = lambda: None
            hook.start()
            hook.join(0.2)  # it waits for its turn; one that did not would be through by now

        rig.files.meanwhile = resized_meanwhile
        rig.bandwidths.sweep()
        hook.join(30)
        assert rig.last_written() == [50_000]

    def test_a_quota_that_is_gone_is_left_alone(self, rig):
        rig.raised()
        rig.limit("app", -1)
        rig.bandwidths.resized("web")
        assert rig.last_written() == [None]

    def test_what_somebody_resets_is_repaired_said_and_not_for_ever(self):
        rig = Rig(wish=self.BURSTING)
        for _ in range(20):
            rig.bandwidths.sweep()
        assert len(rig.files.applied) == 1 + REPAIRS_PER_MINUTE
        assert rig.heard.said() == [("drift.repair", "found_different")] * REPAIRS_PER_MINUTE

    def test_a_reset_is_told_of_the_pod_and_of_each_container_with_before_and_after(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.files.writes = 3
        rig.bandwidths.sweep()
        pod, app = rig.heard.records
        assert (pod.pod, pod.container, pod.before, pod.after) == ("web", "", {"burst": 0}, {"burst": 50_000})
        assert (app.container, app.before, app.after) == (
            "app",
            {"burst": 0},
            {"quota": 200_000, "burst": 50_000},
        )
        assert app.because == (
            "found cpu.max max 100000 instead of 200000 100000, cpu.max.burst 0 instead of 50000; put right"
        )

    def test_what_holds_is_not_said(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.files.writes = 0
        rig.bandwidths.sweep()
        assert rig.heard.records == []

    def test_refusals_are_said(self):
        rig = Rig(wish=self.BURSTING)
        rig.files.failures = (KernelInterfaceError("/cpu.max.burst", "write", "Invalid argument"),)
        rig.bandwidths.place("app")
        assert rig.heard.said() == [("write.failed", "kernel_refused")]

    def test_a_pod_that_is_gone_is_forgotten(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.node.decide(PodRemoved("web"))
        rig.bandwidths.sweep()
        rig.bandwidths.apply("web")
        assert len(rig.files.applied) == 1

    def test_an_observer_writes_nothing(self):
        rig = Rig(Tuning(observe=True), self.BURSTING)
        rig.bandwidths.sweep()
        rig.bandwidths.place("app")
        assert rig.files.applied == []
