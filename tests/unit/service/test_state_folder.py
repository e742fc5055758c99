"""service/state_folder.py: a deleted, full or closed folder is repaired and reported, and blocks nothing."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.forecast.forecast_file import ForecastFile
from nri_coloc.host.journal import Journal
from nri_coloc.service import state_folder
from nri_coloc.service.instance_lock import InstanceLock
from nri_coloc.service.state_folder import TRIED_EVERY_S, StateFolder
from tests.rig.journals import load
from tests.unit.parts import a_node, a_report

ENTRY = {"/cg/cpu.weight": "39"}


class Rig:
    """A state folder whose lock is taken, with one value in its journal."""

    def __init__(self, folder: Path, *, observe: bool = False) -> None:
        self.path = folder
        self.lock = InstanceLock(str(folder))
        assert self.lock.take()
        self.journal = Journal(str(folder / "restore.jsonl"))
        self.forecast = ForecastFile(str(folder), print)
        report, self.heard = a_report(a_node())
        self.metrics = report.metrics
        self.observes = observe
        self.folder = StateFolder(
            folder=str(folder),
            lock=self.lock,
            journal=self.journal,
            others=(self.forecast,),
            report=report,
            observes=lambda: self.observes,
        )
        self.now = 0.0
        self.folder.begin()
        if not observe:
            self.journal.note(*next(iter(ENTRY.items())))

    def look(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.folder.look(self.now)

    @property
    def said(self) -> list[str]:
        return [record.because for record in self.heard.records]

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(f"nri_coloc_{name} ")), 0.0)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "state")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function that fills the disk, or makes room on it again."""
    write, opened = os.write, os.fdopen

    def refuse(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def switch(is_full: bool) -> None:  # noqa: FBT001 - the disk's state
        monkeypatch.setattr(os, "write", refuse if is_full else write)
        monkeypatch.setattr(os, "fdopen", refuse if is_full else opened)

    return switch


def test_an_observing_daemon_keeps_no_journal(tmp_path):
    rig = Rig(tmp_path / "state", observe=True)
    rig.look(TRIED_EVERY_S)
    assert list(rig.path.glob("restore*")) == []


def test_a_journal_begins_when_observing_ends(tmp_path):
    rig = Rig(tmp_path / "state", observe=True)
    rig.observes = False
    rig.look()
    assert [found.name for found in rig.path.glob("restore*")] == ["restore.jsonl"]
    assert rig.said == []


def test_nothing_is_said_of_a_folder_that_is_well(rig):
    rig.look()
    assert (rig.folder.problem, rig.said, rig.metric("state_writable")) == ("", [], 1)


def test_a_deleted_folder_is_made_again_with_all_that_is_known(rig):
    shutil.rmtree(rig.path)
    rig.look()
    assert load(rig.path / "restore.jsonl") == ENTRY
    assert rig.lock.is_in_place()
    assert rig.heard.said() == [("state.folder", "rewritten")]
    assert rig.said == ["restore journal written again: it was missing (values=1)"]
    assert rig.heard.records[0].extra["inputs"]["values"] == 1


def test_a_deleted_journal_alone_is_rewritten(rig):
    (rig.path / "restore.jsonl").unlink()
    rig.look()
    assert load(rig.path / "restore.jsonl") == ENTRY


def test_a_full_disk_is_said_once_until_it_has_room(rig, full):
    full(True)
    for _ in range(3):
        rig.look(TRIED_EVERY_S)
    assert rig.folder.problem == f"cannot write in {rig.path}: No space left on device"
    assert rig.heard.said() == [("write.failed", "refused")]
    assert rig.metric("state_writable") == 0
    full(False)
    rig.look(TRIED_EVERY_S)
    assert (rig.folder.problem, rig.metric("state_writable")) == ("", 1)
    full(True)
    rig.look(TRIED_EVERY_S)
    assert len(rig.said) == 2


def test_a_journal_that_missed_a_line_is_rewritten(rig, full):
    full(True)
    rig.journal.note("/cg/io.weight", "default 100")
    rig.look()
    assert "cannot write the restore journal" in rig.folder.problem
    full(False)
    rig.look(TRIED_EVERY_S)
    assert load(rig.path / "restore.jsonl") == {**ENTRY, "/cg/io.weight": "default 100"}
    assert rig.said[-1] == "restore journal written again: it could not be written before (values=2)"


def test_it_is_tried_now_and_then_only(rig, monkeypatch):
    tries: list[str] = []
    monkeypatch.setattr(state_folder, "tried", tries.append)
    for _ in range(21):
        rig.look()
    assert len(tries) == 3


def test_a_forecast_that_cannot_be_written_is_said_too(rig):
    rig.forecast.problem = "cannot write forecast: No space left on device"
    rig.look()
    assert rig.folder.problem == rig.forecast.problem
    assert rig.said == [f"state not written: {rig.forecast.problem}; placement continues"]


def test_a_folder_that_cannot_be_made_is_said(rig):
    shutil.rmtree(rig.path)
    rig.path.touch()
    rig.look()
    assert f"cannot use the state folder {rig.path}: File exists" in rig.folder.problem
    rig.path.unlink()
    rig.look(TRIED_EVERY_S)
    assert rig.folder.problem == ""
    assert load(rig.path / "restore.jsonl") == ENTRY


def test_a_journal_that_was_amiss_is_said_at_the_start(tmp_path):
    (tmp_path / "restore.jsonl").write_text("hello\n")
    rig = Rig(tmp_path)
    assert rig.heard.said() == [("state.folder", "taken_over")]
    assert "holds 1 line without an entry" in rig.said[0]


class TestTrials:
    def test_a_trial_leaves_nothing(self, tmp_path):
        assert state_folder.tried(str(tmp_path), durably=True) is None
        assert [*tmp_path.iterdir()] == []

    @pytest.mark.parametrize("name", ["write", "fsync", "rename"])
    def test_each_step_counts_and_none_leaves_anything(self, tmp_path, monkeypatch, name):
        def refuse(*_: Any) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(Path if name == "rename" else os, name, refuse)
        error = state_folder.tried(str(tmp_path), durably=True)
        assert error is not None
        assert error.errno == errno.EIO
        assert [*tmp_path.iterdir()] == []

    def test_half_a_write_is_a_full_disk(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "write", lambda *_: 17)
        error = state_folder.tried(str(tmp_path))
        assert error is not None
        assert error.errno == errno.ENOSPC

    def test_one_of_a_killed_process_is_in_nobodys_way(self, tmp_path):
        (tmp_path / f".trial-{os.getpid()}").write_text("left")
        assert state_folder.tried(str(tmp_path)) is None
