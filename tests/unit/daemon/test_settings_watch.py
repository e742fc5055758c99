"""The configuration file: every way in which it can change is seen, and each change once."""

import os
from pathlib import Path

import pytest

from nri_coloc.daemon.settings_watch import SettingsWatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("strict: false\n")
    return path


@pytest.fixture
def watch(file: Path) -> SettingsWatch:
    return SettingsWatch(str(file), lambda settings: settings)


def test_nothing_new_is_nothing(watch):
    assert [watch.look(), watch.look()] == [None, None]


def test_without_a_file_there_is_never_anything():
    assert SettingsWatch("", lambda settings: settings).look() is None


def test_a_new_text_is_seen_once(watch, file):
    file.write_text("strict: true \n")
    change = watch.look()
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.strict
    assert watch.look() is None


def test_a_text_of_the_same_length_and_time_in_another_file_is_seen(watch, file, tmp_path):
    before = file.stat()
    other = tmp_path / "other"
    other.write_text("strict: true \n"[: before.st_size])
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert watch.look() is not None


def test_a_swapped_link_above_the_file_is_seen(tmp_path):
    for version, text in (("1", "strict: false\n"), ("2", "strict: true\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text(text)
    data = tmp_path / "..data"
    data.symlink_to("1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    watch = SettingsWatch(str(tmp_path / "config.yaml"), lambda settings: settings)
    (tmp_path / "tmp").symlink_to("2")
    (tmp_path / "tmp").rename(data)
    change = watch.look()
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.strict


@pytest.mark.parametrize("text", ["mode: maybe\n", "[", "\0"], ids=["value", "half", "binary"])
def test_an_invalid_text_is_a_problem_and_said_once(text, watch, file):
    file.write_text(text)
    change = watch.look()
    assert change is not None
    assert change.settings is None
    assert str(file) in change.problem
    assert watch.look() is None


def test_a_file_that_goes_is_a_problem_and_its_return_is_news(watch, file, tmp_path):
    file.rename(tmp_path / "away")
    gone = watch.look()
    assert gone is not None
    assert "cannot be read" in gone.problem
    (tmp_path / "away").rename(file)
    back = watch.look()
    assert back is not None
    assert back.settings is not None


def test_flags_are_laid_over_whatever_is_read(file):
    watch = SettingsWatch(str(file), lambda settings: settings.__class__(http="off"))
    file.write_text("telemetry: {http: '127.0.0.1:1'}\n")
    change = watch.look()
    assert change is not None
    assert change.settings is not None
    assert change.settings.http == "off"
