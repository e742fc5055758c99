"""A test's name is a behaviour in few words (CONTRIBUTING). The part of long names may only fall."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 8
LIMIT_PERCENT = 27
LONGEST = 11


def names() -> Iterator[str]:
    """Yield the names of all tests."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "tests"], capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix == ".py" and path.is_file():
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    yield node.name


def words(name: str) -> int:
    """Return the number of words after `test_`."""
    return len(name.split("_")) - 1


def test_long_names_only_get_fewer():
    found = list(names())
    long = [name for name in found if words(name) > MOST_WORDS]
    assert 100 * len(long) / len(found) <= LIMIT_PERCENT, (
        f"{len(long)} of {len(found)}, for example {long[:5]}"
    )


def test_no_name_is_longer_than_the_longest():
    assert [name for name in names() if words(name) > LONGEST] == []
