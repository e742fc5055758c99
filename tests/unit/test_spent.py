"""What the end of a long run says of its minutes."""

from types import SimpleNamespace
from typing import Any, cast

from tests.rig.spent import TOLD, Spent, lines


def report(nodeid: str, seconds: float) -> Any:
    return cast("Any", SimpleNamespace(nodeid=nodeid, duration=seconds))


def test_all_phases_of_all_tests_of_a_file_are_its_own():
    spent = Spent()
    for name, seconds in (("::test_a", 1), ("::test_a", 2), ("::TestB::test_c[x]", 4)):
        spent.pytest_runtest_logreport(report(f"tests/unit/test_it.py{name}", seconds))
    assert spent.seconds == {"tests/unit/test_it.py": 7}


def test_folders_and_files_are_told_the_longest_first():
    spent = {"tests/unit/a/test_b.py": 20.0, "tests/vm/test_c.py": 50.0, "tests/unit/test_d.py": 25.0}
    assert list(lines(spent)) == [
        "95 s of tests: tests/vm 50, tests/unit 45",
        "   50.0 s  tests/vm/test_c.py",
        "   25.0 s  tests/unit/test_d.py",
        "   20.0 s  tests/unit/a/test_b.py",
    ]


def test_only_the_longest_files_are_told():
    assert len(list(lines({f"tests/unit/test_{n}.py": 10.0 for n in range(40)}))) == 1 + TOLD


def test_of_a_short_run_nothing_is_told():
    assert list(lines({"tests/unit/test_it.py": 59.0})) == []
