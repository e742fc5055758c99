"""check-config prints the settings of a valid file, or the problems of an invalid one."""

import os
from threading import Thread

import pytest
import yaml

from nri_coloc.service.configuration import check, loading


def test_a_valid_file_is_shown_with_all_defaults(tmp_path):
    (tmp_path / "c.yaml").write_text("mode: observe")
    code, text, _ = check.report(tmp_path / "c.yaml")
    shown = yaml.safe_load(text)
    assert (code, shown["mode"], shown["classes"]["reclaimed"]["ioWeight"]) == (0, "observe", 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "telemetry: {http: off}\nnode: {reservedCPUs: 0-1}\nruntime: {pluginIndex: 07}",
        "classes: {rules: [{namespace: 'b-*', label: 'größe=1', class: system}], shared: {memoryHigh: 5000000}}",
    ],
    ids=["empty", "words that yaml reads as numbers", "rules"],
)
def test_what_is_shown_means_the_same(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    _, shown, settings = check.report(path)
    assert loading.load(shown, "shown") == loading.load(text, "given") == settings


def test_an_invalid_file_is_answered_with_its_problems(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("mode: fast")
    expected = f"{path}:1: mode: 'fast' does not fit; allowed: enforce or observe\n"
    assert check.report(str(path)) == (2, expected, None)


def test_a_missing_file_is_an_invalid_one(tmp_path):
    assert check.report(tmp_path / "no")[0] == 2


def test_a_file_that_is_read_once_may_be_a_pipe(tmp_path):
    pipe = tmp_path / "c.yaml"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("mode: fast",))
    writer.start()
    assert check.report(pipe)[1].startswith(f"{pipe}:1: mode: 'fast' does not fit")
    writer.join()
