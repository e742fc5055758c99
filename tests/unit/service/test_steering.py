"""Settings of the file, the schedule and the kubelet are put in force, also for hooks that are under way."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.decisions import ContainerCreating, Outcome, PodStarted, Reconfigured
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.host import sysfs
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.service import steering
from nri_coloc.service.configuration import loading as reader
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.retuning import InForce, Retuning
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.service.steering import Steering
from nri_coloc.sim import machines
from tests.unit import parts
from tests.unit.placing import kit as policy_kit

ONLINE = "sys/devices/system/cpu/online"
SETTINGS = reader.load("", "a test")


NOON_S = datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp()
NIGHTLY = reader.load('schedule: {outside: 0, windows: [{from: "22:00", to: "06:00"}]}', "a test")


class FakeRuntime:
    """Fake runtime that counts the requests of its list."""

    def __init__(self) -> None:
        self.synchronized_at, self.has_list = 1.0, True
        self.asked: list[str] = []

    def relist(self, why: str) -> bool:
        self.asked.append(why)
        return self.has_list


class Rig:
    """Steering over a planted machine."""

    def __init__(self, root: Path) -> None:
        machines.plant(machines.MACHINES["8cpu"], root)
        self.root, self.now = root, time.monotonic()
        self.wall_s = NOON_S
        self.node = Node(pools.initial(sysfs.read(str(root)), SETTINGS.tuning), SETTINGS.tuning, 1 << 30)
        report, self.heard = parts.a_report(self.node)
        self.runtime = FakeRuntime()
        self.requests = parts.Requests()
        self.translator = parts.a_translator(SETTINGS.tuning, self.requests)
        kubelet = KubeletWatch(str(root))
        clock = LendingClock(SETTINGS.schedule, lambda: self.wall_s, parts.a_switch(root))
        self.steering = Steering(
            Retuning(
                InForce(SETTINGS),
                self.node,
                kubelet=kubelet,
                clock=clock,
                translator=self.translator,
                after=(report.changed,),
            ),
            report,
            watch=SettingsWatch("", lambda settings: settings),
            kubelet=kubelet,
            clock=clock,
            runtime=self.runtime,
        )

    def looks(self, times: int) -> "Rig":
        for _ in range(times):
            self.now += 2
            self.steering.look(self.now)
        return self


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_settings_are_counted_once_they_are_in_force(rig, monkeypatch):
    seen = []
    metrics = rig.steering._report.metrics
    monkeypatch.setattr(metrics, "config_reload", lambda how: seen.append((how, rig.node.tuning.observe)))
    rig.steering.apply(reader.load("mode: observe\n", "a test"))
    assert seen == [("valid", True)]


@pytest.mark.parametrize("reserve", ['"0-6,64-65"', '"64-71"', "7"])
def test_unusable_cpus_reserve_nothing(rig, reserve):
    rig.steering.apply(reader.load(f"node: {{reservedCPUs: {reserve}}}\n", "a test"))
    assert ("config.reload", "valid") in rig.heard.said()


@pytest.mark.parametrize("reserve", ['"0-7"', '"0-7,64"', "8"])
def test_a_reserve_of_all_cpus_is_refused(rig, reserve):
    rig.steering.apply(reader.load(f"node: {{reservedCPUs: {reserve}}}\n", "a test"))
    assert ("config.reload", "invalid") in rig.heard.said()


# --- the schedule ----------------------------------------------------------------------------------------


def lent(rig: Rig) -> tuple[float, float]:
    tuning = rig.node.tuning.reclaim
    return tuning.lend, tuning.offer


def test_a_schedule_holds_with_its_file(rig):
    rig.steering.apply(NIGHTLY)
    assert lent(rig) == (0, 0)
    assert ("schedule.state", "schedule") in rig.heard.said()


def test_the_lent_part_follows_the_clock(rig):
    rig.steering.apply(NIGHTLY)
    found = []
    for hour in (22, 29.8, 29.9, 30):  # 29.9 is 05:54, within the ten minutes of grace
        rig.wall_s = NOON_S + (hour - 12) * 3600
        rig.looks(1)
        found.append(lent(rig))
    assert found == [(1, 1), (1, 1), (1, 0), (0, 0)]


def test_a_clock_that_is_set_back_takes_effect(rig):
    rig.steering.apply(NIGHTLY)
    rig.wall_s = NOON_S - 10 * 3600
    rig.looks(1)
    assert lent(rig) == (1, 1)


def test_without_a_change_the_tuning_stays(rig):
    rig.steering.apply(NIGHTLY)
    before = rig.looks(1).node.tuning
    rig.wall_s += 3600
    assert rig.looks(3).node.tuning is before


def test_each_change_of_state_is_recorded_once(rig):
    rig.steering.apply(NIGHTLY)
    for hour in (22, 23, 29.9, 30, 31):
        rig.wall_s = NOON_S + (hour - 12) * 3600
        rig.looks(2)
    records = [r for r in rig.heard.records if r.event == "schedule.state"]
    states = [record.extra["inputs"]["state"] for record in records]
    assert states == ["Online", "OnlineToOffline", "Offline", "OfflineToOnline", "Online"]
    assert all(len(record.because) <= 160 for record in records)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("schedule: {windows: [{lend: 100}]}", "schedule.windows[0] changes nothing"),
        ("pressure: {disk: 4}", "; pressure.disk is 4: a node that was closed may stay closed"),
    ],
    ids=["window", "disk"],
)
def test_odd_settings_are_named_with_the_reload(rig, text, remark):
    rig.steering.apply(reader.load(text, "a test"))
    (record,) = [r for r in rig.heard.records if r.event == "config.reload"]
    assert remark in record.because


def test_changes_for_a_restart_are_named_by_key(rig):
    rig.steering.apply(reader.load("telemetry: {auditRing: 7}\nruntime: {pluginIndex: '51'}\n", "a test"))
    (record,) = rig.heard.records
    assert (
        record.because
        == "configuration applied: the file is valid; only a restart changes runtime.pluginIndex, telemetry.auditRing"
    )


# ---- hooks that still have the previous settings ----


class Newcomer:
    """A hook that reads its wish under the settings at its beginning, and decides later."""

    def __init__(self, rig: Rig) -> None:
        self.node, self.translator = rig.node, rig.translator
        pod, app = policy_kit.pod(), policy_kit.container("app")
        self.events = (
            PodStarted(pod, self.translator.pod_wish(pod, rig.node.tuning)),
            ContainerCreating(pod, app, self.translator.wish(pod, app, rig.node.tuning)),
        )

    def decide(self) -> None:
        for event in self.events:
            self.node.decide(event)

    def weights(self) -> tuple[int | None, int | None]:
        return (
            self.node.state.pods["web"].wish.knobs.io_weight,
            self.node.state.containers["app"].wish.knobs.io_weight,
        )


HEAVY = reader.load("classes: {shared: {ioWeight: 400}}\n", "a test")


def test_a_pod_during_a_reload_has_new_settings(rig, monkeypatch):
    newcomer, read = Newcomer(rig), rig.translator.wishes_again

    def slowly(state: NodeState, tuning: Tuning) -> Any:
        found = read(state, tuning)
        if not state.containers:
            newcomer.decide()
        return found

    monkeypatch.setattr(rig.translator, "wishes_again", slowly)
    rig.steering.apply(HEAVY)
    assert newcomer.weights() == (400, 400)


def test_a_hook_under_way_has_them_next_turn(rig):
    newcomer = Newcomer(rig)
    rig.steering.apply(HEAVY)
    newcomer.decide()
    assert newcomer.weights() == (None, None)
    rig.steering.look(rig.now)
    assert newcomer.weights() == (400, 400)


def test_without_a_hook_settings_are_applied_once(rig, monkeypatch):
    Newcomer(rig).decide()
    told: list[object] = []
    node: Node = rig.node
    retune = node.retune

    def counted(event: Reconfigured, tuning: Tuning) -> Outcome:
        told.append(event)
        return retune(event, tuning)

    monkeypatch.setattr(rig.node, "retune", counted)
    rig.steering.apply(HEAVY)
    rig.steering.look(rig.now)
    rig.steering.look(rig.now)
    assert len(told) == 1


# ---- settings that read more of a pod ----

DEGRADING = reader.load("pressure: {degrade: true}\n", "a test")


def request_of_an_older_pod(rig: Rig) -> int | None:
    return rig.node.state.pods["web"].pod.cpu_request


def test_degrading_reads_requests_of_older_pods(rig):
    Newcomer(rig).decide()
    rig.requests.by_pod["web"] = 2000
    rig.steering.apply(DEGRADING)
    assert request_of_an_older_pod(rig) == 2000


def test_other_settings_read_no_requests(rig):
    Newcomer(rig).decide()
    rig.steering.apply(HEAVY)
    assert (request_of_an_older_pod(rig), rig.requests.reads) == (None, 0)


def test_a_known_request_is_not_read_again(rig):
    Newcomer(rig).decide()
    rig.requests.by_pod["web"] = 2000
    rig.steering.apply(DEGRADING)
    rig.steering.apply(reader.load("pressure: {degrade: true}\nmode: observe\n", "a test"))
    assert rig.requests.reads == 1


BY_LABEL = "classes: {rules: [{label: caster.io/resource-type=colocation, class: reclaimed}]}\n"


def in_force(rig: Rig) -> bool:
    return bool(rig.node.tuning.rules)


def test_settings_with_new_keys_wait_for_the_list(rig):
    rig.steering.apply(reader.load(BY_LABEL, "a test"))
    assert (len(rig.runtime.asked), in_force(rig)) == (1, False)
    rig.steering.look(time.monotonic())
    assert not in_force(rig)
    rig.runtime.synchronized_at = time.monotonic() + 1
    rig.steering.look(time.monotonic())
    assert in_force(rig)


def test_settings_do_not_wait_for_ever(rig):
    rig.steering.apply(reader.load(BY_LABEL, "a test"))
    rig.steering.look(time.monotonic() + steering.LIST_WITHIN_S + 1)
    assert in_force(rig)


def test_a_known_key_needs_no_list(rig):
    for _ in range(2):
        rig.steering.apply(reader.load(BY_LABEL, "a test"))
    assert (len(rig.runtime.asked), in_force(rig)) == (1, True)


def test_without_a_new_list_settings_hold_at_once(rig):
    rig.runtime.has_list = False
    rig.steering.apply(reader.load(BY_LABEL, "a test"))
    assert in_force(rig)


def test_the_newest_of_two_settings_is_awaited(rig):
    rig.steering.apply(reader.load(BY_LABEL, "a test"))
    rig.steering.apply(reader.load(BY_LABEL.replace("caster", "other"), "a test"))
    rig.runtime.synchronized_at = time.monotonic() + 1
    rig.steering.look(time.monotonic())
    assert rig.node.tuning.rules[0].label == ("other.io/resource-type", "colocation")
