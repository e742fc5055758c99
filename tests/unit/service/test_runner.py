"""service/runner.py, wired and not started: an error of one part keeps no other part from its end."""

import faulthandler
import math
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.settings import Settings
from nri_coloc.restore import restoration
from nri_coloc.service import runner, wiring
from nri_coloc.service.options import Options
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.sim.node import Node

PARTS = {
    "trunk": "hooks.trunk",
    "lending": "lending.loop",
    "survey": "forecast.survey",
    "actuator": "files.actuator",
    "pusher": "runtime.pusher",
}


class Rig:
    """A daemon on a simulated node, whose parts note each call of `stop`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        node = Node(root, cgroup=2)
        options = Options(host_root=str(node.host_root), state_dir=str(root / "state"), http="off")
        settings = options.over(Settings(restore_on_exit=True))
        self.wired = wiring.wire(options, settings, SettingsWatch("", options.over))
        self.parts = self.wired.parts
        self.daemon = runner.Daemon(self.wired)
        self.daemon._serves = True
        self.told: list[str] = []
        self.logged: list[dict[str, Any]] = []
        self.parts.ground.report.log = self  # type: ignore[assignment]  # as far as it is used
        for part, path in PARTS.items():
            monkeypatch.setattr(attrgetter(path)(self.parts), "stop", self.noting(part))
        monkeypatch.setattr(restoration, "at_exit", self.restoring)
        monkeypatch.setattr(self.parts.ground.audit, "close", self.noting("audit"))

    def pauses_of_two_turns(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Run the main thread for two turns and its end; return the pauses that it asked for, seconds."""
        pauses: list[float] = []

        def wait(seconds: float) -> bool:
            pauses.append(seconds)
            return len(pauses) > 2

        monkeypatch.setattr(self.daemon._ending, "asked", True)
        monkeypatch.setattr(self.parts.files.lock, "take", lambda: True)
        self.run(monkeypatch, wait)
        return pauses

    def run(self, monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], bool]) -> None:
        """Run the main thread.

        wait: called with each pause in seconds; returns whether the end was requested.
        """
        monkeypatch.setattr(self.daemon._ending, "wait", wait)
        monkeypatch.setattr(self.daemon._ending, "take_signals", lambda: None)
        monkeypatch.setattr(self.parts.ground.audit, "start", lambda: None)
        monkeypatch.setattr(threading, "excepthook", threading.excepthook)
        self.daemon.run()

    def restoring(self, *_: object) -> tuple[str, ...]:
        self.told.append("restore")
        return ("cpu.weight: Permission denied",)

    def noting(self, what: str) -> Any:
        return lambda *_: self.told.append(what)

    def failing(self, *_: object) -> None:
        raise ValueError("an unexpected value")

    def error(self, event: str, **fields: Any) -> None:
        self.logged.append({"event": event, **fields})

    exception = warning = info = error


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def test_a_cool_down_is_read_under_the_lock(rig, monkeypatch):
    """The previous process writes its cool-down until it gives up the lock."""

    def take() -> bool:
        (Path(rig.parts.ground.options.state_dir) / "cooling-until").write_text(
            f"{time.time() + 200:.0f} 0 former"
        )
        return True

    for path in ("files.actuator", "runtime.pusher", "lending.loop", "forecast.survey"):
        monkeypatch.setattr(attrgetter(path)(rig.parts), "start", lambda: None)
    monkeypatch.setattr(rig.daemon, "_start_trunk", lambda: None)
    monkeypatch.setattr(rig.parts.files.lock, "take", take)
    rig.run(monkeypatch, lambda _seconds: True)
    assert rig.parts.lending.evictor.pace.is_cooling(time.monotonic())


class TestTheEnd:
    def test_all_is_stopped_and_restored_audit_last(self, rig):
        assert rig.daemon._end() == 0
        assert rig.told == [*PARTS, "restore", "audit"]

    @pytest.mark.parametrize("part", PARTS)
    def test_whatever_one_part_meets_the_later_steps_are_taken(self, rig, monkeypatch, part):
        monkeypatch.setattr(attrgetter(PARTS[part])(rig.parts), "stop", rig.failing)
        assert rig.daemon._end() == 1
        assert rig.told == [*(one for one in PARTS if one != part), "restore", "audit"]
        assert [(one["blame"], one["event"]) for one in rig.logged] == [
            ("ours", "a step of the daemon's end failed")
        ]

    def test_a_restoration_that_fails_leaves_the_audit_its_last_lines(self, rig, monkeypatch):
        monkeypatch.setattr(restoration, "at_exit", rig.failing)
        assert rig.daemon._end() == 1
        assert rig.told[-1] == "audit"

    def test_values_that_were_not_restored_are_recorded(self, rig, monkeypatch):
        said: list[str] = []
        monkeypatch.setattr(rig.parts.ground.report, "said", lambda *what, **_: said.append(what[2]))
        rig.daemon._end()
        assert said[-1] == "not restored at the end: cpu.weight: Permission denied"

    def test_a_stuck_quota_does_not_stop_restoring(self, rig, monkeypatch):
        monkeypatch.setattr(rig.parts.lending.quota_burst_loop, "end", rig.failing)
        rig.daemon._end()
        assert rig.told[-2:] == ["restore", "audit"]


