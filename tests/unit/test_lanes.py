"""This process reports the tests of lanes as its own: outcomes, reasons, and a pytest that died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.lane import FIRST_PORT, LANE, PORTS, RECORDS, free_port
from tests.rig.lanes import LANES, largest_first

pytestmark = pytest.mark.tier("test")  # most tests start three pytests

PROJECT = Path(__file__).parents[2]
FIRST_OUTGOING = 32_768
"""The kernel's default of ip_local_port_range."""

CONFTEST = """
from tests.rig import lanes
from tests.rig.order import place

def pytest_collection_modifyitems(items):
    items.sort(key=place)

def pytest_collection_finish(session):
    if lanes.wanted(session.config, session.items):
        session.config.pluginmanager.register(lanes.Lanes(session.config, session.items), "lanes")
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

OF_A_TIER = """
def pytest_addoption(parser):
    parser.addoption("--tier")

def pytest_generate_tests(metafunc):
    metafunc.parametrize("version", [metafunc.config.getoption("--tier") or "any"])
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


BESIDE = """
def test_beside(request):
    assert bool(request.config.pluginmanager.get_plugin("lanes")._begun) is {begun}
"""

EMULATED = """
import pytest

@pytest.mark.vm
def test_ok():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    vm\n    bears_load\n")
    return tmp_path


@pytest.fixture
def run(project: Path):
    def played(*arguments: str, folder: str = "integration", **files: str) -> str:
        write(project, folder, **files)
        command = [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", "-rA"]
        # without the plugins of the environment, such as that of hypothesis, a pytest starts in half the time
        bare = {"PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment = {"PATH": os.environ["PATH"], **bare}
        whole = [*command, *arguments]
        done = subprocess.run(
            whole, check=False, cwd=project, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.stderr == ""
        return done.stdout

    return played


def write(project: Path, folder: str, **files: str) -> None:
    """Write test files, by name, into a folder of tests."""
    where = project / "tests" / folder
    where.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (where / f"test_{name}.py").write_text(text.replace("{records}", RECORDS))


def test_outcomes_and_reasons_are_reported(run):
    said = run(first=MIXED, second=MIXED)
    assert "2 failed, 6 passed, 2 skipped, 2 errors" in said
    for file in ("first", "second"):
        assert f"FAILED tests/integration/test_{file}.py::test_bad - " in said
        assert f"ERROR tests/integration/test_{file}.py::test_torn - ValueError: torn down badly" in said
    assert "assert 'sought' == 'found'" in said
    assert "for a reason" in said


def test_a_pytest_that_dies_fails_its_remaining_tests(run):
    said = run(first=DYING, second=MIXED.replace("test_bad", "test_good").replace("found", "sought"))
    assert "2 failed, 5 passed, 1 skipped, 1 error" in said
    reason = (
        "the pytest of tests/integration/test_first.py ended with 3, which no report of its tests explains"
    )
    assert said.count(reason) == 2


def test_a_failure_at_its_end_fails_the_last_test(run):
    said = run(first=LEAVING, second="def test_ok(): pass")
    assert "1 failed, 3 passed" in said
    assert "the pytest of tests/integration/test_first.py ended with 9" in said


def test_a_single_file_runs_here(run):
    said = run(first=MIXED.replace("in os.environ", "not in os.environ"))
    assert "1 failed, 3 passed, 1 skipped, 1 error" in said


def test_a_folder_of_pure_tests_is_one_batch(run, project: Path):
    write(project, "scenario", other=MIXED)
    said = run(folder="property", first=LEAVING, second="def test_ok(): pass")
    assert "the pytest of tests/property ended with 9" in said


def test_a_lane_plays_tests_that_bear_load(run, project: Path):
    write(project, "containerd", alone="def test_ok(): pass")
    said = run(folder="containerd", loaded="import pytest\npytestmark = pytest.mark.bears_load\n" + MIXED)
    assert "1 failed, 4 passed, 1 skipped, 1 error" in said


def test_a_lane_has_the_tier_of_its_parent(run, project: Path):
    (project / "conftest.py").write_text(CONFTEST + OF_A_TIER)
    said = run("--tier=all", first="def test_ok(version): pass", second="def test_ok(version): pass")
    assert "2 passed" in said


def test_the_largest_batch_begins_first():
    assert largest_first({"small": [1], "large": [1, 2, 3], "middle": [1, 2]}) == ["large", "middle", "small"]


@pytest.mark.parametrize("begun", [True, False], ids=["without machines", "with machines"])
def test_lanes_begin_beside_patient_tests(run, project: Path, *, begun: bool):
    write(project, "unit", beside=BESIDE.replace("{begun}", str(begun)))
    if not begun:
        write(project, "vm", machine=EMULATED)
    said = run(first=MIXED, second=MIXED)
    assert f"{7 + (not begun)} passed" in said


def test_lanes_begin_beside_a_cluster(run, project: Path):
    write(project, "vm", machine=EMULATED)
    write(project, "cluster", node=BESIDE.replace("{begun}", "True"))
    assert "4 passed" in run(folder="conformance", first="def test_ok(): pass", second="def test_ok(): pass")


def test_a_folder_shared_with_a_lane_is_left(run, project: Path):
    write(project, "vm", machine=EMULATED)
    write(project, "cluster", node="def test_ok(): pass")
    said = run(folder="cluster/api", first="def test_ok(): pass", second="def test_ok(): pass")
    assert "4 passed in" in said


def test_only_chosen_tests_run(run):
    said = run("-k", "test_ok", first=MIXED, second=DYING)
    assert "2 passed" in said


def test_lanes_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch):
    for lane in range(LANES + 1):
        monkeypatch.setenv(LANE, str(lane))
        first, second = free_port(), free_port()
        assert first != second
        assert {first, second} <= set(range(FIRST_PORT + lane * PORTS, FIRST_PORT + (lane + 1) * PORTS))
        assert max(first, second) < FIRST_OUTGOING
