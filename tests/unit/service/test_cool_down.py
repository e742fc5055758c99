"""service.cool_down: a restart keeps the cool-down, and no file makes it longer than a whole one."""

import os
from pathlib import Path

import pytest

from nri_coloc.pressure.eviction import COOL_S, NO_PACE
from nri_coloc.service.cool_down import NAME, CoolDown


def cool_down(folder: Path, *, monotonic: float, wall: float) -> CoolDown:
    return CoolDown(str(folder), monotonic=lambda: monotonic, wall=lambda: wall)


def test_a_restart_keeps_the_end(tmp_path: Path):
    cool_down(tmp_path, monotonic=1000, wall=50000).keep(1200)
    assert cool_down(tmp_path, monotonic=7, wall=50040).begun().cools_until_s == 7 + 160
    assert cool_down(tmp_path, monotonic=7, wall=50200).begun() == NO_PACE


def test_a_clock_set_back_adds_nothing(tmp_path: Path):
    cool_down(tmp_path, monotonic=1000, wall=50000).keep(1200)
    assert cool_down(tmp_path, monotonic=7, wall=100).begun().cools_until_s == 7 + COOL_S


@pytest.mark.parametrize("text", ["", "soon", "nan", "-inf"], ids=repr)
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
