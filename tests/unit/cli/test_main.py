"""The command line: exit codes, and a sentence for every mistake."""

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
    """Have the command `topology` do something else."""

    def do(command):
        monkeypatch.setattr(commands, "_topology", command)
        return main.main(["topology"], {})

    return do


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SettingsError("mend this"), 2, "nri-coloc: mend this\n"),
        (KernelInterfaceError("/x", "read", "gone"), 1, "nri-coloc: cannot read /x: gone\n"),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit(0), 0, ""),
        (SystemExit(3), 2, ""),
    ],
    ids=["operator", "kernel", "interrupt", "exit", "usage"],
)
def test_how_it_ends_tells_whose_fault_it_was(error, code, said, topology, capsys):
    assert topology(fails_with(error)) == code
    assert capsys.readouterr().err == said


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


@pytest.mark.parametrize("module", ["nri_coloc.model.tuning", "nri_coloc.config.settings", "pydantic"])
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
