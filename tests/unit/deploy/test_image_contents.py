"""The image has every module but the simulated node, and says so where a command needs it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
LEFT_OUT = re.findall(r"\brm -r (\S+)", (PROJECT / "deploy" / "Dockerfile").read_text())

EVERY_MODULE = """
import importlib, pathlib
names = [str(p.with_suffix("")).replace("/", ".") for p in pathlib.Path("nri_coloc").rglob("*.py")]
for name in names:
    if not name.startswith("nri_coloc.cli.demo") and not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package as the image has it."""
    folder = tmp_path_factory.mktemp("image")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "nri_coloc", folder / "nri_coloc", ignore=ignored)
    for path in LEFT_OUT:
        shutil.rmtree(folder / path)
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where only this folder has the package."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


def test_dockerfile_removes_the_simulated_node():
    assert LEFT_OUT == ["nri_coloc/sim"]


def test_demo_says_that_it_is_missing(image: Path):
    done = python(image, "-m", "nri_coloc", "demo")
    wanted = "nri-coloc: the demo is not part of this image: run `make run` in the project's folder\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", wanted)


def test_no_other_module_needs_it(image: Path):
    done = python(image, "-c", EVERY_MODULE)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 100
