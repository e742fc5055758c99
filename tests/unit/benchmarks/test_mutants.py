"""One operator or number of a function is changed; texts and annotations never are."""

import ast
import functools
import gc
import os
import signal
from typing import Any

import pytest

from benchmarks import mutants
from benchmarks.children import run
from benchmarks.mutants import PROJECT, ROOMS, functions_of, replace_functions
from benchmarks.mutations import mutated, sites

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
    assert ast.unparse(mutated(function(was), 0)) == function(now)


@pytest.mark.parametrize("text", [function("'a < b'"), "LIMIT = 7", "def f():\n    x: int | None = None"])
def test_texts_constants_and_annotations_stay(text: str):
    with pytest.raises(IndexError):
        mutated(text, 0)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_every_room_has_mutants(room: mutants.Room):
    assert len(mutants.all_mutants(room)) > len(room.modules)
    assert all((PROJECT / tests).exists() for tests in room.tests)


def test_a_site_knows_its_statement():
    (number,) = sites(ast.parse("def f(a):\n    return (\n        a,\n        7,\n    )"))
    assert (number.statement, number.line) == (2, 4)


def test_a_condition_has_the_line_of_its_first_term():
    first, *_ = sites(ast.parse("def f(a):\n    if (\n        a\n        or not a\n    ):\n        pass"))
    assert (first.statement, first.line, first.change) == (2, 3, "condition → its opposite")


SOURCE = """
def plain(a): return a < 7
class Decides:
    @property
    def wrapped(self): return [each for each in (6, 7) if each < 7]
"""


def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(SOURCE, name, "exec"), found)
    return found


def test_code_is_replaced_where_a_function_is_bound():
    kept = functools.lru_cache(loaded("changed.py")["plain"])
    replace_functions(functions_of(["changed.py"]), compile(mutated(SOURCE, 0), "changed.py", "exec"))
    assert kept(7)


def test_a_frozen_function_is_found():
    gc.freeze()
    assert sites in functions_of([sites.__code__.co_filename])


def test_code_of_a_property_is_replaced():
    decides = loaded("other.py")["Decides"]
    replace_functions(functions_of(["other.py"]), compile(mutated(SOURCE, 4), "other.py", "exec"))
    assert decides().wrapped == [6, 7]


def test_a_child_sends_its_result():
    assert dict(run([("a", lambda: 1), ("b", lambda: 2)], 2)) == {"a": (1, 0), "b": (2, 0)}


def test_a_child_that_a_signal_ends_is_reported():
    jobs = [("loops", lambda: os.kill(os.getpid(), signal.SIGPROF))]
    assert dict(run(jobs, 1)) == {"loops": (None, signal.SIGPROF)}