LOOKS = {
    "claiming the runtime": ("_claim_for_launched",),
    "releasing superseded containers": ("_leave_superseded",),
    "comparing with CRI": ("parts.hooks.comparison", "poll"),
    "following settings": ("parts.steering", "look"),
    "following the machine": ("parts.hotplug", "look"),
    "lending amounts": ("parts.forecast.loans", "look"),
    "raising quotas": ("parts.lending.quota_burst_loop", "look"),
    "keeping the state folder": ("parts.files.state_folder", "look"),
    "keeping the admin socket": ("operator.admin", "look"),
}
OF_WHO_SERVES = {"keeping the state folder", "keeping the admin socket"}


class TestATurn:
    @pytest.fixture
    def looks(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, str]]:
        """Return the object and the method of each periodic check; each check notes its calls."""
        found = {}
        for step, (*holder, name) in LOOKS.items():
            found[step] = (attrgetter(holder[0])(rig.wired) if holder else rig.daemon, name)
            monkeypatch.setattr(*found[step], rig.noting(step))
        return found

    def test_everything_is_looked_at(self, rig, looks):
        rig.daemon._tick()
        assert (rig.told, rig.logged) == ([*LOOKS], [])

    def test_before_it_serves_nothing_of_its_own_is(self, rig, looks):
        rig.daemon._serves = False
        rig.daemon._tick()
        assert rig.told == [step for step in LOOKS if step not in OF_WHO_SERVES]

    @pytest.mark.parametrize("step", LOOKS)
    def test_a_failing_step_is_named_and_others_run(self, rig, looks, monkeypatch, step):
        monkeypatch.setattr(*looks[step], rig.failing)
        rig.daemon._tick()
        assert rig.told == [one for one in LOOKS if one != step]
        assert [(one["event"], one["step"], one["blame"]) for one in rig.logged] == [
            ("a step of a turn of housekeeping failed", step, "ours")
        ]

    def test_the_next_turn_comes(self, rig, looks, monkeypatch):
        monkeypatch.setattr(*looks["comparing with CRI"], rig.failing)
        assert len(rig.pauses_of_two_turns(monkeypatch)) == 3
        assert rig.told.count("raising quotas") == 2

    def test_a_healthy_daemon_outlives_the_limit_of_a_hang(self, rig, looks, monkeypatch):
        """Time passes in pauses alone, so a machine that stands still is no hang here."""
        passed, ends_at = 0.0, math.inf

        def end_later(seconds: float, **_: object) -> None:
            nonlocal ends_at
            ends_at = passed + seconds

        def wait(seconds: float) -> bool:
            nonlocal passed
            passed += seconds
            return passed >= min(2 * runner.HUNG_S, ends_at)

        monkeypatch.setattr(faulthandler, "dump_traceback_later", end_later)
        monkeypatch.setattr(rig.parts.hooks.comparison, "due_in", lambda _now: math.inf)
        monkeypatch.setattr(rig.daemon._ending, "asked", True)
        monkeypatch.setattr(rig.parts.files.lock, "take", lambda: True)
        rig.run(monkeypatch, wait)
        assert 2 * runner.HUNG_S <= passed < ends_at

    def test_after_one_that_failed_it_is_not_hurried(self, rig, looks, monkeypatch):
        monkeypatch.setattr(*looks["comparing with CRI"], rig.failing)
        monkeypatch.setattr(rig.parts.hooks.comparison, "due_in", lambda _now: 0.0)
        assert rig.pauses_of_two_turns(monkeypatch) == [0.0, runner.HOUSEKEEPING_S, runner.HOUSEKEEPING_S]

    def test_a_comparison_that_is_due_hurries_it(self, rig, looks, monkeypatch):
        monkeypatch.setattr(rig.parts.hooks.comparison, "due_in", lambda _now: 0.25)
        assert rig.pauses_of_two_turns(monkeypatch) == [0.25, 0.25, 0.25]

    def test_an_alarm_of_a_disk_hurries_it(self, rig, looks, monkeypatch):
        times = rig.parts.lending.pressure.times
        monkeypatch.setattr(times, "check_in", lambda _now: 0.3)
        monkeypatch.setattr(times, "is_alarmed", lambda _now: True)
        assert rig.pauses_of_two_turns(monkeypatch) == [0.3, 0.3, 0.3]
        assert rig.told.count("raising quotas") == 2

    def test_a_check_without_alarm_takes_no_turn(self, rig, looks, monkeypatch):
        times = rig.parts.lending.pressure.times
        monkeypatch.setattr(times, "check_in", lambda _now: 0.3)
        monkeypatch.setattr(times, "is_alarmed", lambda _now: False)
        rig.pauses_of_two_turns(monkeypatch)
        assert rig.told.count("raising quotas") == 0
