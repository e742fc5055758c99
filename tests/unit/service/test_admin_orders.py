"""Orders of the admin socket are carried out by the thread that owns the data, recorded, and bounded."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import ContainerCreating
from nri_coloc.core.evictions import Outcome as EvictionOutcome
from nri_coloc.core.evictions import Result
from nri_coloc.core.knobs import NO_KNOBS
from nri_coloc.core.report import Drift
from nri_coloc.core.settings import Settings
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.service import admin_orders as module
from nri_coloc.service.admin_orders import AdminOrders
from nri_coloc.service.configuration import loading as reader
from nri_coloc.service.drain import Drain
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.orders import (
    LONGEST_PAUSE_S,
    Caller,
    OrderDeclined,
    OrderInvalid,
    OrderLate,
    RunningPod,
)
from nri_coloc.service.retuning import InForce, Retuning
from nri_coloc.service.settings_orders import SettingsOrders
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.service.steering import Steering
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit import parts
from tests.unit.placing import kit as machine

ROOT = Caller(0, 42)


class Rig:
    """Real steering over a node, with fake loops and a fake runtime that note each request."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.file = folder / "config.yaml"
        self.file.write_text(text)
        settings = reader.load(text, "a test")
        self.node = Node(pools.initial(machine.machine(), settings.tuning), settings.tuning, 1 << 30)
        self.report, self.heard = parts.a_report(self.node)
        self.switch = parts.a_switch(folder, time.time)
        self.steering = self._steering(settings, KubeletWatch(str(folder)))
        self.evictions = EvictionOrders(
            self.report, may_evict=lambda: False, observes=lambda: self.node.tuning.observe
        )
        self.evictions.greeted()
        self.looked: list[str] = []
        self.swept: Future[int] = Future()
        self.compared: list[Future[str]] = []
        self.orders = self._orders()
        self.ended = False
        self.thread = Thread(target=self._turn, daemon=True)

    def _steering(self, settings: Settings, kubelet: KubeletWatch) -> Steering:
        clock = LendingClock(settings.schedule, time.time, self.switch)
        retuning = Retuning(
            InForce(settings),
            self.node,
            kubelet=kubelet,
            clock=clock,
            translator=parts.a_translator(settings.tuning),
            after=(self.report.changed,),
        )
        watch, no_runtime = SettingsWatch(str(self.file), lambda found: found), cast("Any", None)
        return Steering(retuning, self.report, watch=watch, kubelet=kubelet, clock=clock, runtime=no_runtime)

    def _orders(self) -> AdminOrders:
        loops = (
            SimpleNamespace(look_now=lambda: self.looked.append("lending")),
            SimpleNamespace(look_now=lambda: self.looked.append("survey")),
        )
        groups = SimpleNamespace(members=("/yarn",))
        actuator = SimpleNamespace(sweep_soon=lambda: self.swept, host_groups=groups)
        return AdminOrders(
            self.node,
            self.report,
            settings=SettingsOrders(
                self.node,
                self.report,
                self.steering,
                loops=cast("Any", loops),
                switch=self.switch,
                drain=Drain(self.node, self.evictions),
            ),
            actuator=cast("Any", actuator),
            comparison=cast("Any", SimpleNamespace(hasten=self.compared.append)),
            evictions=self.evictions,
        )

    def _turn(self) -> None:
        while not self.ended:
            self.orders.look(time.monotonic())
            time.sleep(0.001)

    def calls(self) -> list[tuple[str, str]]:
        return [(r.reason.value, r.because) for r in self.heard.records if r.event.value == "admin.call"]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Rig]]:
    made = []

    def rig(text: str) -> Rig:
        made.append(Rig(tmp_path, text))
        made[-1].thread.start()
        return made[-1]

    yield rig
    for one in made:
        one.ended = True
        one.thread.join()


@pytest.fixture
def rig(make):
    return make("")


def test_a_pause_is_in_force_and_loops_look(rig):
    until = rig.orders.pause_lending(ROOT, 600, "load test")
    assert rig.node.tuning.reclaim.paused == f"lending is paused until {until}: load test"
    assert rig.looked == ["lending", "survey"]
    assert ("reclaim.pause", "operator") in rig.heard.said()
    assert rig.calls() == [
        ("operator", f"pause lending for 600 s ('load test'): until {until} (uid=0, pid=42)")
    ]
    assert b"nri_coloc_lending_paused 1.0" in rig.report.metrics.render()


