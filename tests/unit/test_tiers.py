"""Each test has a tier, and each tier's command runs it and the tiers before it."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from tests import tiers
from tests.tiers import COMMANDS, FOLDERS, Selection, Tier, tier_of

TESTS: Final = Path(__file__).parents[1]
MARKED: Final = re.compile(r"""mark\.tier\(["'](.*?)["']\)""")


class Item:
    """The part of a test that its tier depends on."""

    def __init__(self, file: str, *marks: str) -> None:
        self.nodeid = f"tests/{file}::test_it"
        self._marks = marks

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [getattr(pytest.mark, name)(each).mark for each in self._marks]


class Config:
    """Keeps the tests that were deselected."""

    def __init__(self) -> None:
        self.hook = self
        self.left: list[Any] = []

    def pytest_deselected(self, items: list[Any]) -> None:
        self.left += items


def item(file: str, *marks: str) -> pytest.Item:
    return cast("pytest.Item", Item(file, *marks))


def played(selection: Selection) -> list[str]:
    """Return the folders, of one test each, that a selection runs."""
    items = [item(f"{folder}/test_it.py") for folder in sorted(FOLDERS)]
    config: Any = Config()
    selection.pytest_collection_modifyitems(config, items)
    assert len(items) + len(config.left) == len(FOLDERS)
    return [each.nodeid.split("/")[1] for each in items]


FAST: Final = ["fuzz", "property", "scenario", "unit"]


def test_every_test_file_has_a_tier():
    files = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert files == FOLDERS.keys()


def test_every_mark_names_a_tier():
    texts = [path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)]
    assert {name.upper() for text in texts for name in MARKED.findall(text)} <= set(Tier.__members__)


def test_every_tiers_command_is_a_target():
    makefile = (TESTS.parent / "Makefile").read_text()
    commands = [command for tier in Tier for command in COMMANDS[tier].split(", ")]
    assert all(f"\n{command.removeprefix('make ')}:" in makefile for command in commands)


@pytest.mark.parametrize(
    ("tier", "more"),
    [
        (Tier.FAST, []),
        (Tier.TEST, ["containerd", "integration"]),
        (Tier.ALL, ["cluster", "conformance", "containerd", "integration", "vm"]),
    ],
)
def test_a_tier_includes_the_tiers_before_it(tier: Tier, more: list[str]):
    assert played(Selection(tier, None)) == sorted([*FAST, *more])


def test_beyond_leaves_out_what_was_played():
    assert played(Selection(Tier.ALL, Tier.TEST)) == ["cluster", "conformance", "vm"]


@pytest.mark.parametrize(
    ("file", "marks", "tier"),
    [
        ("unit/test_it.py", (), Tier.FAST),
        ("unit/test_it.py", ("all",), Tier.ALL),
        ("vm/test_it.py", ("fast",), Tier.FAST),
        ("unit/test_it.py", ("soak", "test"), Tier.SOAK),
    ],
    ids=["folder", "later", "earlier", "several"],
)
def test_a_mark_counts_before_the_folder(file: str, marks: tuple[str, ...], tier: Tier):
    assert tier_of(item(file, *marks)) is tier


@pytest.mark.parametrize(
    ("unknown", "remedy"),
    [
        (item("new/test_it.py"), r"tests/new/test_it.py.* has no tier: give tests/new one in tests/tiers.py"),
        (item("unit/test_it.py", "slow"), "'slow'; allowed: fast, test, all, soak"),
    ],
    ids=["folder", "mark"],
)
def test_an_unknown_tier_is_an_error(unknown: pytest.Item, remedy: str):
    with pytest.raises(pytest.UsageError, match=remedy):
        tier_of(unknown)


def test_the_summary_names_commands_and_folders():
    left = Counter({(Tier.SOAK, "soak"): 10, (Tier.ALL, "vm"): 53, (Tier.ALL, "conformance"): 181})
    assert list(tiers.left_out(left)) == [
        "left to `make test-all`: 181 of tests/conformance, 53 of tests/vm",
        "left to `make soak, make soak-pushes, make soak-cluster, make soak-pressure, make test-vm`: 10 of tests/soak",
    ]


@pytest.mark.parametrize(
    ("tier", "beyond", "wanted"),
    [(None, None, None), ("fast", None, FAST), ("all", "test", ["cluster", "conformance", "vm"])],
)
def test_the_options_name_the_tiers(tier: str | None, beyond: str | None, wanted: list[str] | None):
    options = {"--tier": tier, "--beyond": beyond}
    found = tiers.selection(cast("pytest.Config", SimpleNamespace(getoption=options.get)))
    assert (found and played(found)) == wanted
