"""Each test can fail: it asserts, expects an error, or calls a function of the tests that does."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest

from tests.rig.trees import Module, of_every_module

EXPECTATIONS = {("pytest", "raises"), ("pytest", "fail"), ("pytest", "warns")}


class Function(NamedTuple):
    """A function of the tests.

    place: its file and line.
    asserts: whether the function itself asserts, raises or expects an error.
    calls: the names of the functions and methods that it calls.
    """

    place: str
    asserts: bool
    calls: frozenset[str]


@of_every_module("tests")
def functions_of_a_module(module: Module) -> list[tuple[str, Function]]:
    nodes = [node for node in module.nodes if isinstance(node, ast.FunctionDef)]
    return [
        (node.name, Function(f"{module.path}:{node.lineno}", asserts(node), frozenset(called(node))))
        for node in nodes
    ]


def functions() -> dict[str, list[Function]]:
    """Return the functions of the tests by name."""
    by_name: dict[str, list[Function]] = defaultdict(list)
    for found in functions_of_a_module().values():
        for name, function in found:
            by_name[name].append(function)
    return by_name


def asserts(function: ast.AST) -> bool:
    """Return whether the function itself asserts, raises or expects an error."""
    return any(
        isinstance(node, ast.Assert | ast.Raise) or (isinstance(node, ast.Call) and expects(node.func))
        for node in ast.walk(function)
    )


def expects(callee: ast.expr) -> bool:
    """Return whether the callee is an expectation of pytest."""
    match callee:
        case ast.Attribute(ast.Name(module), name):
            return (module, name) in EXPECTATIONS
    return False


def called(function: ast.AST) -> Iterator[str]:
    """Yield the names of the functions and methods that the function calls."""
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Name(name)) | ast.Call(ast.Attribute(_, name)):
                yield name


def asserting_names(known_functions: Mapping[str, Sequence[Function]]) -> set[str]:
    """Return the names of functions that assert, directly or through others."""
    calls = {name: {each for one in found for each in one.calls} for name, found in known_functions.items()}
    known = {name for name, found in known_functions.items() if any(one.asserts for one in found)}
    while more := {name for name, names in calls.items() if name not in known and names & known}:
        known |= more
    return known


def test_every_test_can_fail():
    found = functions()
    known = asserting_names(found)
    assert [
        f"{one.place}: {name}"
        for name, ones in found.items()
        if name.startswith("test_")
        for one in ones
        if not one.asserts and not known.intersection(one.calls)
    ] == []


@pytest.mark.parametrize(
    ("body", "found"),
    [("assert x", True), ("with pytest.raises(OSError): x()", True), ("x()", False)],
    ids=["assertion", "expected error", "bare call"],
)
def test_an_expectation_is_found(body, found):
    assert asserts(ast.parse(f"def test_x():\n    {body}\n")) is found
