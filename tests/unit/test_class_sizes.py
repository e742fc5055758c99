"""A mutable class is small, or its docstring gives a reason in a line that begins "Size:"."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.rig.trees import Module, of_every_module

PACKAGE = Path(__file__).resolve().parents[2] / "nri_coloc"
MOST_ATTRIBUTES = 15
MOST_METHODS = 20
MOST_ARGUMENTS = 6
MORE_ARGUMENTS = {"Actuator": 8, "Survey": 7}
"""Constructors that take more; these numbers may only fall.

Actuator: four collaborators each own other values of a cgroup, in rooms that it must not import.
Survey: the clock of its histories is an argument.
"""

VALUES = {"Protocol", "NamedTuple", "Enum", "StrEnum", "TypedDict"}


class Size(NamedTuple):
    """The size of a class, and whether its docstring gives a reason for it."""

    name: str
    attributes: int
    methods: int
    has_reason: bool

    @property
    def is_too_large(self) -> bool:
        return self.attributes > MOST_ATTRIBUTES or self.methods > MOST_METHODS


def sizes(nodes: Iterable[ast.AST]) -> Iterator[Size]:
    """Yield the size of each class of a module, except value classes."""
    for found in nodes:
        if isinstance(found, ast.ClassDef) and not is_a_value(found):
            methods = [each for each in found.body if isinstance(each, ast.FunctionDef)]
            reason = any(line.startswith("Size: ") for line in (ast.get_docstring(found) or "").splitlines())
            yield Size(found.name, len(set(attributes(found))), len(methods), reason)


def is_a_value(found: ast.ClassDef) -> bool:
    decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in found.decorator_list}
    return bool({ast.unparse(base) for base in found.bases} & VALUES or decorators & {"dataclass", "value"})


def attributes(found: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(found):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            owner = each.value
            if isinstance(owner, ast.Name) and owner.id == "self":
                yield each.attr


@of_every_module("nri_coloc")
def sizes_and_arguments(module: Module) -> tuple[list[Size], list[tuple[str, int]]]:
    return list(sizes(module.nodes)), list(arguments(module.nodes))


@pytest.mark.parametrize(
    "module",
    [str(file.relative_to(PACKAGE)) for file in sorted(PACKAGE.rglob("*.py")) if "_pb" not in file.parts],
)
def test_a_large_class_has_a_reason(module):
    found, _ = sizes_and_arguments()[f"{PACKAGE.name}/{module}"]
    large = [each for each in found if each.is_too_large]
    assert [each for each in large if not each.has_reason] == []


def arguments(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield each class with a constructor, and the number of arguments that it takes."""
    for found in nodes:
        if isinstance(found, ast.ClassDef):
            for each in found.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    given = each.args
                    yield found.name, len(given.posonlyargs + given.args + given.kwonlyargs) - 1


def test_a_constructor_takes_six_arguments():
    found = (each for _, of_module in sizes_and_arguments().values() for each in of_module)
    assert [(name, n) for name, n in found if n > MORE_ARGUMENTS.get(name, MOST_ARGUMENTS)] == []


def test_the_count_is_of_methods_and_attributes():
    assert {each.name: (each.attributes, each.methods) for each in sizes(ast.walk(ast.parse(LARGE)))} == {
        "Large": (16, 1)
    }


@pytest.mark.parametrize(("docstring", "has_reason"), [("Size: one queue.", True), ("Small.", False)])
def test_a_reason_is_a_line_of_the_docstring(docstring, has_reason):
    (found,) = sizes(ast.walk(ast.parse(f'class Thing:\n    """Do.\n\n    {docstring}\n    """\n')))
    assert found.has_reason is has_reason


LARGE = "class Large:\n    def __init__(self) -> None:\n" + "".join(
    f"        self.a{number} = {number}\n" for number in range(16)
)
