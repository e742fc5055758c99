"""Records are built by name: a call with more than five values by position is hard to read and easy to get wrong."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.rig.trees import Module, of_every_module

MOST = 5


def names_of_records(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of the records of a module: named tuples, dataclasses and values."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if "NamedTuple" in map(ast.unparse, node.bases) or decorators & {"dataclass", "value"}:
                yield node.name


def by_position(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call with more than MOST values by position."""
    for node in nodes:
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            yield node.lineno, ast.unparse(node.func).rpartition(".")[2]


@of_every_module("nri_coloc", "tests", "benchmarks")
def records_and_calls(module: Module) -> tuple[list[str], list[tuple[int, str]]]:
    return list(names_of_records(module.nodes)), list(by_position(module.nodes))


def test_large_records_are_built_by_name():
    found = records_and_calls()
    records = {name for names, _ in found.values() for name in names}
    calls = [(path, line, name) for path, (_, calls) in found.items() for line, name in calls]
    assert [f"{path}:{line}: {name}" for path, line, name in calls if name in records] == []


@pytest.mark.parametrize(("call", "count"), [("P(1, 2, 3, 4, 5)", 0), ("m.P(1, 2, 3, 4, 5, x)", 1)])
def test_a_call_is_found_by_its_positions(call, count):
    assert len(list(by_position(ast.walk(ast.parse(call))))) == count