def test_a_pause_outlives_a_change_of_the_settings(rig):
    rig.orders.pause_lending(ROOT, 600, "")
    rig.file.write_text("strict: true\n")
    assert rig.orders.reload(ROOT) == ""
    assert rig.node.tuning.strict
    assert rig.node.tuning.reclaim.paused


def test_a_pause_ends_before_its_time_by_order(rig):
    rig.orders.pause_lending(ROOT, 600, "")
    assert rig.orders.resume_lending(ROOT)
    assert rig.node.tuning.reclaim.paused == ""
    assert ("reclaim.resume", "operator") in rig.heard.said()
    assert b"nri_coloc_lending_paused 0.0" in rig.report.metrics.render()


def test_without_a_pause_there_is_nothing_to_end(rig):
    assert not rig.orders.resume_lending(ROOT)
    assert rig.looked == []
    assert rig.calls()[-1] == ("operator", "resume lending: it was not paused (uid=0, pid=42)")


def test_off_takes_effect_before_its_answer(rig, tmp_path):
    ends = rig.orders.lending_off(ROOT, None, drain=False)
    assert rig.node.tuning.reclaim.lend == 0
    assert rig.looked == ["lending", "survey"]
    assert (ends.until, ends.not_kept, ends.running, ends.outside) == (
        "",
        "",
        (RunningPod("unknown", "the runtime has not sent its list of pods yet"),),
        ("/yarn",),
    )
    assert parts.a_switch(tmp_path, time.time).held.off


def test_a_drain_waits_for_the_schedules_grace(rig):
    ends = rig.orders.lending_off(ROOT, None, drain=True)
    words = "an operator ordered the end of lending: no new reclaimed pods start now (lend=100 %, switch_grace=600 s)"
    assert ends.because == words
    assert (rig.node.tuning.reclaim.lend, rig.node.tuning.reclaim.offer) == (1, 0)
    assert ("schedule.state", "operator") in rig.heard.said()


def test_a_drain_lists_reclaimed_pods(rig):
    rig.node.told = True
    pod = machine.pod(annotations={machine.KEY: "reclaimed"})
    rig.node.decide(ContainerCreating(pod, machine.container("job"), machine.RECLAIMED))
    found = rig.orders.lending_off(ROOT, 0, drain=True).running
    assert found == (RunningPod("shop/web", "an eviction order for the pod is open already"),)


def batch(rig, qos="reclaimed"):
    """Run a pod, and answer its eviction order with this result."""
    pod = machine.pod(annotations={machine.KEY: qos})
    wish = machine.RECLAIMED if qos == "reclaimed" else machine.SHARED
    rig.node.decide(ContainerCreating(pod, machine.container("job"), wish))


def evicting(rig):
    """Return the order of an eviction that waits for its result on a thread of its own, and its outcome to come."""
    outcome: Future[Result] = Future()
    Thread(
        target=lambda: outcome.set_result(rig.orders.evict(ROOT, "shop", "web", "the disk is full")),
        daemon=True,
    ).start()
    wait_until(lambda: rig.evictions.pending(time.monotonic()), 5, "an order")
    return rig.evictions.pending(time.monotonic())[0], outcome


def test_an_eviction_waits_for_its_result(rig):
    batch(rig)
    order, outcome = evicting(rig)
    assert (order.wish.pod_uid, order.wish.by_operator) == ("uid-web", True)
    rig.evictions.take_results((Result(order.id, EvictionOutcome.BUDGET, "not now"),), time.monotonic())
    assert outcome.result(PATIENCE_SECONDS).detail == "not now"
    wait_until(rig.calls, 5, "a record")
    assert rig.calls() == [("operator", "evict shop/web: budget: not now (uid=0, pid=42)")]


