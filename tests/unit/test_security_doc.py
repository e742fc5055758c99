"""docs/security.md names tests that exist, and a test for every ability that it lists."""

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NODE_ID = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)*)`")
TEXT = (PROJECT / "docs/security.md").read_text()


def exists(node_id: str) -> bool:
    """Return whether a node id names a test file, or a class or a test in it."""
    path, *names = node_id.split("::")
    body = ast.parse((PROJECT / path).read_text()).body if (PROJECT / path).is_file() else None
    for name in names:
        found = [n for n in body or () if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
        body = found[0].body if found else None
    return body is not None


@pytest.mark.parametrize("node_id", sorted(set(NODE_ID.findall(TEXT))))
def test_a_named_test_exists(node_id):
    assert exists(node_id)


def test_every_ability_names_a_test():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.endswith("| test |")]
    assert rows
    assert [row for row in rows if not NODE_ID.search(row.split(" | ")[-1])] == []


def test_a_name_without_a_test_is_found():
    assert not exists("tests/unit/test_security_doc.py::test_that_does_not_exist")
    assert not exists("tests/unit/no_such_file.py")
