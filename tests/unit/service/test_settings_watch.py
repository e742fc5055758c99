"""Each change of the configuration file is found once, and only after the file is complete."""

import os
from pathlib import Path

import pytest

from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import loading as reader
from nri_coloc.service.settings_watch import STILL_S, Change, SettingsWatch

OBSERVES = "strict: true\nmode: observe\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("strict: false\n")
    return path


@pytest.fixture
def watch(file: Path) -> SettingsWatch:
    return SettingsWatch(str(file), lambda settings: settings)


def when_still(watch: SettingsWatch) -> Change | None:
    """Look twice at a file that does not change between; return the change that the second look finds."""
    assert watch.look(0.0) is None
    return watch.look(STILL_S)


def test_nothing_new_is_nothing(watch):
    assert [watch.look(0.0), watch.look(1.0)] == [None, None]


def test_without_a_file_there_is_never_anything():
    assert SettingsWatch("", lambda settings: settings).look(0.0) is None


def test_a_new_text_is_seen_once(watch, file):
    file.write_text("strict: true \n")
    change = when_still(watch)
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.strict
    assert watch.look(1.0) is None


def test_a_file_written_in_pieces_is_read_whole(watch, file):
    looks = []
    with file.open("w") as writer:
        for turn, line in enumerate(OBSERVES.splitlines(keepends=True)):
            looks.append(watch.look(turn * STILL_S))
            writer.write(line)
            writer.flush()
    looks += [watch.look(2 * STILL_S), watch.look(2.9 * STILL_S)]
    assert looks == [None] * 4
    change = watch.look(3 * STILL_S)
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.observe


def test_one_that_was_put_back_as_it_was_is_no_news(watch, file):
    before = file.stat()
    file.write_text("strict: true\n")
    assert watch.look(0.0) is None
    file.write_text("strict: false\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watch.look(STILL_S) is None


def test_each_change_in_place_has_its_own_wait(watch, file):
    file.write_text("strict: true\n")
    assert when_still(watch) is not None
    file.write_text(OBSERVES)
    assert watch.look(10.0) is None
    assert watch.look(10.0 + STILL_S) is not None


@pytest.mark.parametrize("swaps", [False, True], ids=["in place", "by a rename"])
def test_what_is_written_while_it_is_read_is_read_again(swaps, watch, file, tmp_path, monkeypatch):
    read = reader.read

    def interrupted(path: str) -> object:
        monkeypatch.setattr(reader, "read", read)
        half = read(path)
        other = tmp_path / "other" if swaps else file
        other.write_text(OBSERVES)
        other.rename(file)
        return half

    file.write_text("strict: true\n")
    monkeypatch.setattr(reader, "read", interrupted)
    assert when_still(watch) is None
    change = watch.look(1.0) or watch.look(1.0 + STILL_S)
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.observe


def test_an_order_to_read_waits_for_nothing(watch, file):
    file.write_text("strict: true\n")
    found = watch.read().settings
    assert found is not None
    assert found.tuning.strict
    assert watch.look(0.0) is None


def test_another_file_of_equal_length_and_time_counts(watch, file, tmp_path):
    before = file.stat()
    other = tmp_path / "other"
    other.write_text("strict: true \n"[: before.st_size])
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert watch.look(0.0) is not None


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
    change = watch.look(0.0)
    assert change is not None
    assert change.settings is not None
    assert change.settings.tuning.strict


@pytest.mark.parametrize("text", ["mode: maybe\n", "[", "\0"], ids=["value", "half", "binary"])
def test_an_invalid_text_is_a_problem_and_said_once(text, watch, file):
    file.write_text(text)
    change = when_still(watch)
    assert change is not None
    assert change.settings is None
    assert str(file) in change.problem
    assert watch.look(1.0) is None


def test_a_removed_file_is_a_problem_until_it_returns(watch, file, tmp_path):
    file.rename(tmp_path / "away")
    gone = watch.look(0.0)
    assert gone is not None
    assert "cannot be read" in gone.problem
    (tmp_path / "away").rename(file)
    back = watch.look(0.0)
    assert back is not None
    assert back.settings is not None


def test_flags_are_laid_over_whatever_is_read(file):
    watch = SettingsWatch(str(file), lambda settings: settings.__class__(http="off"))
    file.write_text("telemetry: {http: '127.0.0.1:1'}\n")
    change = when_still(watch)
    assert change is not None
    assert change.settings is not None
    assert change.settings.http == "off"


def test_several_problems_share_one_line(watch, file):
    file.write_text("mode: fast\nstrict: 7\n")
    change = when_still(watch)
    assert change is not None
    first, second = "mode: 'fast' does not fit; allowed: enforce or observe", "strict: 7 does not fit"
    assert change.problem.startswith(f"2 problems: (1) {file}:1: {first}; (2) {file}:2: {second}")
    assert "\n" not in change.problem


def test_a_pipe_is_refused_without_waiting(tmp_path):
    pipe = tmp_path / "config.yaml"
    os.mkfifo(pipe)
    with pytest.raises(SettingsError, match=r"config.yaml: cannot be read: it is a pipe"):
        reader.read(pipe)
