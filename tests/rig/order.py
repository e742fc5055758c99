"""The order in which tests run, and which tests may run beside an emulated machine, a compiler or other tests.

`tests/tiers.py` decides which command plays a test.
"""

from typing import Final

import pytest

PATIENT: Final = frozenset({"conformance", "fuzz", "unit"})
"""Tests that need one CPU. If they measure time, the bound is far off."""

IN_LANES: Final = frozenset({"integration", "property", "scenario"})
"""Patient tests that lanes play beside this process (`tests/rig/lanes.py`)."""

WITHOUT_A_NODE: Final = ("tests/conformance/", "tests/cluster/api/")
"""Tests that one lane plays, one after another, beside the tests on a real Kubernetes node: they need no such node."""

UNIT_IN_LANES: Final = ("tests/unit/host/", "tests/unit/kubernetes/", "tests/unit/lending/")
"""Folders that are half of the unit tests: a lane plays each, so that one CPU does not have to play all unit tests."""

BY_FILE: Final = frozenset({"integration"})
"""Folders whose files each wait for most of their time: a lane plays one file. Of other folders it plays all files."""

ON_CONTAINERD: Final = frozenset({"containerd", "soak"})
"""Folders of tests with a containerd whose pods lie below /kubepods of this machine."""

CLUSTER: Final = "cluster"
"""The folder of tests on a real Kubernetes node, which wait for most of their time; none measures it."""

EMULATED: Final = "vm"
"""The mark of tests that an emulated machine plays (`tests/vm/conftest.py` sets it)."""

BEARS_LOAD: Final = "bears_load"
"""The mark of tests on a real containerd that pass beside an emulated machine or other lanes; one lane plays them all.

No test has it that measures how long something takes, or that lends: the reclaim pool follows the use of the whole
machine. No test has it that kills containerd: after its restart on a busy machine, 1.7 was seen to take 14 shims of a
hundred for leaked ones and to end their containers.
"""


def folder(item: pytest.Item) -> str:
    """Return the folder below tests/ that a test lies in."""
    return item.nodeid.partition("tests/")[2].partition("/")[0]


def is_patient(item: pytest.Item) -> bool:
    """Return whether other tests may run beside this one."""
    return folder(item) in PATIENT | IN_LANES


def bears_a_machine(item: pytest.Item) -> bool:
    """Return whether an emulated machine or a compiler may run beside this test."""
    return is_patient(item) or folder(item) == CLUSTER or _bears_load(item)


def is_emulated(item: pytest.Item) -> bool:
    """Return whether an emulated machine plays this test."""
    return item.get_closest_marker(EMULATED) is not None


def is_on_containerd(item: pytest.Item) -> bool:
    """Return whether a test has a real containerd on this machine."""
    return folder(item) in ON_CONTAINERD


def is_on_a_cluster(item: pytest.Item) -> bool:
    """Return whether a test needs a real Kubernetes node."""
    return folder(item) == CLUSTER and not _needs_no_node(item)


def _path(item: pytest.Item) -> str:
    return item.nodeid[item.nodeid.find("tests/") :]


def _needs_no_node(item: pytest.Item) -> bool:
    return _path(item).startswith(WITHOUT_A_NODE)


def _unit_in_lanes(item: pytest.Item) -> str:
    return next((name for name in UNIT_IN_LANES if _path(item).startswith(name)), "")


def _bears_load(item: pytest.Item) -> bool:
    return item.get_closest_marker(BEARS_LOAD) is not None


def batch(item: pytest.Item) -> str:
    """Return the name of the tests that a lane plays together with this one.

    It is the file or the folder of the test; empty if no lane plays it.
    """
    if _needs_no_node(item):
        return ", ".join(WITHOUT_A_NODE)
    if part := _unit_in_lanes(item):
        return part
    name = folder(item)
    if name not in IN_LANES and not _bears_load(item):
        return ""
    return item.nodeid.partition("::")[0] if name in BY_FILE else f"tests/{name}"


def place(item: pytest.Item) -> int:
    """Return the place of a test in the order.

    First tests that run alone, then patient tests, then tests in lanes: most of a machine's work is done by then. Tests
    on a real Kubernetes node come then, whose programs were compiled beside all others, then the tests that lanes have
    played beside them, and at last the machines' own tests.
    """
    if is_emulated(item):
        return 6
    if _needs_no_node(item) or _bears_load(item):
        return 5
    if folder(item) == CLUSTER:
        return 4
    if folder(item) in IN_LANES or _unit_in_lanes(item):
        return 2 + (folder(item) in BY_FILE)
    return int(folder(item) in PATIENT)
