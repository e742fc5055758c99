"""A container may nest cgroups deeper than the interpreter may recurse; each walk below a cgroup goes to the end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import cpusets, files, oom_scores, scheduler
from nri_coloc.host.marks import Marks

LIMIT = 500
LEVELS = LIMIT + 100
"""With the interpreter's usual limit of 1,000 the test's own cgroups take most of its time."""


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(LIMIT)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Yield cgroups below each other, the outermost first; pytest's own removal of a folder is recursive.

    Each test changes files of its own.
    """
    folders = [tmp_path_factory.mktemp("deep") / "pod"]
    folders += [Path(f"{folders[0]}{'/a' * level}") for level in range(1, LEVELS)]
    for folder in folders:
        folder.mkdir()
        for name, text in {
            "cpuset.cpus": "0-7",
            "cpuset.mems": "0-1",
            "tasks": "",
            "cgroup.procs": "",
        }.items():
            Path(folder, name).write_text(text)
    yield folders
    for folder in reversed(folders):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_a_move_reaches_the_innermost_cgroup(nested: list[Path]):
    assert cpusets.move(str(nested[0]), 1, cpuset.parse("2-7")) == cpuset.parse("2-7")
    assert {Path(folder, "cpuset.cpus").read_text().strip() for folder in nested} == {"2-7"}


def test_memory_nodes_are_bound_to_the_innermost_cgroup(nested: list[Path]):
    assert cpusets.bind(str(nested[0]), 1, "1")
    assert {Path(folder, "cpuset.mems").read_text().strip() for folder in nested} == {"1"}


def test_the_processes_of_every_level_are_found(nested: list[Path]):
    Path(nested[-1], "cgroup.procs").write_text("4242")
    Path(nested[-1], "tasks").write_text("4242")
    assert list(scheduler._members(str(nested[0]), 1)) == [4242]
    assert list(oom_scores._members(str(nested[0]))) == [4242]


def test_marks_are_read_past_any_depth(nested: list[Path]):
    assert Marks((str(nested[0].parent),)).read() == {}
    assert len([*files.tree(str(nested[0]))]) == LEVELS
