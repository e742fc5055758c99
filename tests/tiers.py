"""The tier of each test; it decides which command plays the test.

| command | plays | on two cores |
|---|---|---|
| `make test-fast` | values, files in a folder, the simulated node; one daemon as a process | 2 minutes |
| `make test` | adds the daemon beside this node, and as root this kernel and the newest containerd | 16 minutes |
| `make test-all` | adds the other containerd, every NRI version, emulated machines, a Kubernetes node | 45 minutes |
| `make soak`, `make soak-pushes` | an hour of churn, ten thousand pushes; no part of CI | an hour, minutes |
| `make soak-cluster` | idle minutes and restarts of a Kubernetes node; no part of CI | 40 minutes |
| `make test-vm` | all scenarios of the emulated machines, also those that quicker tests repeat | 15 minutes |
| `make soak-pressure` | a disk hog beside a reader, on an idle machine; no part of CI | a minute |

A test has the tier of its folder (`FOLDERS`). A file, a test or a parameter of another tier carries a mark:
`pytestmark = pytest.mark.tier("all")`. If a test has several such marks, the latest tier counts.
"""

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import pytest

from tests.rig.order import folder


class Tier(IntEnum):
    """Each tier's command plays the tiers before it too; soak is played alone."""

    FAST = 1
    TEST = 2
    ALL = 3
    SOAK = 4


FOLDERS: Final = {
    "cluster": Tier.ALL,
    "conformance": Tier.ALL,
    "containerd": Tier.TEST,
    "fuzz": Tier.FAST,
    "integration": Tier.TEST,
    "property": Tier.FAST,
    "scenario": Tier.FAST,
    "soak": Tier.SOAK,
    "unit": Tier.FAST,
    "vm": Tier.ALL,
}

COMMANDS: Final = {
    Tier.FAST: "make test-fast",
    Tier.TEST: "make test",
    Tier.ALL: "make test-all",
    Tier.SOAK: "make soak, make soak-pushes, make soak-cluster, make soak-pressure, make test-vm",
}

NAMES: Final = tuple(tier.name.lower() for tier in Tier if tier <= Tier.ALL)
"""The tiers that the options `--tier` and `--beyond` take."""


def tier_of(item: pytest.Item) -> Tier:
    """Return the tier of a test; raises UsageError if neither its folder nor a mark gives one."""
    marked = [_named(str(name), item) for mark in item.iter_markers("tier") for name in mark.args]
    if marked:
        return max(marked)
    if (found := FOLDERS.get(folder(item))) is None:
        raise pytest.UsageError(f"{item.nodeid} has no tier: give tests/{folder(item)} one in tests/tiers.py")
    return found


def _named(name: str, item: pytest.Item) -> Tier:
    found = {tier.name.lower(): tier for tier in Tier}.get(name)
    if found is None:
        allowed = ", ".join(tier.name.lower() for tier in Tier)
        raise pytest.UsageError(f"{item.nodeid} is marked with the tier {name!r}; allowed: {allowed}")
    return found


class Selection:
    """Play the tiers up to `tier`, without those up to `beyond`, and report the tests left out (a plugin of pytest)."""

    def __init__(self, tier: Tier, beyond: Tier | None) -> None:
        self._played = [each for each in Tier if (beyond or 0) < each <= tier]
        self._left: Counter[tuple[Tier, str]] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect every test of another tier."""
        tiers = {item: tier_of(item) for item in items}
        left = [item for item in items if tiers[item] not in self._played]
        self._left.update((tiers[item], folder(item)) for item in left)
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if tiers[item] in self._played]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the command that plays the tests that this one left out."""
        for line in left_out(self._left):
            terminalreporter.write_line(line)


def left_out(left: Counter[tuple[Tier, str]]) -> Iterator[str]:
    """Yield a line for each tier that was left out: its command, and how many tests of which folder."""
    for tier in sorted({tier for tier, _ in left}):
        found = ", ".join(f"{n} of tests/{name}" for (of, name), n in sorted(left.items()) if of is tier)
        yield f"left to `{COMMANDS[tier]}`: {found}"


def selection(config: pytest.Config) -> Selection | None:
    """Return the selection that the options ask for; without `--tier` every collected test is played."""
    tier, beyond = config.getoption("--tier"), config.getoption("--beyond")
    if tier is None:
        return None
    return Selection(Tier[tier.upper()], Tier[beyond.upper()] if beyond else None)
