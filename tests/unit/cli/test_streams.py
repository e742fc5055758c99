"""If stdout or stderr refuses a write, each command ends with a sentence and an exit code, never a traceback."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from nri_coloc.cli import commands, main
from nri_coloc.sim import machines
from tests.unit.cli.test_top import Daemon

COMMANDS = {
    "help": ["--help"],
    "check-config": ["check-config", "{folder}/good.yaml"],
    "topology": ["topology", "--host-root", "{folder}"],
    "topology as JSON": ["topology", "--host-root", "{folder}", "-o", "json"],
    "restore": ["restore", "--host-root", "{folder}", "--state-dir", "{folder}", "--files-only"],
    "doctor": ["doctor", "--host-root", "{folder}", "--http", "{daemon}"],
    "audit": ["audit", "--http", "{daemon}"],
    "explain": ["explain", "shop/web", "--http", "{daemon}"],
    "top": ["top", "--http", "{daemon}"],
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the paths and the address that the commands need: a machine, a configuration, a daemon."""
    folder = tmp_path_factory.mktemp("machine")
    machines.plant(machines.MACHINES["2cpu"], folder)
    (folder / "good.yaml").write_text("strict: true\n")
    daemon = Daemon()
    yield {"folder": str(folder), "daemon": daemon.address}
    daemon.silence()


@pytest.fixture(params=list(COMMANDS))
def command(request: pytest.FixtureRequest, places: dict[str, str]) -> list[str]:
    return [part.format(**places) for part in COMMANDS[request.param]]


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, TextIO], None]]:
    """Yield a function that replaces stdin, stdout or stderr by another stream."""
    streams: list[TextIO] = []

    def put(name: str, stream: TextIO) -> None:
        streams.append(stream)
        monkeypatch.setattr(sys, name, stream)

    yield put
    for stream in streams:
        stream.close()  # the interpreter closes it too, and would print an error here


def abandoned_pipe() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def full_disk() -> TextIO:
    return Path("/dev/full").open("w")


def test_a_full_disk_behind_stdout_is_said(command, instead, capsys):
    instead("stdout", full_disk())
    assert main.main(command, {}) == 1
    assert capsys.readouterr().err == "nri-coloc: cannot write to stdout: No space left on device\n"


def test_a_reader_who_has_left_is_no_matter_for_words(command, instead, capsys):
    instead("stdout", abandoned_pipe())
    assert main.main(command, {}) == 1
    assert capsys.readouterr().err == ""


def test_a_letter_that_the_encoding_lacks_is_the_encodings_blame(monkeypatch, instead, capsys):
    instead("stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    monkeypatch.setattr(commands, "_topology", lambda *_: sys.stdout.write("Größe"))
    assert main.main(["topology"], {}) == 1
    said = capsys.readouterr().err
    assert "its encoding, ascii, has no '\\xf6'" in said
    assert "PYTHONIOENCODING=utf-8" in said


@pytest.mark.parametrize("stream", [full_disk, abandoned_pipe], ids=["full", "abandoned"])
def test_a_complaint_that_cannot_be_written_leaves_the_exit_code(stream, instead):
    instead("stderr", stream())
    assert main.main(["check-config", "/nowhere"], {}) == 2


def test_a_complaint_is_tried_again_when_the_disk_has_room(monkeypatch):
    class Disk(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    disk = Disk()
    monkeypatch.setattr(sys, "stderr", disk)

    def command(*_: object) -> int:
        sys.stderr.write("lost\n")
        disk.full = False
        sys.stderr.write("said\n")
        return 0

    monkeypatch.setattr(commands, "_topology", command)
    assert main.main(["topology"], {}) == 0
    assert disk.getvalue().endswith("said\n")


# ---- as a process: the interpreter prints errors of its own at the end ----

PROGRAM = "from nri_coloc.cli.main import entry; entry()"


def shell(redirected: str, program: str = PROGRAM, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-c", program, *arguments]
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, capture_output=True, text=True, env=buffered, check=False)


def test_the_interpreter_adds_nothing_about_a_full_disk():
    done = shell(">/dev/full", PROGRAM, "--help")
    assert (done.returncode, done.stderr) == (
        1,
        "nri-coloc: cannot write to stdout: No space left on device\n",
    )


def test_the_interpreter_does_not_take_a_full_stderr_for_our_failure():
    assert shell("2>/dev/full", PROGRAM, "check-config", "/nowhere").returncode == 2


def test_a_closed_stdout_is_nobodys_file():
    program = f"""
import os, sys
from nri_coloc.cli import commands
commands._topology = lambda *_: print(os.readlink("/proc/self/fd/1"), file=sys.stderr) or 0
sys.argv[1:] = ["topology"]
{PROGRAM}
"""
    done = shell(">&-", program)
    assert (done.returncode, done.stderr) == (0, "/dev/null\n")


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"], ids=["stdin", "stderr", "all"])
def test_a_closed_stream_is_no_mistake(closed):
    assert shell(closed, PROGRAM, "--help").returncode == 0
