"""The clean-up of a rig keeps what may be another rig's, and ends rigs of killed runs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.rig import cleanup, owner


def test_the_folder_above_the_shims_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sockets = tmp_path / "containerd" / "s"
    sockets.mkdir(parents=True)
    monkeypatch.setattr(cleanup, "SHIM_SOCKETS", sockets)
    cleanup.clear(cleanup.Traces(tmp_path / "rig", (), frozenset(), ()))
    assert not sockets.exists()
    assert sockets.parent.is_dir()


def test_a_rig_whose_owner_was_killed_is_taken_away(tmp_path: Path):
    rig = tmp_path / f"{cleanup.PREFIX}0"
    rig.mkdir()
    with subprocess.Popen(["true"]) as process:
        pass
    (rig / "owner").write_text(f"{process.pid} 1")
    assert cleanup.take_away_left(tmp_path) == [rig]
    assert not rig.exists()


def test_a_living_owners_rig_stays(tmp_path: Path):
    rig = tmp_path / f"{cleanup.PREFIX}0"
    rig.mkdir()
    owner.note(rig)
    assert cleanup.take_away_left(tmp_path) == []
    assert rig.exists()


def test_another_users_folder_is_no_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rig = tmp_path / f"{cleanup.PREFIX}0"
    rig.mkdir()
    (rig / "owner").write_text("1 1")
    monkeypatch.setattr(os, "geteuid", lambda: rig.stat().st_uid + 1)
    assert cleanup.take_away_left(tmp_path) == []
    assert rig.exists()
