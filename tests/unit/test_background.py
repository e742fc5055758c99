"""The test suite passes as a background job of a shell too."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
INTERRUPTED = """
import signal
import subprocess

def test_it():
    sleeper = subprocess.Popen(["sleep", "60"])
    sleeper.send_signal(signal.SIGINT)
    assert sleeper.wait(30) == -signal.SIGINT
"""


def test_programs_under_test_can_be_interrupted(tmp_path: Path):
    file = tmp_path / "test_it.py"
    file.write_text(INTERRUPTED)
    settings = ["-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(PROJECT), "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *settings, "-p", "no:cacheprovider", str(file)]
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(background, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
