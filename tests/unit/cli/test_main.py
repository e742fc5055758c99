"""The command line has an exit code for each outcome, and a sentence for each mistake."""

import os
import subprocess
import sys

import pytest

from nri_coloc.cli import commands, main
from nri_coloc.errors import KernelInterfaceError, SettingsError


def fails_with(error: BaseException):
    def command(*_: object) -> int:
        raise error

    return command


@pytest.fixture
def topology(monkeypatch):
    """Return a function that replaces the command `topology`."""

    def do(command):
        monkeypatch.setattr(commands, "_topology", command)
        return main.main(["topology"], {})

    return do


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SettingsError("mend this"), 2, "nri-coloc: mend this\n"),
        (KernelInterfaceError("/x", "read", "gone"), 1, "nri-coloc: cannot read /x: gone\n"),
        (IsADirectoryError(21, "Is a directory", "/x"), 1, "nri-coloc: /x: Is a directory\n"),
        (IsADirectoryError(21, "Is a directory", b"/x"), 1, "nri-coloc: /x: Is a directory\n"),
        (OSError(28, "No space left on device"), 1, "nri-coloc: No space left on device\n"),
        (PermissionError(13, "No", "/x"), 1, "nri-coloc: /x: No; run it as root, or as a user with access\n"),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit(0), 0, ""),
        (SystemExit(3), 2, ""),
    ],
    ids=[
        "operator",
        "kernel",
        "folder",
        "folder in bytes",
        "disk",
        "permission",
        "interrupt",
        "exit",
        "usage",
    ],
)
def test_how_it_ends_tells_whose_fault_it_was(error, code, said, topology, capsys):
    assert topology(fails_with(error)) == code
    assert capsys.readouterr().err == said


def test_a_mistake_of_ours_is_not_dressed_up(topology):
    with pytest.raises(KeyError):
        topology(fails_with(KeyError("ours")))


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "\udcff/x"],
        ["audit", "--pod", "\udcff/x"],
        ["admin", "pause", "5", "--reason", "\udcff"],
        ["admin", "resume", "--admin-socket", "/\udcff"],
        ["run", "--config", "/nowhere", "--admin-socket", "/\udcff"],
        ["run", "--config", "/nowhere", "--cri-socket", "/\udcff"],
        ["restore", "--cri-socket", "/\udcff"],
        ["doctor", "--cri-socket", "/\udcff"],
    ],
    ids=lambda arguments: " ".join(arguments[:-1]),
)
def test_an_argument_that_is_no_text_is_the_arguments_blame(arguments, capsys):
    assert main.main(arguments, {}) == 2
    assert "\\xff" in capsys.readouterr().err.splitlines()[-1]


def test_a_file_may_be_called_by_any_bytes(tmp_path, capsys):
    (tmp_path / "\udcff.yaml").write_text("strict: true\n")
    assert main.main(["check-config", str(tmp_path / "\udcff.yaml")], {}) == 0
    assert "strict: true" in capsys.readouterr().out


def test_help_is_no_mistake(capsys):
    assert main.main(["--help"], {}) == 0
    assert "run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["walk"], ["run", "--fast"], ["audit", "--limit", "0"], ["audit", "--limit", "\u0663"]]
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert main.main(arguments, {}) == 2
    assert "usage: nri-coloc" in capsys.readouterr().err


def test_launched_without_arguments_it_runs(monkeypatch):
    seen = []

    def run(_options: object, environment: dict[str, str]) -> int:
        seen.append(environment)
        return 0

    monkeypatch.setattr(commands, "_run", run)
    environment = {"NRI_PLUGIN_SOCKET": "3"}
    assert main.main([], environment) == 0
    assert seen == [environment]


def test_launched_another_command_is_still_that_command(capsys):
    assert main.main(["check-config", "/nowhere"], {"NRI_PLUGIN_SOCKET": "3"}) == 2
    assert "/nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["topology", "-o", "json"], ["--help"]], ids=["topology", "help"])
def test_a_reader_who_has_seen_enough_is_no_error(command):
    program = "import sys; from nri_coloc.cli.main import entry; entry()"
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-c", program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=buffered,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) in (0, 1)


def test_check_config_shows_what_a_file_means(tmp_path, capsys):
    (tmp_path / "good.yaml").write_text("strict: true\n")
    assert main.main(["check-config", str(tmp_path / "good.yaml")], {}) == 0
    assert "strict" in capsys.readouterr().out
    (tmp_path / "bad.yaml").write_text("strict: perhaps\n")
    assert main.main(["check-config", str(tmp_path / "bad.yaml")], {}) == 2
    assert "bad.yaml:1: strict" in capsys.readouterr().err


def test_check_config_names_a_high_disk_line(tmp_path, capsys):
    (tmp_path / "good.yaml").write_text("pressure: {disk: 4}\n")
    assert main.main(["check-config", str(tmp_path / "good.yaml")], {}) == 0
    assert "good.yaml: pressure.disk is 4: a node that was closed may stay closed" in capsys.readouterr().err


def test_check_config_names_odd_windows(tmp_path, capsys):
    (tmp_path / "good.yaml").write_text("schedule: {windows: [{days: mon-fri, lend: 100}]}\n")
    assert main.main(["check-config", str(tmp_path / "good.yaml")], {}) == 0
    told = capsys.readouterr()
    assert "good.yaml: schedule.windows[0] changes nothing" in told.err
    assert "changes nothing" not in told.out


@pytest.mark.parametrize(("command", "told"), [("explain", "such as shop/web"), ("top", "127.0.0.1:9744")])
def test_help_names_an_example_or_a_default(command, told, capsys):
    assert main.main([command, "--help"], {}) == 0
    assert told in capsys.readouterr().out


def test_the_module_is_the_program():
    done = subprocess.run(
        [sys.executable, "-m", "nri_coloc", "--help"],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: nri-coloc")


@pytest.mark.parametrize(
    "module", ["nri_coloc.core.settings", "nri_coloc.service.configuration.loading", "pydantic"]
)
def test_ctrl_c_while_it_is_loaded_ends_it_quietly(module, tmp_path):
    program = f"""
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without
sys.meta_path.insert(0, Finder())
from nri_coloc.cli.main import entry
entry()
"""
    command = [sys.executable, "-c", program, "check-config", str(tmp_path / "none.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_missing_permission_is_no_wrong_usage(topology):
    def command(*_args, **_words):
        raise SettingsError("/x: cannot be read") from PermissionError(13, "No")

    assert topology(command) == 1
