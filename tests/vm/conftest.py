"""The host's part: boots a machine of a scenario's shape and shows what became of the scenario in it.

The scenarios are collected here like any test, with the names they have in the guest; what is run is a wait for
the guest's record. Only the chosen ones are sent to the machine.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.rig import RigError
from tests.vm.machine import FOLDER, Machine, Record
from tests.vm.shapes import SHAPES

SCENARIOS: Final = Path(__file__).parent / "scenarios"
PLAYED: Final = pytest.StashKey[list[Record]]()


class Machines:
    """At most one is running: they share the host's few CPUs. One that cannot be switched on is not tried again."""

    def __init__(self, scenarios: list[pytest.Item]) -> None:
        self._scenarios = scenarios
        self._current: Machine | None = None
        self._broken: dict[str, str] = {}

    def of(self, item: pytest.Item) -> Machine:
        """The machine for a scenario, booted by the first that needs it."""
        name = item.path.parent.name
        if name in self._broken:
            raise RigError(self._broken[name])
        if self._current is None or self._current.shape.name != name:
            self.close()
            mine = [other.nodeid for other in self._scenarios if other.path.parent.name == name]
            self._current = self._switched_on(name, mine)
        return self._current

    def _switched_on(self, name: str, scenarios: list[str]) -> Machine:
        machine = Machine(SHAPES[name], scenarios)
        try:
            machine.start()
        except RigError as error:
            self._broken[name] = str(error)
            raise
        return machine

    def close(self) -> None:
        """Switch the running one off."""
        if self._current is not None:
            self._current.close()
            self._current = None


def is_scenario(item: pytest.Item) -> bool:
    """Whether it is played in a guest."""
    return SCENARIOS in item.path.parents


def pytest_itemcollected(item: pytest.Item) -> None:
    """A scenario's fixtures are set up in the guest; here it needs a machine and no more."""
    if is_scenario(item):
        assert isinstance(item, pytest.Function)
        item.add_marker(pytest.mark.vm)
        item.fixturenames[:] = ["machines"]


@pytest.fixture(scope="session")
def machines(request: pytest.FixtureRequest) -> Iterator[Machines]:
    if os.geteuid() != 0:
        pytest.skip("an emulated machine takes the host's files as its own, which needs root")
    found = Machines([item for item in request.session.items if is_scenario(item)])
    yield found
    found.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Instead of playing a scenario here, take over what the guest says of it."""
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
    """How long each scenario took inside, for those who look for time to save."""
    played = config.stash.get(PLAYED, [])
    for record in sorted(played, key=lambda record: -record.seconds):
        terminalreporter.write_line(f"{record.seconds:6.1f} s  {record.scenario.partition('scenarios/')[2]}")
    if played:
        seconds = {record.scenario: record.seconds for record in played}
        (FOLDER / "seconds.json").write_text(json.dumps(seconds, indent=2) + "\n")