@pytest.mark.parametrize(
    ("qos", "refusal"),
    [
        ("shared", "pod shop/web has class shared; only reclaimed pods are evicted"),
        ("", "no pod shop/web on this"),
    ],
)
def test_only_known_reclaimed_pods_are_evicted(rig, qos, refusal):
    if qos:
        batch(rig, qos)
    with pytest.raises(OrderDeclined, match=refusal):
        rig.orders.evict(ROOT, "shop", "web", "x")


def test_without_a_companion_the_remedy_is_named(rig):
    batch(rig)
    rig.evictions.left()
    with pytest.raises(
        OrderDeclined, match="no companion is connected; `kubectl delete pod -n shop web` ends"
    ):
        rig.orders.evict(ROOT, "shop", "web", "x")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201, "a\nb"])
def test_an_eviction_has_a_printable_reason(rig, reason):
    batch(rig)
    with pytest.raises(OrderInvalid, match="reason"):
        rig.orders.evict(ROOT, "shop", "web", reason)


def test_the_end_of_the_daemon_ends_the_wait(rig):
    batch(rig)
    outcome: Future[str] = Future()

    def ask() -> None:
        try:
            rig.orders.evict(ROOT, "shop", "web", "x")
        except OrderLate as error:
            outcome.set_result(str(error))

    Thread(target=ask, daemon=True).start()
    wait_until(lambda: rig.evictions.pending(time.monotonic()), 5, "an order")
    rig.orders.stop()
    assert outcome.result(PATIENCE_SECONDS) == "the daemon stops; the pod may be evicted all the same"


def test_on_undoes_off(rig, tmp_path):
    rig.orders.lending_off(ROOT, 0, drain=False)
    assert rig.orders.lending_on(ROOT) == (True, "the schedule has no windows (lend=100 %)", "")
    assert rig.node.tuning.reclaim.lend == 1
    assert not parts.a_switch(tmp_path, time.time).held.off


def test_on_without_off_changes_nothing(rig):
    assert not rig.orders.lending_on(ROOT).was_off
    assert rig.calls()[-1] == ("operator", "switch lending on: it was not off (uid=0, pid=42)")


