"""The house's plan is kept: each module of the pure floors has its test module, each package its floor."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nri_coloc"
PURE = ("model", "policy", "reclaim", "ttrpc", "multiplex", "nri", "knobs")


def contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def floors() -> list[set[str]]:
    """Return the packages of each floor, the uppermost first."""
    (layers,) = (contract["layers"] for contract in contracts() if contract["type"] == "layers")
    return [{name.strip() for name in layer.split("|")} for layer in layers]


def modules(package: str) -> list[str]:
    found = sorted((PACKAGE / package).glob("*.py"))
    return [f"{package}/{file.name}" for file in found if file.name != "__init__.py"]


@pytest.mark.parametrize("module", [m for package in PURE for m in modules(package)])
def test_a_pure_module_has_its_own_test_module(module):
    package, name = module.split("/")
    test = ROOT / "tests/unit" / package / f"test_{name}"
    assert test.is_file()


def test_every_package_has_a_floor():
    packages = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    files = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert packages | files == set().union(*floors())


def test_no_package_has_two_floors():
    names = [name for floor in floors() for name in floor]
    assert len(names) == len(set(names))


def test_the_pure_floors_lie_below_everything_that_touches_the_world():
    order = [min(number for number, floor in enumerate(floors()) if name in floor) for name in PURE]
    world = [
        max(number for number, floor in enumerate(floors()) if name in floor)
        for name in (
            "cli",
            "daemon",
            "actuation",
            "cri",
            "admin",
            "sampling",
            "telemetry",
            "config",
            "node_sim",
        )
    ]
    assert min(order) > max(world)


def test_no_module_is_longer_than_a_reader_can_hold():
    # usually 120 to 400 lines; 500 where the idea is one. Generated code is not read
    long = {
        str(file.relative_to(ROOT)): lines
        for file in PACKAGE.rglob("*.py")
        if "_pb" not in file.parts and (lines := len(file.read_text().splitlines())) > 500
    }
    assert long == {}
