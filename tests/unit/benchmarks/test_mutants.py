"""One operator or number of a function is changed; texts and annotations never are."""

import pytest

from benchmarks import mutants
from benchmarks.mutants import PROJECT, ROOMS, mutated

CHANGES = [
    ("a < b", "a <= b"),
    ("a == b", "a != b"),
    ("a is None", "a is not None"),
    ("a in b", "a not in b"),
    ("a and b", "a or b"),
    ("a + b", "a - b"),
    ("a & b", "a | b"),
    ("max(a, b)", "min(a, b)"),
    ("all(a)", "any(a)"),
    ("True", "False"),
    ("7", "8"),
    ("a if b else c", "a if not b else c"),
]


def function(result: str) -> str:
    return f"def decide(a: int | None=None) -> int | None:\n    return {result}"


@pytest.mark.parametrize(("was", "now"), CHANGES)
def test_a_site_is_changed(was: str, now: str):
    assert mutated(function(was), 0) == function(now)


@pytest.mark.parametrize("text", [function("'a < b'"), "LIMIT = 7", "def f():\n    x: int | None = None"])
def test_texts_constants_and_annotations_stay(text: str):
    with pytest.raises(IndexError):
        mutated(text, 0)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_every_room_has_mutants(room: mutants.Room):
    assert len(mutants.all_mutants(room, PROJECT)) > len(room.modules)
    assert all((PROJECT / tests).is_dir() for tests in room.tests)
