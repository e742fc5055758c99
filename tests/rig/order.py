"""In which order the folders of tests are run, and beside which of them an emulated machine or a compiler may be."""

from typing import Final

import pytest

PATIENT: Final = frozenset({"conformance", "fuzz", "integration", "property", "scenario", "unit"})
"""They need one CPU, and none of them measures how long something takes but against a bound that is far off."""

LASTING: Final = frozenset({"soak"})
"""What they bound is a rise over minutes, of times too, with room for a machine that others use as well; an emulator is
busy all the while, and a compiler for the first of them."""

EMULATED: Final = frozenset({"vm"})


def folder(item: pytest.Item) -> str:
    """The folder below tests/ that a test lies in."""
    return item.nodeid.partition("tests/")[2].partition("/")[0]


def bears_a_machine(item: pytest.Item) -> bool:
    """Whether an emulated machine may run beside this test."""
    return folder(item) in PATIENT | LASTING


def is_lasting(item: pytest.Item) -> bool:
    """Whether a compiler may run beside this test."""
    return folder(item) in LASTING


def place(item: pytest.Item) -> int:
    """First what measures times here; then what bears a machine beside it; then what these have to say."""
    return 3 if folder(item) in EMULATED else 2 if folder(item) in PATIENT else int(is_lasting(item))
