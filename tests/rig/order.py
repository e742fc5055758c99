"""In which order the folders of tests are run, and what may run beside which of them: an emulated machine, a compiler,
other tests."""

from typing import Final

import pytest

UNHURRIED: Final = frozenset(
    {
        "test_annotations.py",
        "test_fault_configuration.py",
        "test_fault_kill.py",
        "test_fault_neighbour.py",
        "test_inspector.py",
        "test_knobs.py",
        "test_updates.py",
    }
)
"""Of the tests on a real containerd those that neither measure how long something takes nor lend: the box follows what
the whole machine uses, so beside an emulator nothing would be lent. Nor do they kill containerd: on a busy
machine 1.7 was seen to take 14 shims of a hundred for leaked ones when it came back, and to end their containers."""

PATIENT: Final = frozenset({"conformance", "fuzz", "property", "scenario", "unit"})
"""They need one CPU, and none of them measures how long something takes but against a bound that is far off."""

SIDE_BY_SIDE: Final = frozenset({"integration"})
"""They are patient too, and wait for most of their time: several files at once do well with one CPU."""

LASTING: Final = frozenset({"soak"})
"""What they bound is a rise over minutes, of times too, with room for a machine that others use as well; an emulator is
busy all the while, and a compiler for the first of them."""

EMULATED: Final = frozenset({"vm"})


def folder(item: pytest.Item) -> str:
    """The folder below tests/ that a test lies in."""
    return item.nodeid.partition("tests/")[2].partition("/")[0]


def bears_a_machine(item: pytest.Item) -> bool:
    """Whether an emulated machine may run beside this test."""
    return folder(item) in PATIENT | SIDE_BY_SIDE | LASTING or _is_unhurried(item)


def is_lasting(item: pytest.Item) -> bool:
    """Whether a compiler may run beside this test."""
    return folder(item) in LASTING


def is_side_by_side(item: pytest.Item) -> bool:
    """Whether other files of its folder may be run beside this test's."""
    return folder(item) in SIDE_BY_SIDE


def place(item: pytest.Item) -> int:
    """First what measures times here; then what bears a machine beside it; then what these have to say.

    What is run side by side comes late: most of the machines' work is done by then.
    """
    if folder(item) in EMULATED:
        return 5
    if is_side_by_side(item):
        return 4
    if folder(item) in PATIENT:
        return 3
    return 2 if is_lasting(item) else int(_is_unhurried(item))


def _is_unhurried(item: pytest.Item) -> bool:
    return folder(item) == "containerd" and item.nodeid.partition("::")[0].rpartition("/")[2] in UNHURRIED
