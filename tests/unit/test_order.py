"""Folders of tests are run so that emulated machines disturb nothing that measures time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.rig.order import EMULATED, LASTING, PATIENT, folder, is_lasting, is_patient, place

TESTS = Path(__file__).parents[1]


def item(nodeid: str) -> pytest.Item:
    found: Any = SimpleNamespace(nodeid=nodeid)
    return cast("pytest.Item", found)


def test_what_measures_times_comes_first_and_the_machines_last():
    names = ("conformance", "containerd", "fuzz", "soak", "unit", "vm")
    chosen = [item(f"tests/{name}/test_it.py::test_it") for name in names]
    in_order = ["containerd", "soak", "conformance", "fuzz", "unit", "vm"]
    assert [folder(one) for one in sorted(chosen, key=place)] == in_order


def test_a_compiler_is_busy_before_the_first_machine_is():
    assert not LASTING & PATIENT
    soak, unit = (item(f"tests/{name}/test_it.py::test_it") for name in ("soak", "unit"))
    assert (is_lasting(soak), is_patient(unit)) == (True, True)
    assert place(soak) < place(unit)


def test_every_folder_that_is_named_exists():
    assert {path.name for path in TESTS.iterdir() if path.is_dir()} >= PATIENT | LASTING | EMULATED
