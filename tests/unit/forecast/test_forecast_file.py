"""The forecast file keeps histories over restarts; a broken file and a full disk are handled."""

import resource
from contextlib import AbstractContextManager

import pytest

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import expectations
from nri_coloc.forecast.expectations import NEVER, Forecast
from nri_coloc.forecast.forecast_file import NAME, ForecastFile
from nri_coloc.forecast.use import Use
from tests.rig import whole_process

NOON = 20_000 * 86_400.0
TUNING = ReclaimTuning()


def learnt() -> Forecast:
    found = Forecast()
    for minute in range(3):
        found = expectations.observe(
            found, {"p": Use("shop/web", 500, 1 << 30)}, NOON + 60.0 * minute, TUNING
        )
    return found


class Rig:
    def __init__(self, folder) -> None:
        self.said: list[str] = []
        self.path = folder / NAME
        self.file = ForecastFile(str(folder), self.said.append)

    def load(self) -> Forecast:
        return self.file.load(NOON + 200.0, TUNING)


def small_files(most: int) -> AbstractContextManager[None]:
    """Have the kernel refuse files of more than `most` bytes."""
    return whole_process.limited(resource.RLIMIT_FSIZE, most)


@pytest.fixture
def rig(tmp_path) -> Rig:
    return Rig(tmp_path)


def test_what_was_learnt_comes_back_and_nothing_of_the_present(rig):
    rig.file.save(learnt(), NOON + 120.0)
    found = rig.load()
    assert found.histories.keys() == {"shop/web"}
    assert (found.observed, rig.said) == (NEVER, [])


def test_the_first_start_has_learnt_nothing_and_that_is_no_news(rig):
    assert (rig.load(), rig.said) == (Forecast(), [])


def test_nothing_learnt_overwrites_nothing(rig):
    rig.path.write_text("what there was")
    rig.file.save(Forecast(), NOON)
    assert rig.path.read_text() == "what there was"


def test_another_save_replaces_the_file_whole(rig):
    rig.path.write_text("x" * 100_000)
    rig.file.save(learnt(), NOON)
    assert rig.load().histories
    assert [path.name for path in rig.path.parent.iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no forecast"),
        (b"\xff\xfe\0", "is no forecast"),
        (b"nri-coloc-forecast 9 0 0\n", "version 9"),
    ],
    ids=["empty", "bytes", "version"],
)
def test_an_unsound_file_is_reported_and_learning_begins_anew(rig, content, why):
    rig.path.write_bytes(content)
    assert rig.load() == Forecast()
    assert why in rig.said[0]


def test_a_file_that_is_cut_off_is_not_believed(rig):
    rig.file.save(learnt(), NOON)
    rig.path.write_text(rig.path.read_text()[:-20])
    assert rig.load() == Forecast()
    assert "truncated" in rig.said[0]


def test_a_file_that_cannot_be_read_is_said(rig):
    rig.path.mkdir()
    assert rig.load() == Forecast()
    assert "it is no regular file; the forecast begins without history" in rig.said[0]


def test_an_unwritable_folder_is_a_problem_until_it_works(tmp_path):
    rig = Rig(tmp_path / "gone")
    rig.file.save(learnt(), NOON)
    because = "No such file or directory; the forecast is lost at the next restart"
    assert rig.file.problem == f"cannot write {rig.path}: {because}"
    rig.path.parent.mkdir()
    rig.file.save(learnt(), NOON)
    assert rig.file.problem == ""
    assert rig.load().histories


def test_a_full_disk_leaves_the_old_file_and_no_litter(rig):
    rig.file.save(learnt(), NOON)
    old = rig.path.read_text()
    with small_files(100):
        rig.file.save(learnt(), NOON + 60.0)
    assert rig.path.read_text() == old
    assert [path.name for path in rig.path.parent.iterdir()] == [NAME]
    assert "File too large" in rig.file.problem
