"""Any text in /sys, and any cgroup path of the runtime, is understood, or refused with the file's name.

A seed of `topology` is one file's text. It replaces the files in the tree of a small machine, one after the other. A
seed of `cgroup_paths` is a path of the runtime's.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, sysfs
from nri_coloc.sim import machines
from tests.fuzz import corpus

EVERY_SO_MANY: Final = 7
"""Of the tree's files each input takes so many's first, another first each time: all are visited in the end."""


class Machine:
    """Plant a tree and replace the text of one file at a time."""

    def __init__(self, root: Path) -> None:
        machines.plant(machines.MACHINES["8cpu"], root)
        self._root = root
        self._files = sorted(path for path in root.rglob("*") if path.is_file())
        self._at = 0

    def check(self, data: bytes) -> None:
        """Write the text into some files, one after the other; an error may name that file only."""
        self._at = (self._at + 1) % EVERY_SO_MANY
        for path in self._files[self._at :: EVERY_SO_MANY * 8]:
            kept = path.read_bytes()
            path.write_bytes(data)
            try:
                assert self._blamed() in (None, str(path))
            finally:
                path.write_bytes(kept)

    def _blamed(self) -> str | None:
        """Return the path that an error names when the tree is read."""
        try:
            found = sysfs.read(str(self._root))
        except KernelInterfaceError as error:
            return error.path
        assert found.online == sum(found.cores) == sum(node.cpus for node in found.nodes)
        return None


def paths(data: bytes) -> None:
    text = os.fsdecode(data)
    found: list[str] = []
    for turn in (cgroup_layout.container_path, cgroup_layout.pod_path, cgroup_layout.below_root):
        found += _or_none(lambda turn=turn: [turn(text)])
    for path in found:
        steps = path.split("/")
        assert not path.startswith("/")
        assert "\0" not in path
        assert not {"..", "."} & set(steps)


def _or_none(parse):
    try:
        return list(parse())
    except ValueError:
        return []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@corpus.replayed("topology")
def test_a_kept_text_of_sys_is_understood_or_refused(machine: Machine, seed: Path):
    machine.check(seed.read_bytes())


def test_any_text_of_sys_is_understood_or_refused(machine: Machine, fuzz_inputs: int):
    corpus.made_up("topology", machine.check, fuzz_inputs // 10)


@corpus.replayed("cgroup_paths")
def test_a_kept_cgroup_path_stays_below_the_root(seed: Path):
    paths(seed.read_bytes())


def test_any_cgroup_path_stays_below_the_root(fuzz_inputs: int):
    corpus.made_up("cgroup_paths", paths, fuzz_inputs)
