"""Files that are run side by side are told as if they had been run here: what passed, what failed where, what died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.lane import FIRST_PORT, LANE, PORTS, RECORDS, free_port

PROJECT = Path(__file__).parents[2]

CONFTEST = """
from tests.rig import lanes

def pytest_collection_finish(session):
    if lanes.wanted(session.config, session.items):
        session.config.pluginmanager.register(lanes.Lanes(session.config, session.items))
"""

MIXED = """
import os
import pytest

def test_ok():
    print(os.environ.get("NRI_COLOC_TEST_LANE", "here"))

def test_bad():
    assert "sought" == "found"

@pytest.fixture
def torn():
    yield
    raise ValueError("torn down badly")

def test_torn(torn):
    pass

def test_skipped():
    pytest.skip("for a reason")

def test_where():
    assert "{records}" in os.environ
"""

DYING = """
import os

def test_ok():
    pass

def test_dies():
    os._exit(3)

def test_after():
    pass
"""

LEAVING = """
import atexit
import os

def test_ok():
    atexit.register(os._exit, 9)

def test_last():
    pass
"""


@pytest.fixture
def run(tmp_path: Path):
    folder = tmp_path / "tests/integration"
    folder.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(CONFTEST)

    def played(*arguments: str, **files: str) -> str:
        for name, text in files.items():
            (folder / f"test_{name}.py").write_text(text.replace("{records}", RECORDS))
        command = [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", "-rA"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)}
        whole = [*command, *arguments]
        done = subprocess.run(
            whole, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.stderr == ""
        return done.stdout

    return played


def test_each_files_tests_are_told_with_their_outcomes_and_reasons(run):
    said = run(first=MIXED, second=MIXED)
    assert "2 failed, 6 passed, 2 skipped, 2 errors" in said
    for file in ("first", "second"):
        assert f"FAILED tests/integration/test_{file}.py::test_bad - " in said
        assert f"ERROR tests/integration/test_{file}.py::test_torn - ValueError: torn down badly" in said
    assert "assert 'sought' == 'found'" in said
    assert "for a reason" in said


def test_what_a_pytest_that_dies_did_not_get_to_has_failed_and_the_others_go_on(run):
    said = run(first=DYING, second=MIXED.replace("test_bad", "test_good").replace("found", "sought"))
    assert "2 failed, 5 passed, 1 skipped, 1 error" in said
    assert said.count("the pytest of test_first.py ended with 3, which no report of its tests explains") == 2


def test_a_pytest_that_fails_after_all_its_tests_has_failed_in_its_last(run):
    said = run(first=LEAVING, second="def test_ok(): pass")
    assert "1 failed, 3 passed" in said
    assert "the pytest of test_first.py ended with 9" in said


def test_a_single_file_is_run_here(run):
    said = run(first=MIXED.replace("in os.environ", "not in os.environ"))
    assert "1 failed, 3 passed, 1 skipped, 1 error" in said


def test_a_chosen_test_is_run_alone_in_its_file(run):
    said = run("-k", "test_ok", first=MIXED, second=DYING)
    assert "2 passed" in said


def test_lanes_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch):
    for lane in range(4):
        monkeypatch.setenv(LANE, str(lane))
        first, second = free_port(), free_port()
        assert first != second
        assert {first, second} <= set(range(FIRST_PORT + lane * PORTS, FIRST_PORT + (lane + 1) * PORTS))
