"""Tests that a machine cannot run are named in the summary; where every test must run, they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
REASON = "no compiler can be had here"


LACKING = {
    "a test": f"import pytest\ndef test_it():\n    pytest.skip({REASON!r})\n",
    "a file": f"import pytest\npytest.skip({REASON!r}, allow_module_level=True)\n",
}


@pytest.fixture(params=LACKING.values(), ids=list(LACKING))
def lacking(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a test file that this machine cannot run."""
    file = tmp_path / "test_it.py"
    file.write_text(request.param)
    return file


def played(file: Path, ci: str) -> subprocess.CompletedProcess[str]:
    """Run the file with the project's settings and options; return the ended pytest."""
    settings = ["-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(PROJECT), "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *settings, "-p", "no:cacheprovider", str(file)]
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        command, env=env, cwd=file.parent, capture_output=True, text=True, timeout=120, check=False
    )


def test_on_a_plain_machine_it_is_named_and_nothing_fails(lacking: Path):
    done = played(lacking, "")
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert any(line.startswith("SKIPPED [1]") and REASON in line for line in done.stdout.splitlines())


def test_where_everything_must_run_it_fails_and_says_why(lacking: Path):
    done = played(lacking, "true")
    assert done.returncode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "left out under CI=true, where everything must run" in done.stdout
    assert REASON in done.stdout
