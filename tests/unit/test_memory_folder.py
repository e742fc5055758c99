"""Tests keep their files in memory if the machine has room there."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rig import memory


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment name no folder for temporary files."""
    monkeypatch.setenv("TMPDIR", "")  # so that the end of the test restores it
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "/disk")


def test_temporary_folders_lie_in_memory(tmp_path: Path):
    memory.use_memory(tmp_path, room=1)
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)


def test_a_folder_of_ones_own_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", "/own")
    memory.use_memory(tmp_path, room=1)
    assert tempfile.gettempdir() == "/disk"


@pytest.mark.parametrize(
    ("name", "room", "flag"),
    [("absent", 1, 0), ("", 1 << 62, 0), ("", 1, os.ST_NOEXEC)],
    ids=["no such folder", "no room", "no programs"],
)
def test_an_unfit_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, room: int, flag: int
):
    found = SimpleNamespace(f_flag=flag, f_bavail=1 << 30, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    memory.use_memory(tmp_path / name, room)
    assert tempfile.gettempdir() == "/disk"
