"""The pusher sends the newest value, one push at a time, reads it back, and retries with pauses."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core.decisions import AmountsGranted, ContainerGone
from nri_coloc.core.knobs import NO_KNOBS, Capability, Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment
from nri_coloc.core.token_bucket import Rate
from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.runtime import pusher as module
from nri_coloc.runtime.pusher import Pusher, SpecUpdates
from tests.rig.waiting import comes, wait_until
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit

LOAN = Knobs(shares=2048, quota=200_000, period=100_000, memory_limit=1 << 30)
LENT = replace(kit.RECLAIMED, knobs=kit.RECLAIMED.knobs.overlaid(LOAN), annotated=LOAN)
ALL = Knobs(cpus="0-7")


class Runtime:
    """Fake CRI and connection that keep every push; `during` is called in the middle of each.

    updates_are_safe: NRI's own call is used; `updated` keeps it.
    """

    def __init__(self) -> None:
        self.connected = True
        self.updates_are_safe = False
        self.updated: list[nri_pb2.ContainerUpdate] = []
        self.pushed: list[tuple[str, Knobs]] = []
        self.during: Callable[[], object] = lambda: None
        self.raises: Exception | None = None

    def push(self, container_id: str, changes: Knobs) -> None:
        self.pushed.append((container_id, changes))
        self.during()
        if self.raises is not None:
            raise self.raises

    def update_container(self, update: nri_pb2.ContainerUpdate) -> None:
        self.updated.append(update)


class Rig:
    def __init__(self, tuning: Tuning | None = None) -> None:
        self.node = a_node(tuning)
        self.runtime = Runtime()
        self.report, self.heard = a_report(self.node)
        self.node.learn(Capability(cgroup=2))
        self.problem = ""
        self.remembered: list[tuple[str, Knobs, int]] = []
        self.placed: list[str] = []
        self.announced: list[tuple[str, str]] = []
        self.easing: Callable[[str], bool] = lambda _: True
        self.pusher = Pusher(
            self.node,
            self.report,
            updates=SpecUpdates(self.runtime, self.runtime),
            loans=self,
            files=self,
            place=self,
        )

    def differing(self, _assignment: Assignment, _changes: Knobs) -> str:
        return self.problem

    def remember(self, assignment: Assignment, changes: Knobs) -> None:
        self.remembered.append((assignment.id, changes, len(self.runtime.pushed)))

    def arrived(self) -> None:
        self.remembered.append(("arrived", NO_KNOBS, len(self.runtime.pushed)))

    def bring(self, container_id: str) -> None:
        self.placed.append(container_id)

    def pushing(self, container_id: str) -> None:
        self.announced.append((container_id, "begins"))

    def pushed(self, container_id: str) -> None:
        self.announced.append((container_id, "ended"))

    def ease(self, container_id: str) -> bool:
        return self.easing(container_id)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    create(rig.node, "app")
    return rig


@pytest.fixture
def running(rig: Rig):
    rig.pusher.start()
    yield rig
    rig.pusher.stop()
    rig.pusher._thread.join(30)
    assert not rig.pusher._thread.is_alive()


def test_differing_spec_is_pushed_once(rig):
    rig.pusher.learned("app", Knobs(cpus="0-3"))
    assert rig.pusher._push("app") >= module.PAUSE_S
    assert rig.pusher._push("app") == 0
    assert rig.runtime.pushed == [("app", ALL)]


def test_a_storm_of_resizes_makes_few_pushes(rig, monkeypatch):
    monkeypatch.setattr(module, "PUSHES", Rate(burst=3, every_s=30.0))
    pauses = []
    for cpus in ("0", "1", "2", "3"):
        rig.pusher.learned("app", Knobs(cpus=cpus))
        rig.pusher._taken.clear()
        pauses.append(rig.pusher._push("app"))
    assert max(pauses[:2]) < 1.0
    assert min(pauses[2:]) > 29.0


def test_the_spec_of_an_owner_is_pushed_first(rig):
    create(rig.node, "owner", kit.DEDICATED, milli=2000)
    rig.pusher.submit(("app", "owner"))
    assert [rig.pusher._next(), rig.pusher._next()] == ["owner", "app"]


def test_values_are_remembered_before_a_push(rig):
    rig.pusher._push("app")
    assert rig.remembered == [("app", ALL, 0), ("arrived", NO_KNOBS, 1)]


def test_limit_raised_before_a_push_is_pushed(rig):
    create(rig.node, "job", LENT, 0, on="batch")
    rig.pusher.learned("job", LOAN)
    rig.node.decide(AmountsGranted({"job": Knobs(memory_limit=1 << 20)}, "there is less"))

    def ease(container_id: str) -> bool:
        rig.node.decide(AmountsGranted({container_id: Knobs(memory_limit=1 << 25)}, "so much is in use"))
        return True

    rig.easing = ease
    rig.pusher._push("job")
    assert rig.runtime.pushed == [("job", Knobs(memory_limit=1 << 25))]


def test_push_with_unreadable_use_is_put_off(rig):
    rig.easing = lambda _: False
    began = time.monotonic()
    assert rig.pusher._push("app") == 0
    assert rig.runtime.pushed == []
    assert rig.pusher._waiting["app"] >= began + module.BACK_OFF_S


def test_the_newest_value_is_pushed_whatever_was_ordered(rig):
    rig.pusher.learned("app", ALL)
    rig.pusher.submit(("app",))
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.pusher._push("app")
    assert rig.runtime.pushed == [("app", Knobs(cpus="2-7"))]


def test_a_spec_that_agrees_is_left_alone(rig):
    rig.pusher.learned("app", ALL)
    assert rig.pusher._push("app") == 0
    assert rig.runtime.pushed == []


def test_lent_values_are_pushed_then_only_their_changes(rig):
    create(rig.node, "job", LENT, 0, on="batch")
    rig.pusher.learned("job", Knobs(shares=2))
    rig.pusher._push("job")
    rig.node.decide(AmountsGranted({"job": Knobs(quota=50_000)}, "there is less"))
    rig.pusher._push("job")
    rig.pusher._push("job")
    assert rig.runtime.pushed == [("job", LOAN), ("job", Knobs(quota=50_000))]


@pytest.mark.parametrize("within_pod", [True, False], ids=["v1", "v2"])
def test_pushed_cpus_fit_the_reclaim_pool(rig, within_pod):
    create(rig.node, "job", LENT, 0, on="batch")
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.node.learn(Capability(cgroup=1 if within_pod else 2))
    rig.pusher.learned("job", ALL)
    rig.pusher._push("job")
    rig.pusher._push("job")
    box = Knobs(cpus="2-7") if within_pod else NO_KNOBS
    assert rig.runtime.pushed == [("job", LOAN.overlaid(box))]


def test_waiting_push_carries_the_newest_values(rig):
    create(rig.node, "job", LENT, 0, on="batch")
    rig.node.learn(Capability(cgroup=1))
    rig.pusher.learned("job", ALL)
    newer: list[Knobs] = []

    def meanwhile() -> None:
        create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
        newer.append(rig.pusher.renew("job"))

    rig.runtime.during = meanwhile
    rig.pusher._push("job")
    assert (rig.runtime.pushed, newer) == ([("job", LOAN)], [Knobs(cpus="2-7")])


def test_kubelets_values_are_never_overwritten(rig):
    by_class = replace(kit.SHARED, knobs=Knobs(shares=4096))
    create(rig.node, "native", by_class, 1000)
    rig.pusher._push("native")
    assert rig.runtime.pushed == [("native", ALL)]


def test_class_value_fills_the_kubelets_gap(rig):
    by_class = replace(kit.SHARED, knobs=Knobs(shares=4096))
    create(rig.node, "plain", by_class, 0)
    rig.pusher._push("plain")
    assert rig.runtime.pushed == [("plain", Knobs(cpus="0-7", shares=4096))]


def test_annotated_value_overrides_the_kubelets(rig):
    limited = Knobs(memory_limit=1 << 20)
    create(rig.node, "native", replace(kit.SHARED, knobs=limited, annotated=limited), 1000)
    rig.pusher.learned("native", Knobs(cpus="0-7", memory_limit=1 << 30))
    rig.pusher._push("native")
    assert rig.runtime.pushed == [("native", limited)]


def test_push_is_recognised_only_in_flight(rig):
    seen = []
    rig.runtime.during = lambda: seen.append(
        (
            rig.pusher.recognises("app", ALL),
            rig.pusher.recognises("app", Knobs(cpus="0-3")),
            rig.pusher.recognises("app", ALL._replace(shares=5)),
            rig.pusher.recognises("other", ALL),
        )
    )
    rig.pusher._push("app")
    assert seen == [(True, False, False, False)]
    assert not rig.pusher.recognises("app", ALL)
    assert not rig.pusher.recognises("", Knobs())


def test_push_in_flight_is_renewed(rig):
    create(rig.node, "job", LENT)
    rig.pusher.learned("job", ALL)
    found: list[Knobs] = []

    def meanwhile() -> None:
        rig.node.decide(AmountsGranted({"job": Knobs(quota=50_000)}, "there is less"))
        found.extend(rig.pusher.renew(k) for k in ("job", "job", "app"))

    rig.runtime.during = meanwhile
    rig.pusher._push("job")
    assert found == [Knobs(quota=50_000), Knobs(), Knobs()]
    rig.pusher._push("job")
    assert rig.runtime.pushed == [("job", LOAN)]


def test_without_a_push_nothing_is_renewed(rig):
    assert rig.pusher.renew("app") == Knobs()


def test_files_are_checked_after_pushed_cpus(rig):
    create(rig.node, "job", LENT)
    rig.pusher.learned("job", ALL)
    rig.pusher._push("app")
    rig.pusher._push("job")
    assert rig.placed == ["app"]


def test_a_push_is_announced_before_its_call_and_its_end_after(rig):
    found: list[tuple[str, str]] = []
    rig.runtime.during = lambda: found.extend(rig.announced)
    create(rig.node, "job", LENT)
    rig.pusher.learned("job", Knobs(shares=2))
    rig.pusher._push("job")
    assert (found, rig.announced) == ([("job", "begins")], [("job", "begins"), ("job", "ended")])


def test_the_end_of_a_refused_push_is_announced_too(rig):
    rig.runtime.raises = TransportLost("gone")
    rig.pusher.learned("app", Knobs(cpus="0-3"))
    rig.pusher._push("app")
    assert rig.announced == [("app", "begins"), ("app", "ended")]


def test_push_during_the_stop_writes_no_files(rig):
    """After `stop` the files may already be restored."""
    rig.runtime.during = rig.pusher.stop
    assert rig.pusher._push("app")
    assert rig.placed == []


def test_repeated_refusal_is_recorded(rig):
    rig.runtime.raises = RuntimeRefused("not now")
    began = time.monotonic()
    assert rig.pusher._push("app") == module.PAUSE_S
    assert rig.pusher._waiting["app"] >= began + module.BACK_OFF_S
    assert not rig.pusher.recognises("app", ALL)
    assert rig.heard.records == []
    rig.runtime.raises = None
    rig.pusher._push("app")
    assert rig.heard.said() == [("push.failed", "runtime_refused")]
    assert "not now; tried again 2 s later" in rig.heard.records[0].because
    assert rig.runtime.pushed[-1] == ("app", ALL)


def test_last_refusal_is_recorded_at_the_stop(rig):
    rig.runtime.raises = RuntimeRefused("not now")
    rig.pusher.submit(("app",))
    rig.pusher.start()
    assert comes(lambda: "app" in rig.pusher._untold)
    rig.pusher.stop()
    assert rig.pusher.ended(30)
    assert rig.heard.said() == [("push.failed", "runtime_refused")]


def test_refusal_before_the_end_event_is_ignored(rig):
    rig.runtime.raises = RuntimeRefused("its process has ended")
    rig.pusher._push("app")
    rig.node.decide(ContainerGone("app"))
    assert rig.pusher._push("app") == 0
    assert (rig.heard.records, rig.pusher._untold) == ([], {})


def test_lasting_refusals_back_off_to_a_minute(rig):
    rig.runtime.raises = RuntimeRefused("not now")
    for _ in range(20):
        began = time.monotonic()
        rig.pusher._push("app")
    assert len(rig.heard.records) == 5
    assert began <= rig.pusher._waiting["app"] - module.BACK_OFF_CAP_S <= time.monotonic()


def test_lost_runtime_delays_all_pushes(rig):
    rig.runtime.raises = TransportLost("gone")
    assert rig.pusher._push("app") == module.BACK_OFF_S


def test_refusal_for_an_ended_container_is_ignored(rig):
    rig.runtime.raises = RuntimeRefused("no such container")
    rig.runtime.during = lambda: rig.node.decide(ContainerGone("app"))
    rig.pusher._push("app")
    assert (rig.heard.records, rig.pusher._waiting) == ([], {})


def test_differing_files_are_recorded_and_pushed_again(rig):
    rig.problem = "cpu.cfs_quota_us is 1, pushed was 2"
    rig.pusher._push("app")
    assert rig.heard.said() == [("push.failed", "found_different")]
    rig.problem = ""
    rig.pusher._push("app")
    assert rig.runtime.pushed == [("app", ALL)] * 2
    assert rig.pusher._push("app") == 0
    assert rig.pusher._failures == {}


def test_forgetful_runtime_gets_no_flood_of_pushes(rig):
    rig.pusher._push("app")
    rig.pusher.learned("app", Knobs(cpus="0-3"))
    assert rig.pusher._push("app") == 0
    assert rig.runtime.pushed == [("app", ALL)]
    assert rig.heard.said() == [("push.failed", "found_different")]
    rig.pusher._push("app")
    assert len(rig.runtime.pushed) == 2


def test_push_without_a_runtime_is_put_off(rig):
    rig.runtime.connected = False
    assert rig.pusher._push("app") == module.BACK_OFF_S
    assert (rig.runtime.pushed, rig.pusher._submitted) == ([], [("app",)])


def test_an_observer_pushes_nothing():
    rig = Rig(Tuning(observe=True))
    create(rig.node, "app")
    assert rig.pusher._push("app") == 0
    assert rig.runtime.pushed == []


def test_reclaimed_container_has_no_cpus_to_push(rig):
    create(rig.node, "job", kit.RECLAIMED, 0, on="batch")
    rig.pusher.learned("job", Knobs(shares=2))
    assert rig.pusher._push("job") == 0
    assert rig.runtime.pushed == []


def test_list_replaces_the_known_specs(rig):
    rig.pusher.learned("gone", ALL)
    rig.pusher.learned_all({"app": ALL, "old": ALL})
    rig.pusher.forget("old")
    assert rig.pusher._specs == {"app": ALL}
    rig.pusher.learned("ended", ALL)
    assert rig.pusher._push("ended") == 0
    assert "ended" not in rig.pusher._specs


def test_equal_submissions_do_not_pile_up(rig):
    for n in range(10_000):
        rig.pusher.submit((f"c{n % 3}", "app"))
    assert len(rig.pusher._submitted) < 1000
    rig.pusher._sort_in()
    assert list(rig.pusher._waiting) == ["c0", "app", "c1", "c2"]


def test_thread_pauses_between_pushes(running):
    create(running.node, "second")
    began = time.monotonic()
    running.pusher.submit(("app", "second", "app"))
    wait_until(lambda: len(running.runtime.pushed) == 2, 20, "both pushes")
    assert running.runtime.pushed == [("app", ALL), ("second", ALL)]
    assert time.monotonic() - began >= module.PAUSE_S


def test_a_submission_ends_no_pause(running):
    create(running.node, "second")
    began = time.monotonic()
    running.pusher.submit(("app",))
    wait_until(lambda: running.runtime.pushed, 20, "the first push")
    running.pusher.submit(("second",))
    wait_until(lambda: len(running.runtime.pushed) == 2, 20, "the second push")
    assert time.monotonic() - began >= module.PAUSE_S


def test_who_was_refused_keeps_nobody_else_waiting(running):
    create(running.node, "second")
    running.runtime.raises = RuntimeRefused("not now")
    running.pusher.submit(("app", "second"))
    wait_until(lambda: len(running.runtime.pushed) >= 2, 20, "two tries")
    assert [container_id for container_id, _ in running.runtime.pushed[:2]] == ["app", "second"]


def test_what_nobody_foresaw_does_not_end_the_thread(running):
    create(running.node, "second")
    running.runtime.raises = ZeroDivisionError("whatever")
    running.pusher.submit(("app",))
    began = time.monotonic()
    wait_until(lambda: running.pusher._waiting.get("app", 0) > began, 20, "the try that fails, to be put off")
    running.runtime.raises = None
    running.pusher.submit(("second",))
    wait_until(lambda: ("second", ALL) in running.runtime.pushed, 20, "the next container's push")


def test_safe_runtime_gets_the_native_call(rig):
    rig.runtime.updates_are_safe = True
    rig.pusher._push("app")
    (update,) = rig.runtime.updated
    assert rig.runtime.pushed == []
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("app", "0-7")
    assert not update.ignore_failure, "or a failure would look like success"
