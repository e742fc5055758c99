"""service.cool_down: a restart keeps the cool-down, and no file makes it longer than a whole one."""

import os
from pathlib import Path

import pytest

from nri_coloc.pressure.eviction import COOL_S, NO_PACE
from nri_coloc.schedule.switch import Clocks
from nri_coloc.service.cool_down import NAME, CoolDown


def cool_down(folder: Path, *, monotonic: float, wall: float, boot: str = "one") -> CoolDown:
    """Return the cool-down of a process; the boot's clock is 500 s ahead of the monotonic one."""
    return CoolDown(str(folder), lambda: Clocks(boot, 500 + monotonic, wall), monotonic=lambda: monotonic)


@pytest.mark.parametrize("set_by_s", [-86400, -3600, 0, 3600, 86400])
def test_a_restart_keeps_the_end(tmp_path: Path, set_by_s: float):
    cool_down(tmp_path, monotonic=1000, wall=100000).keep(1200)
    assert cool_down(tmp_path, monotonic=1040, wall=100040 + set_by_s).begun().cools_until_s == 1200
    assert cool_down(tmp_path, monotonic=1200, wall=100200 + set_by_s).begun() == NO_PACE


@pytest.mark.parametrize("boot", ["two", ""])
@pytest.mark.parametrize(
    ("wall", "left_s"), [(100040, 160), (100200, 0), (186400, 0), (13600, COOL_S)], ids=repr
)
def test_a_reboot_counts_by_the_wall_clock(tmp_path: Path, boot: str, wall: float, left_s: float):
    cool_down(tmp_path, monotonic=1000, wall=100000, boot=boot and "one").keep(1200)
    found = cool_down(tmp_path, monotonic=7, wall=wall, boot=boot).begun()
    assert found.cools_until_s == (7 + left_s if left_s else 0)


@pytest.mark.parametrize("text", ["", "soon", "50000", "nan 0 one", "-inf 0 one", "0 soon one"], ids=repr)
def test_an_unreadable_file_is_no_cool_down(tmp_path: Path, text: str):
    (tmp_path / NAME).write_text(text)
    assert cool_down(tmp_path, monotonic=7, wall=50000).begun() == NO_PACE


def test_a_pipe_is_no_cool_down(tmp_path: Path):
    os.mkfifo(tmp_path / NAME)
    assert cool_down(tmp_path, monotonic=7, wall=50000).begun() == NO_PACE


def test_a_folder_that_is_gone_ends_nothing(tmp_path: Path):
    kept = cool_down(tmp_path / "gone", monotonic=7, wall=50000)
    kept.keep(200)
    assert kept.begun() == NO_PACE