def test_a_full_disk_does_not_prevent_off(rig, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    ends = rig.orders.lending_off(ROOT, 0, drain=False)
    assert "No space left on device" in ends.not_kept
    assert rig.node.tuning.reclaim.lend == 0
    assert "not stored: cannot write" in rig.calls()[-1][1]


def test_off_outlives_another_schedule(rig):
    rig.orders.lending_off(ROOT, 0, drain=False)
    rig.file.write_text("schedule: {outside: 50}\n")
    assert rig.orders.reload(ROOT) == ""
    assert rig.node.tuning.reclaim.lend == 0


def test_too_long_a_grace_is_refused(rig):
    with pytest.raises(OrderInvalid, match="a grace lasts 86400 seconds at most, not 86401"):
        rig.orders.lending_off(ROOT, 86401, drain=True)
    assert rig.node.tuning.reclaim.lend == 1


def test_a_pause_ends_by_itself(rig):
    rig.orders.pause_lending(ROOT, 1, "")
    wait_until(lambda: not rig.node.tuning.reclaim.paused, 20, "its end")
    wait_until(lambda: ("reclaim.resume", "expired") in rig.heard.said(), 20, "a record of it")


@pytest.mark.parametrize("seconds", [0, LONGEST_PAUSE_S + 1])
def test_a_pause_has_bounds(seconds, rig):
    with pytest.raises(OrderInvalid, match=f"a pause lasts 1 to 86400 seconds, not {seconds}"):
        rig.orders.pause_lending(ROOT, seconds, "")
    assert rig.node.tuning.reclaim.paused == ""
    assert rig.calls()[-1][0] == "declined"


@pytest.mark.parametrize("reason", ["x" * 201, "two\nlines", "\x1b[2J"], ids=["long", "lines", "escape"])
def test_a_reason_over_one_line_is_refused(reason, rig):
    with pytest.raises(OrderInvalid, match="at most 200 characters, all printable"):
        rig.orders.pause_lending(ROOT, 1, reason)


def test_where_nothing_is_lent_there_is_nothing_to_pause(make):
    rig = make("reclaim: {enabled: false}\n")
    with pytest.raises(OrderDeclined, match="lending is switched off"):
        rig.orders.pause_lending(ROOT, 60, "")


def test_an_unchanged_file_is_read_again(rig):
    assert rig.orders.reload(ROOT) == ""
    assert ("config.reload", "valid") in rig.heard.said()


def test_an_invalid_file_is_answered_with_its_problem(rig):
    before = rig.node.tuning
    rig.file.write_text("mode: maybe\n")
    assert "mode: 'maybe' does not fit" in rig.orders.reload(ROOT)
    assert rig.node.tuning is before
    assert rig.calls()[-1][1].startswith("reload: invalid: ")


def test_a_file_beyond_this_machine_is_invalid(rig):
    rig.file.write_text("node: {reservedCPUs: 64}\n")
    assert "64 CPUs should be reserved" in rig.orders.reload(ROOT)


def test_without_a_file_there_is_nothing_to_read(rig):
    rig.steering._watch = SettingsWatch("", lambda found: found)
    with pytest.raises(OrderDeclined, match="started without --config"):
        rig.orders.reload(ROOT)


FOUND = "shares written again: cpu.shares was 5"
ABOVE = "memory.min written again: it was 0"


def test_what_a_repair_finds_is_the_answer(rig):
    parts.create(rig.node, "app")

    def sweep():
        rig.report.drifted(rig.node.state.containers["app"], rig.node.state, Drift(NO_KNOBS, NO_KNOBS, FOUND))
        rig.report.drifted("", rig.node.state, Drift(NO_KNOBS, NO_KNOBS, ABOVE))
        rig.swept.set_result(2)
        return rig.swept

    rig.orders._actuator.sweep_soon = sweep
    found = rig.orders.repair(ROOT)
    assert found.looked_at == 2
    assert list(found.sentences) == [f"shop/web/app: {FOUND}", ABOVE]
    assert rig.calls()[-1] == ("operator", "repair: 2 checked, 2 repaired (uid=0, pid=42)")


def test_who_only_observes_repairs_nothing(rig):
    rig.node.tuning = replace(rig.node.tuning, observe=True)
    with pytest.raises(OrderDeclined, match="mode observe changes nothing"):
        rig.orders.repair(ROOT)


@pytest.mark.parametrize("detail", ["", "2 containers are missing"], ids=["complete", "missing"])
def test_a_comparison_is_the_runtimes_answer(detail, rig):
    def answer() -> None:
        wait_until(lambda: rig.compared, 20, "the comparison to be asked for")
        rig.compared[0].set_result(detail)

    thread = Thread(target=answer)
    thread.start()
    assert rig.orders.compare(ROOT) == (not detail, detail)
    thread.join()


def test_an_order_not_begun_is_never_done_later(rig, monkeypatch):
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    with pytest.raises(OrderLate, match=r"not done within 0.05 s"):
        rig.orders.repair(ROOT)
    assert rig.swept.cancelled()
    assert rig.calls()[-1][0] == "declined"


def test_nobody_waits_for_a_daemon_that_stops(rig):
    def stop() -> None:
        wait_until(lambda: rig.orders._waiting, 20, "a caller")
        rig.orders.stop()

    stopper = Thread(target=stop)
    stopper.start()
    with pytest.raises(OrderDeclined, match="the daemon stops"):
        rig.orders.repair(ROOT)
    stopper.join()
    with pytest.raises(OrderDeclined, match="the daemon stops"):
        rig.orders.resume_lending(ROOT)


def test_a_mistake_of_ours_is_told_as_one(rig):
    def broken() -> str:
        raise ValueError("oops")

    rig.steering.reload = broken
    with pytest.raises(ValueError, match="oops"):
        rig.orders.reload(ROOT)
    assert rig.calls()[-1] == ("internal_error", "reload: failed inside (uid=0, pid=42)")
    assert not rig.orders.resume_lending(ROOT), "and the loop goes on"


def test_a_crowd_of_strangers_makes_one_record(rig):
    for pid in range(5):
        rig.orders.turned_away(Caller(1000, pid))
    (record,) = [r for r in rig.heard.records if r.event.value == "admin.call"]
    assert record.reason.value == "stranger"
    assert record.extra["inputs"] == {"uid": 1000, "pid": 0, "refused": 1}
