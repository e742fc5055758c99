"""Machines start beside unrelated tests, and must not fail those tests."""

import subprocess
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from tests.rig import RigError
from tests.vm import fleet
from tests.vm.fleet import Machines
from tests.vm.shapes import Shape


class Scenario:
    """The part of a test that a fleet reads."""

    path = Path("scenarios/two_sockets/test_numa.py")
    nodeid = "test_numa.py::test_one"


class Hopeless:
    """A machine whose packages no mirror delivers in time."""

    tried = 0

    def __init__(self, shape: Shape, scenarios: list[str]) -> None:
        assert (shape.name, scenarios) == ("two_sockets", [Scenario.nodeid])

    def start(self) -> None:
        Hopeless.tried += 1
        raise subprocess.TimeoutExpired("apt-get", 600)


def test_only_a_machines_own_scenarios_hear_why_it_is_off(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(fleet, "Machine", Hopeless)
    scenario = cast("Any", Scenario())
    machines = Machines([scenario])
    machines.advance()
    machines.advance()
    with pytest.raises(RigError, match=r"two_sockets cannot be switched on.*apt-get"):
        machines.of(scenario)
    assert Hopeless.tried == 1


def test_only_tests_of_machines_wait_for_what_machines_need(
    monkeypatch: pytest.MonkeyPatch,
):
    done: list[str] = []
    go_on = Event()

    def fetched() -> None:
        assert go_on.wait(60)
        done.append("fetched")

    class Prompt:
        def __init__(self, shape: Shape, scenarios: list[str]) -> None:
            pass

        def start(self) -> None:
            done.append("switched on")

    monkeypatch.setattr(fleet, "fetched", fetched)
    monkeypatch.setattr(fleet, "Machine", Prompt)
    machines = Machines([cast("Any", Scenario())])
    machines.fetch()
    machines.advance()
    assert done == []
    go_on.set()
    machines.of(cast("Any", Scenario()))
    assert done == ["fetched", "switched on"]
