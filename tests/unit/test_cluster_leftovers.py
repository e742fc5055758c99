"""Another process removes a rig from a real Kubernetes node only if its owner is gone."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import leftovers
from tests.rig import RigError

NO_CGROUP: Final = "/no-cgroup-of-any-rig"


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    folder = tmp_path / f"{leftovers.PREFIX}0"
    folder.mkdir()
    return folder


def ended() -> int:
    """Return the id of a process that is gone."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_rig_without_owner_is_taken_away(rig: Path):
    setting = rig.parent / "setting"
    leftovers.note(rig, ended(), {str(setting): "before"}, NO_CGROUP)
    assert leftovers.take_away(rig.parent) == [rig]
    assert not rig.exists()
    assert setting.read_text() == "before"


def test_owned_rig_is_refused(rig: Path):
    leftovers.note(rig, os.getpid(), {}, NO_CGROUP)
    with pytest.raises(RigError, match="make cluster-down"):
        leftovers.take_away(rig.parent)
    assert rig.exists()


def test_owned_rig_is_taken_away_on_demand(rig: Path):
    leftovers.note(rig, os.getpid(), {}, NO_CGROUP)
    assert leftovers.take_away(rig.parent, also_owned=True) == [rig]
    assert not rig.exists()


def test_a_killed_runs_rig_is_taken_away_before_the_next_run(rig: Path):
    leftovers.note(rig, ended(), {}, NO_CGROUP)
    assert leftovers.take_away_ended(rig.parent) == [rig]


def test_nothing_is_taken_away_beside_a_rig_in_use(rig: Path):
    leftovers.note(rig, os.getpid(), {}, NO_CGROUP)
    assert leftovers.take_away_ended(rig.parent) == []
    assert rig.exists()


def test_only_processes_that_see_the_folder_are_inside(rig: Path):
    assert leftovers.inside(rig) == set()
