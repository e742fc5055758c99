"""The ledger of a long run lists the slowest files and folders, its time and its CPU time."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.rig.spent import LONGEST_FILES, Spent, lines


class Terminal:
    """Fake terminal that keeps its lines."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write_line(self, line: str) -> None:
        self.written.append(line)


@pytest.fixture
def terminal() -> Any:
    return Terminal()


def report(nodeid: str, seconds: float) -> Any:
    return cast("Any", SimpleNamespace(nodeid=nodeid, duration=seconds))


def test_all_phases_count_for_their_file():
    spent = Spent()
    for name, seconds in (("::test_a", 1), ("::test_a", 2), ("::TestB::test_c[x]", 4)):
        spent.pytest_runtest_logreport(report(f"tests/unit/test_it.py{name}", seconds))
    assert spent.seconds == {"tests/unit/test_it.py": 7}


def test_folders_and_files_come_longest_first():
    spent = {"tests/unit/a/test_b.py": 20.0, "tests/vm/test_c.py": 50.0, "tests/unit/test_d.py": 25.0}
    assert list(lines(spent)) == [
        "95 s of tests: tests/vm 50, tests/unit 45",
        "   50.0 s  tests/vm/test_c.py",
        "   25.0 s  tests/unit/test_d.py",
        "   20.0 s  tests/unit/a/test_b.py",
    ]


def test_only_the_longest_files_are_listed():
    assert len(list(lines({f"tests/unit/test_{n}.py": 10.0 for n in range(40)}))) == 1 + LONGEST_FILES


@pytest.mark.parametrize(("seconds", "is_written"), [(59.0, False), (61.0, True)])
def test_a_short_run_has_no_ledger(terminal: Any, seconds: float, *, is_written: bool):
    spent = Spent()
    spent.pytest_runtest_logreport(report("tests/unit/test_it.py::test_a", seconds))
    spent.pytest_terminal_summary(terminal)
    assert any(line.startswith("61 s of tests") for line in terminal.written) == is_written


def test_the_ledger_begins_with_clock_and_cpu(terminal: Any):
    spent = Spent()
    spent.pytest_runtest_logreport(report("tests/unit/test_it.py::test_a", 61.0))
    spent.pytest_terminal_summary(terminal)
    assert "s by the clock" in terminal.written[0]
    assert "s of CPU time" in terminal.written[0]
