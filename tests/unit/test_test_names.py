"""A test's name is a behaviour in few words (CONTRIBUTING). The part of long names may only fall."""

import ast

from tests.rig.trees import Module, of_every_module

MOST_WORDS = 8
LIMIT_PERCENT = 27
LONGEST = 11


@of_every_module("tests")
def names_of_a_module(module: Module) -> list[str]:
    functions = [node for node in module.nodes if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if node.name.startswith("test_")]


def names() -> list[str]:
    """Return the names of all tests."""
    return [name for found in names_of_a_module().values() for name in found]


def words(name: str) -> int:
    """Return the number of words after `test_`."""
    return len(name.split("_")) - 1


def test_long_names_only_get_fewer():
    found = names()
    long = [name for name in found if words(name) > MOST_WORDS]
    assert 100 * len(long) / len(found) <= LIMIT_PERCENT, (
        f"{len(long)} of {len(found)}, for example {long[:5]}"
    )


def test_no_name_is_longer_than_the_longest():
    assert [name for name in names() if words(name) > LONGEST] == []
