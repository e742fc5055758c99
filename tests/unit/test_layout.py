"""Each package has a docstring, unit tests, and a place in the import contract."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nri_coloc"
ROOMS = sorted(file.parent.name for file in PACKAGE.glob("*/__init__.py") if file.parent.name != "_pb")
PACKAGES = sorted(
    {
        str(file.parent.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*/__init__.py")
        if "_pb" not in file.parts
    }
    - {"pressure/actions"}  # the table of the actions is its content
)
PURE = (
    "core",
    "pods",
    "placing",
    "lending",
    "memory",
    "forecast",
    "tuning",
    "schedule",
    "kubernetes",
    "nri",
    "ttrpc",
)


def contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def floors() -> list[set[str]]:
    """Return the packages of each layer, the uppermost first."""
    (layers,) = (contract["layers"] for contract in contracts() if contract["type"] == "layers")
    return [{name.strip() for name in layer.split("|")} for layer in layers]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_unit_tests(room):
    assert any((ROOT / "tests/unit" / room).glob("test_*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_for(room):
    assert ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_modules_and_no_names(package):
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text())
    assert [ast.unparse(node) for node in tree.body[1:]] == []


def test_every_room_has_a_floor():
    files = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert {*ROOMS, "_pb"} | files == set().union(*floors())


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_a_document_draws_every_room(document):
    drawing = re.findall(r"```(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)[0]
    assert set(ROOMS) - set(re.findall(r"[a-z]+", drawing)) == set()


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/changes.md"])
def test_a_document_names_modules_that_exist(document):
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", (ROOT / document).read_text()))
    assert {name for name in named if not ((PACKAGE / name).exists() or (ROOT / name).exists())} == set()
    assert named


def test_no_room_has_two_floors():
    names = [name for floor in floors() for name in floor]
    assert len(names) == len(set(names))


def test_rooms_that_decide_lie_below_the_service():
    number = {name: at for at, floor in enumerate(floors()) for name in floor}
    assert min(number[name] for name in PURE) > number["service"]


def test_no_module_is_longer_than_a_reader_can_hold():
    # usually 120 to 400 lines; 500 if it holds a single idea; generated code is not read
    long = {
        str(file.relative_to(ROOT)): lines
        for file in PACKAGE.rglob("*.py")
        if "_pb" not in file.parts and (lines := len(file.read_text().splitlines())) > 500
    }
    assert long == {}
