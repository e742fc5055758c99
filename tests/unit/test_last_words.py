"""Words of the rig's programs below a failure: of each that has written since the test began."""

import os
from pathlib import Path

import pytest

from tests.rig import last_words


class Program:
    """A program with one log."""

    title = "a program's log"

    def __init__(self, log: Path) -> None:
        self.logs = (log,)

    def last_words(self) -> str:
        return self.logs[0].read_text()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("why")
    return path


def told(at_s: float) -> list[str]:
    return [words for title, words in last_words.since(at_s) if title == Program.title]


def test_program_that_wrote_since_then_is_shown(log: Path):
    program = Program(log)
    last_words.know(program)
    assert told(log.stat().st_mtime) == ["why"]


def test_program_that_wrote_before_is_silent(log: Path):
    program = Program(log)
    last_words.know(program)
    os.utime(log, (100.0, 100.0))
    assert told(101.0) == []


def test_program_without_a_log_is_silent(tmp_path: Path):
    program = Program(tmp_path / "none")
    last_words.know(program)
    assert told(0.0) == []
