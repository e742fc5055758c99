"""The host's part: boots a machine of a scenario's shape and reports the scenario's result.

The scenarios are collected here like any test, with the names they have in the guest. On the host, a scenario only
waits for the guest's record. Only the chosen ones are sent to the machine.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.vm.fleet import Ahead, Machines
from tests.vm.machine import FOLDER, Record

SCENARIOS: Final = Path(__file__).parent / "scenarios"
PLAYED: Final = pytest.StashKey[list[Record]]()
MACHINES: Final = pytest.StashKey[Machines]()


def is_scenario(item: pytest.Item) -> bool:
    """Return whether a test runs in a guest."""
    return SCENARIOS in item.path.parents


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remove a scenario's fixtures: they are set up in the guest, and here it needs only a machine."""
    if is_scenario(item):
        assert isinstance(item, pytest.Function)
        item.add_marker(pytest.mark.vm)
        item.fixturenames[:] = ["machines"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Pass the chosen scenarios to the machines: they are known only now."""
    found = Machines(item for item in session.items if is_scenario(item))
    session.config.stash[MACHINES] = found
    if os.geteuid() == 0 and not session.config.option.collectonly:
        session.config.pluginmanager.register(Ahead(found), "vm-ahead")
        found.fetch()


@pytest.fixture(scope="session")
def machines(request: pytest.FixtureRequest) -> Machines:
    if os.geteuid() != 0:
        pytest.skip("an emulated machine takes the host's files as its own, which needs root")
    return request.config.stash[MACHINES]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Report the guest's result of a scenario, instead of running it here."""
    if not is_scenario(pyfuncitem):
        return None
    machines: Any = pyfuncitem.funcargs["machines"]
    machine = machines.of(pyfuncitem)
    record = machine.record(pyfuncitem.nodeid)
    pyfuncitem.config.stash.setdefault(PLAYED, []).append(record)
    if not record.passed:
        pytest.fail(f"in the machine {machine.shape.name}:\n{record.report}", pytrace=False)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the seconds that each scenario took in the guest, longest first."""
    played = config.stash.get(PLAYED, [])
    for record in sorted(played, key=lambda record: -record.seconds):
        terminalreporter.write_line(f"{record.seconds:6.1f} s  {record.scenario.partition('scenarios/')[2]}")
    if played:
        seconds = {record.scenario: record.seconds for record in played}
        (FOLDER / "seconds.json").write_text(json.dumps(seconds, indent=2) + "\n")
