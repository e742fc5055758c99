"""Folders of tests are run so that emulated machines disturb nothing that measures time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.rig.order import (
    EMULATED,
    LASTING,
    PATIENT,
    SIDE_BY_SIDE,
    UNHURRIED,
    bears_a_machine,
    folder,
    is_lasting,
    place,
)

TESTS = Path(__file__).parents[1]


def item(nodeid: str) -> pytest.Item:
    found: Any = SimpleNamespace(nodeid=nodeid)
    return cast("pytest.Item", found)


def test_what_measures_times_comes_first_and_the_machines_last():
    names = ("conformance", "containerd", "fuzz", "integration", "soak", "unit", "vm")
    chosen = [item(f"tests/{name}/test_it.py::test_it") for name in names]
    in_order = ["containerd", "soak", "conformance", "fuzz", "unit", "integration", "vm"]
    assert [folder(one) for one in sorted(chosen, key=place)] == in_order


def test_on_a_real_containerd_what_measures_times_or_lends_comes_before_what_bears_a_machine():
    hurried, unhurried, soak = (
        item(f"tests/{name}.py::test_it")
        for name in (
            "containerd/test_lending",
            f"containerd/{min(UNHURRIED).removesuffix('.py')}",
            "soak/test_soak",
        )
    )
    assert place(hurried) < place(unhurried) < place(soak)
    assert [bears_a_machine(one) for one in (hurried, unhurried, soak)] == [False, True, True]


def test_the_compiler_works_beside_what_lasts_and_before_what_needs_it():
    assert not LASTING & PATIENT
    soak, conformance = (item(f"tests/{name}/test_it.py::test_it") for name in ("soak", "conformance"))
    assert (is_lasting(soak), is_lasting(conformance)) == (True, False)
    assert place(soak) < place(conformance)


def test_a_machine_runs_beside_what_lasts_and_what_is_patient_and_not_beside_what_measures_times():
    beside = {
        name
        for name in ("containerd", "soak", "unit", "vm")
        if bears_a_machine(item(f"tests/{name}/test_it.py::test_it"))
    }
    assert beside == {"soak", "unit"}


def test_every_folder_and_file_that_is_named_exists():
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()}
    assert folders >= PATIENT | SIDE_BY_SIDE | LASTING | EMULATED
    assert {path.name for path in (TESTS / "containerd").iterdir()} >= UNHURRIED
