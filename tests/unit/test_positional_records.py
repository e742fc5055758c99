"""Records are built by name: a call with more than five values by position is hard to read and easy to get wrong."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 5


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield path and tree of the modules of product, tests and benchmarks, without generated code."""
    folders = [ROOT / name for name in ("nri_coloc", "tests", "benchmarks")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if "_pb" not in path.parts]
    return ((str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths)


def names_of_records(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the records of a module: named tuples, dataclasses and values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if "NamedTuple" in map(ast.unparse, node.bases) or decorators & {"dataclass", "value"}:
                yield node.name


def by_position(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call with more than MOST values by position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            yield node.lineno, ast.unparse(node.func).rpartition(".")[2]


def test_large_records_are_built_by_name():
    records: set[str] = set()
    calls: list[tuple[str, int, str]] = []
    for path, tree in modules():
        records.update(names_of_records(tree))
        calls += ((path, line, name) for line, name in by_position(tree))
    assert [f"{path}:{line}: {name}" for path, line, name in calls if name in records] == []


@pytest.mark.parametrize(("call", "count"), [("P(1, 2, 3, 4, 5)", 0), ("m.P(1, 2, 3, 4, 5, x)", 1)])
def test_a_call_is_found_by_its_positions(call, count):
    assert len(list(by_position(ast.parse(call)))) == count
