"""Options of the whole suite, and the outcome of tests that this machine cannot run.

No test is left out in silence. The summary names each skipped test with its reason, and the command that plays the
tests of other tiers (`tests/tiers.py`). Under CI=true a skipped test is a failure.
"""

import gc
import os
from collections.abc import Generator
from typing import TypeVar

import pytest

from tests import interrupts, tiers
from tests.cluster import leftovers
from tests.rig import cleanup, examples, kubepods, lanes, last_words, memory
from tests.rig.order import is_on_containerd, place
from tests.rig.spent import Spent

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until `pytest_collection_finish`
    memory.use_memory()
    examples.choose(few=config.getoption("--tier") == "fast")
    interrupts.raise_them()
    config.pluginmanager.register(Spent())
    if selection := tiers.selection(config):
        config.pluginmanager.register(selection)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=tiers.NAMES, help="play this tier and the tiers before it (tests/tiers.py)"
    )
    parser.addoption("--beyond", choices=tiers.NAMES, help="with --tier: leave out the tiers up to this one")
    parser.addoption(
        "--fuzz-inputs",
        type=int,
        default=2000,
        help="how many inputs each fuzz test makes up (default: 2000)",
    )
    parser.addoption(
        "--soak-seconds",
        type=float,
        default=300,
        help="how long pods come and go in the soak (default: 300)",
    )
    parser.addoption(
        "--pushes",
        type=int,
        default=600,
        help="how many pushes the runtime must bear beside containers that come and go (default: 600)",
    )


@pytest.hookimpl(trylast=True)  # the order within a folder, by fixtures, is pytest's own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests so that each runs beside no more than it allows (`tests/rig/order.py`)."""
    items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start lanes, and take away what disturbs them: only now are the chosen tests known.

    The collected tests live to the end. A garbage collector that passes over them costs the unit tests a tenth less;
    one that is off while they are collected (`pytest_configure`) costs the collection a third less.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    if not lanes.is_lane() and any(map(is_on_containerd, session.items)):
        leftovers.take_away_ended()  # a daemon would see a second kubelet's pods
        cleanup.take_away_left()
        kubepods.take_away_leftover()
    if lanes.wanted(session.config, session.items):
        session.config.pluginmanager.register(lanes.Lanes(session.config, session.items))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test where its report is made: when it is logged, the session has counted its failures.

    A failure shows the last words of the rig's programs.
    """
    report = _must_have_run((yield))
    if report.failed:
        report.sections += last_words.since(call.start)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a skipped file likewise."""
    report = yield
    return _must_have_run(report)


def _must_have_run(report: Report) -> Report:
    if report.outcome == "skipped" and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"left out under CI=true, where everything must run: {report.longrepr}"
    return report
