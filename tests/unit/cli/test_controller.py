"""The command `controller`: its configuration is read again, and a mistake ends it with a sentence."""

import pytest

from nri_coloc.cli import controller
from nri_coloc.cli.controller import Configuration
from nri_coloc.cli.exit_codes import WRONG_USAGE
from nri_coloc.cli.main import main
from nri_coloc.kubernetes.presets import PRESETS
from nri_coloc.service import logs
from tests.unit.kubernetes.test_serving import Lines


def test_without_a_file_nothing_is_evicted():
    assert Configuration("").rules().may_evict is False


def test_the_file_switches_evictions_on(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("kubernetes: {evict: true, resources: katalyst}")
    found = Configuration(str(path))
    assert (found.rules().may_evict, found.preset()) == (True, PRESETS["katalyst"])


def test_a_changed_file_is_read_again(tmp_path):
    now = [0.0]
    path = tmp_path / "config.yaml"
    path.write_text("kubernetes: {evict: true}")
    found = Configuration(str(path), lambda: now[0])
    path.write_text("kubernetes: {evict: false}")
    assert found.rules().may_evict is True
    now[0] += controller.LOOK_S
    assert found.rules().may_evict is False


@pytest.mark.parametrize("text", ["kubernetes: {evict: often}", "{", None], ids=["value", "YAML", "no file"])
def test_a_mistake_changes_nothing(tmp_path, text):
    now = [0.0]
    path = tmp_path / "config.yaml"
    path.write_text("kubernetes: {evict: true}")
    found = Configuration(str(path), lambda: now[0])
    path.unlink() if text is None else path.write_text(text)
    now[0] += controller.LOOK_S
    assert found.rules().may_evict is True


@pytest.mark.parametrize("text", ["{", None], ids=["YAML", "no file"])
def test_a_mistake_is_logged_once(tmp_path, monkeypatch, text):
    now, lines = [0.0], Lines()
    monkeypatch.setattr(logs, "logger", lambda _: lines)
    path = tmp_path / "config.yaml"
    path.write_text("kubernetes: {evict: true}")
    found = Configuration(str(path), lambda: now[0])
    path.unlink() if text is None else path.write_text(text)
    for _ in range(3):
        now[0] += controller.LOOK_S
        found.rules()
    assert [event for event, _ in lines.lines] == ["configuration not used; the former one holds"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "/no/file"], "/no/file: cannot be read"),
        (["--kubeconfig", "/no/file"], "no credentials for the API server"),
    ],
    ids=["config", "kubeconfig"],
)
def test_a_mistake_at_the_start_is_a_sentence(capsys, arguments, said):
    assert main(["controller", *arguments], {}) == WRONG_USAGE
    assert said in capsys.readouterr().err
