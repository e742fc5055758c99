"""Tests are ordered so that an emulated machine disturbs no test that measures time."""

from pathlib import Path
from typing import Any, Final, cast

import pytest

from tests.rig.order import (
    BEARS_LOAD,
    BY_FILE,
    EMULATED,
    IN_LANES,
    PATIENT,
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
    names = ("cluster/api", "cluster", "containerd", "fuzz", "integration", "property", "unit")
    chosen = [*(item(f"{name}/test_it") for name in names), MACHINES, BEARS]
    ordered = sorted(chosen, key=place)
    patient = ["fuzz", "unit", "property", "integration"]
    cluster = ["cluster", "cluster", "vm"]
    assert [folder(one) for one in ordered] == ["containerd", "containerd", *patient, *cluster]
    assert ordered[1] is BEARS
    assert "api" in ordered[-2].nodeid


def test_tests_without_a_node_run_beside_the_cluster():
    free = [item("conformance/test_it"), item("cluster/api/test_it")]
    assert len({batch(one) for one in free}) == 1
    assert all(place(one) > place(NODE) for one in free)
    assert [is_on_a_cluster(one) for one in (*free, NODE)] == [False, False, True]


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
    ],
)
def test_a_lane_plays_a_file_or_a_folder(file: str, name: str):
    assert batch(item(file)) == name


def test_every_named_folder_exists():
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()}
    assert folders >= PATIENT | IN_LANES >= BY_FILE
