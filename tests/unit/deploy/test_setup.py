"""`make setup` installs the project's own package without a warning."""

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]

BUILD = "from setuptools import build_meta; build_meta.build_editable('.')"


def test_the_editable_install_warns_of_nothing(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tmp_path)
    generated = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "nri_coloc", tmp_path / "nri_coloc", ignore=generated)
    # build_editable writes its wheel where it is; without the environment no path of ours leads it elsewhere
    command = [sys.executable, "-W", "error", "-c", BUILD]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1
