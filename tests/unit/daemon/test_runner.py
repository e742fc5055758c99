"""daemon/runner.py, put together and not started: nothing that one part meets keeps the others from their end."""

from pathlib import Path
from typing import Any

import pytest

from nri_coloc.daemon import restoration, runner
from nri_coloc.daemon.options import Options
from nri_coloc.daemon.settings_watch import SettingsWatch
from nri_coloc.model.tuning import Settings
from nri_coloc.node_sim.node import Node

PARTS = ("trunk", "lending", "survey", "actuator", "pusher")


class Rig:
    """A daemon on a simulated node, whose parts note that they were told to stop."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        node = Node(root, cgroup=2)
        options = Options(host_root=str(node.host_root), state_dir=str(root / "state"), http="off")
        settings = options.over(Settings(restore_on_exit=True))
        self.daemon = runner.Daemon(options, settings, SettingsWatch("", options.over))
        self.daemon._serves = True
        self.told: list[str] = []
        self.logged: list[dict[str, Any]] = []
        self.daemon.report.log = self  # type: ignore[assignment]  # as far as it is used
        for part in PARTS:
            monkeypatch.setattr(getattr(self.daemon, part), "stop", self.noting(part))
        monkeypatch.setattr(restoration, "at_exit", self.noting("restore"))
        monkeypatch.setattr(self.daemon.audit, "close", self.noting("audit"))

    def noting(self, what: str) -> Any:
        return lambda *_: self.told.append(what)

    def failing(self, *_: object) -> None:
        raise ValueError("not what anybody expected")

    def error(self, event: str, **fields: Any) -> None:
        self.logged.append({"event": event, **fields})

    exception = warning = info = error


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


class TestTheEnd:
    def test_everybody_is_stopped_everything_put_back_and_the_audit_closed_last(self, rig):
        assert rig.daemon._end() == 0
        assert rig.told == [*PARTS, "restore", "audit"]

    @pytest.mark.parametrize("part", PARTS)
    def test_whatever_one_part_meets_the_later_steps_are_taken(self, rig, monkeypatch, part):
        monkeypatch.setattr(getattr(rig.daemon, part), "stop", rig.failing)
        assert rig.daemon._end() == 1
        assert rig.told == [*(one for one in PARTS if one != part), "restore", "audit"]
        assert [(one["blame"], one["event"]) for one in rig.logged] == [
            ("ours", "a step of the daemon's end failed")
        ]

    def test_a_restoration_that_fails_leaves_the_audit_its_last_lines(self, rig, monkeypatch):
        monkeypatch.setattr(restoration, "at_exit", rig.failing)
        assert rig.daemon._end() == 1
        assert rig.told[-1] == "audit"

    def test_quotas_that_cannot_be_taken_back_keep_nothing_from_being_put_back(self, rig, monkeypatch):
        monkeypatch.setattr(rig.daemon._quota_bursts, "end", rig.failing)
        rig.daemon._end()
        assert rig.told[-2:] == ["restore", "audit"]
