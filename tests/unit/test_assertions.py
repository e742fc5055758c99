"""Each test can fail: it asserts, expects an error, or calls a function of the tests that does."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTATIONS = {"pytest.raises", "pytest.fail", "pytest.warns"}


@cache
def functions() -> dict[str, list[tuple[str, ast.FunctionDef]]]:
    """Return the functions of the tests by name, each with its place."""
    found: dict[str, list[tuple[str, ast.FunctionDef]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found[node.name].append((f"{path.relative_to(ROOT)}:{node.lineno}", node))
    return found


def asserts(function: ast.AST) -> bool:
    """Return whether the function itself asserts, raises or expects an error."""
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in EXPECTATIONS)
        for node in ast.walk(function)
    )


def called(function: ast.AST) -> Iterator[str]:
    """Yield the names of the functions and methods that the function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2]


def asserting_names() -> set[str]:
    """Return the names of functions that assert, directly or through others."""
    calls = {
        name: {each for _, function in found for each in called(function)}
        for name, found in functions().items()
    }
    known = {name for name, found in functions().items() if any(asserts(function) for _, function in found)}
    while more := {name for name, names in calls.items() if name not in known and names & known}:
        known |= more
    return known


def test_every_test_can_fail():
    known = asserting_names()
    assert [
        f"{place}: {name}"
        for name, found in functions().items()
        if name.startswith("test_")
        for place, function in found
        if not asserts(function) and not known.intersection(called(function))
    ] == []


@pytest.mark.parametrize(
    ("body", "found"),
    [("assert x", True), ("with pytest.raises(OSError): x()", True), ("x()", False)],
    ids=["assertion", "expected error", "bare call"],
)
def test_an_expectation_is_found(body, found):
    assert asserts(ast.parse(f"def test_x():\n    {body}\n")) is found
