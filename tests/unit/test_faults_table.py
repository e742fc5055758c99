"""docs/testing.md names every fault and the invariants that it protects, and names no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nri_coloc.nri.calls import HookKind
from tests.rig.mortal_daemon import HOOKS, NEVER_HEARD

PROJECT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| `(?P<file>fault_\w+)` \| (?P<sentence>[^|]+) \| (?P<numbers>[\d, ]+) \|$", re.MULTILINE
)
INVARIANTS = range(1, 10)


def faults() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield file and function of each test of a fault."""
    for path in sorted((PROJECT / "tests/containerd").glob("test_fault_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path.stem.removeprefix("test_"), node


def marked() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield file, sentence and invariants of each test of a fault; no marker is no invariant."""
    for file, node in faults():
        yield file, node.name.removeprefix("test_").replace("_", " "), numbers(node)


def numbers(node: ast.FunctionDef) -> tuple[int, ...]:
    calls = [d for d in node.decorator_list if isinstance(d, ast.Call)]
    markers = [call for call in calls if ast.unparse(call.func) == "pytest.mark.invariant"]
    return tuple(ast.literal_eval(argument) for call in markers for argument in call.args)


def test_the_table_of_faults_is_what_the_tests_are_marked_with():
    text = (PROJECT / "docs/testing.md").read_text()
    told = [
        (row["file"], row["sentence"], tuple(map(int, row["numbers"].split(","))))
        for row in ROW.finditer(text)
    ]
    assert sorted(told) == sorted(marked())


def test_every_test_of_the_cluster_table_exists():
    text = (PROJECT / "docs/testing.md").read_text().partition("## Faults of the API server")[2]
    named = set(re.findall(r"`(test_\w+)`", text.partition("\n## ")[0]))
    files = [*PROJECT.glob("tests/unit/kubernetes/test_*.py"), *PROJECT.glob("tests/cluster/**/test_*.py")]
    known = set(re.findall(r"^def (test_\w+)", "\n".join(each.read_text() for each in files), re.MULTILINE))
    assert named
    assert named <= known


def test_every_fault_names_an_invariant_that_exists():
    for file, sentence, found in marked():
        assert found, f"{file}: {sentence} names no invariant"
        assert set(found) <= set(INVARIANTS), f"{file}: {sentence}"


def test_every_fault_is_judged_from_outside():
    for file, node in faults():
        assert "inspector" in {argument.arg for argument in node.args.args}, f"{file}: {node.name}"


def test_every_hook_has_steps_at_which_the_plugin_is_killed():
    answered = {"Configure", "Synchronize", *(kind.value for kind in HookKind)}
    assert HOOKS.keys() == answered - NEVER_HEARD
    assert all(moments[0] == "asked" for moments in HOOKS.values())
    assert all("answered" in moments for moments in HOOKS.values())
