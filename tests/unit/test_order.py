"""Tests are ordered so that an emulated machine disturbs no test that measures time."""

from pathlib import Path
from typing import Any, Final, cast

import pytest

from tests.rig.order import (
    BEARS_LOAD,
    BY_FILE,
    EMULATED,
    IN_LANES,
    ON_CONTAINERD,
    PATIENT,
    UNIT_IN_LANES,
    batch,
    bears_a_machine,
    folder,
    is_emulated,
    is_on_a_cluster,
    place,
)

TESTS: Final = Path(__file__).parents[1]


class Item:
    """The part of a test that its place depends on."""

    def __init__(self, file: str, *marks: str) -> None:
        self.nodeid = f"tests/{file}.py::test_it"
        self._marks = marks

    def get_closest_marker(self, name: str) -> object:
        return name if name in self._marks else None


def item(file: str, *marks: str) -> pytest.Item:
    found: Any = Item(file, *marks)
    return cast("pytest.Item", found)


TIMED: Final = item("containerd/test_lending")
BEARS: Final = item("containerd/test_knobs", BEARS_LOAD)
NODE: Final = item("cluster/test_it")
MACHINES: Final = item("vm/scenarios/test_numa", EMULATED)


def test_timed_tests_come_first_machines_last():
    names = ("cluster", "containerd", "fuzz", "integration", "property", "unit")
    chosen = [*(item(f"{name}/test_it") for name in names), MACHINES]
    ordered = [folder(one) for one in sorted(chosen, key=place)]
    assert ordered == ["containerd", "fuzz", "unit", "property", "integration", "cluster", "vm"]


def test_lanes_play_beside_the_cluster():
    free = [item("conformance/test_it"), item("cluster/api/test_it"), BEARS]
    assert all(place(NODE) < place(one) < place(MACHINES) for one in free)
    assert [is_on_a_cluster(one) for one in (*free, NODE)] == [False, False, False, True]


def test_one_lane_plays_the_tests_without_a_node():
    assert batch(item("conformance/test_it")) == batch(item("cluster/api/test_it")) != ""


def test_machine_runs_beside_tests_that_bear_it():
    unit, integration, soak = (item(f"{name}/test_it") for name in ("unit", "integration", "soak"))
    chosen = (TIMED, BEARS, unit, integration, soak, NODE, MACHINES)
    assert [bears_a_machine(one) for one in chosen] == [False, True, True, True, False, True, False]


def test_only_marked_tests_are_a_machines():
    assert is_emulated(MACHINES)
    assert not is_emulated(item("vm/test_it"))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("integration/test_it", "tests/integration/test_it.py"),
        ("integration/hostile/test_it", "tests/integration/hostile/test_it.py"),
        ("property/test_it", "tests/property"),
        ("unit/test_it", ""),
        ("unit/kubernetes/test_it", "tests/unit/kubernetes/"),
        ("containerd/test_it", ""),
    ],
)
def test_a_lane_plays_a_file_or_a_folder(file: str, name: str):
    assert batch(item(file)) == name


def test_one_lane_plays_tests_that_bear_load():
    assert batch(BEARS) == batch(item("containerd/test_pinning", BEARS_LOAD)) == "tests/containerd"


def test_every_named_folder_exists():
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()}
    assert folders >= PATIENT | IN_LANES | ON_CONTAINERD
    assert IN_LANES >= BY_FILE
    assert all((TESTS.parent / name).is_dir() for name in UNIT_IN_LANES)
