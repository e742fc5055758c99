"""Records are built by name: a call with more than five values by position is hard to read and easy to get wrong."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 5


@cache
def modules() -> dict[str, ast.Module]:
    """Return the modules of product, tests and benchmarks by path, without generated code."""
    folders = [ROOT / name for name in ("nri_coloc", "tests", "benchmarks")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if "_pb" not in path.parts]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def names_of_records(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the records of a module: named tuples, dataclasses and values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if "NamedTuple" in map(ast.unparse, node.bases) or decorators & {"dataclass", "value"}:
                yield node.name


def by_position(tree: ast.AST, records: set[str]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each record that is built with more than MOST values by position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in records:
                yield node.lineno, name


def test_large_records_are_built_by_name():
    records = {name for tree in modules().values() for name in names_of_records(tree)}
    found = [
        f"{path}:{line}: {name}"
        for path, tree in modules().items()
        for line, name in by_position(tree, records)
    ]
    assert found == []


@pytest.mark.parametrize(("call", "count"), [("P(1, 2, 3, 4, 5)", 0), ("m.P(1, 2, 3, 4, 5, x)", 1)])
def test_a_call_is_found_by_its_positions(call, count):
    assert len(list(by_position(ast.parse(call), {"P"}))) == count
