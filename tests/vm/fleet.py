"""The machines of one run: each is booted once, one at a time, as soon as it disturbs no other test.

An emulated machine keeps one CPU of the host busy for minutes. So machines run, one after another, beside tests that
need one CPU (`tests/rig/order.py`); a test that asks for a record later finds it written. Packages that a fresh host
lacks are fetched beside the first tests of the run: fetching waits for the network and disturbs no test.
"""

import subprocess
from collections.abc import Generator, Iterable
from contextlib import suppress
from threading import Event, RLock, Thread
from typing import Final

import pytest

from tests.rig import RigError, whole_process
from tests.rig.order import bears_a_machine
from tests.vm.machine import Machine, fetched, is_compiled
from tests.vm.shapes import SHAPES

LOOK_EVERY_S: Final = 1.0


class Machines:
    """Boot one machine at a time: they share the host's few CPUs.

    A machine that cannot be switched on is not tried again. The tests' thread uses this class, and so does the thread
    that switches machines on ahead of the tests.
    """

    def __init__(self, scenarios: Iterable[pytest.Item]) -> None:
        self._scenarios: dict[str, list[str]] = {}
        for item in scenarios:
            self._scenarios.setdefault(item.path.parent.name, []).append(item.nodeid)
        self._machines: dict[str, Machine] = {}
        self._broken: dict[str, str] = {}
        self._current: Machine | None = None
        self._lock = RLock()
        self._fetching = Thread(target=_fetch, name="vm-fetch", daemon=True)

    def fetch(self) -> None:
        """Start to fetch the packages that machines need, if a scenario is chosen."""
        if self._scenarios:
            self._fetching.start()

    def of(self, item: pytest.Item) -> Machine:
        """Return the machine for a scenario; boot it if no earlier scenario has."""
        name = item.path.parent.name
        with self._lock:
            if name in self._broken:
                raise RigError(self._broken[name])
            if name not in self._machines:
                self.close()
                self._switch_on(name)
            return self._machines[name]

    def advance(self) -> None:
        """Boot the next machine, if none is running and all is there.

        If a machine cannot be switched on, the scenarios that need it report the cause.
        """
        if self._fetching.is_alive():
            return
        with self._lock:
            if self._current is not None and not self._current.is_off:
                return
            waiting = self._scenarios.keys() - self._machines.keys() - self._broken.keys()
            # a machine that needs half an hour of compiling waits for the test that asks for it
            compiled = (name for name in self._scenarios if is_compiled(SHAPES[name]))
            name = next((name for name in compiled if name in waiting), None)
            if name is not None:
                with suppress(RigError):
                    self._switch_on(name)

    def _switch_on(self, name: str) -> None:
        if self._fetching.ident is not None:
            self._fetching.join()
        machine = Machine(SHAPES[name], self._scenarios[name])
        try:
            with whole_process.unchanged():
                machine.start()
        except Exception as error:
            # any error, such as a mirror that hangs or a full disk: the test that runs beside this boot did not cause
            # it
            self._broken[name] = f"the machine {name} cannot be switched on: {error}"
            raise RigError(self._broken[name]) from error
        self._machines[name] = self._current = machine

    def close(self) -> None:
        """Switch the running machine off."""
        with self._lock:
            if self._current is not None:
                self._current.close()
                self._current = None


def _fetch() -> None:
    with suppress(RigError, OSError, subprocess.SubprocessError):  # a scenario tries again and reports it
        fetched()


class Ahead:
    """Keep a machine running while tests allow it, and switch it off at the end, as a plugin of pytest.

    When a machine ends during a test of minutes, a thread of its own boots the next one at once.
    """

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._is_borne = False
        self._ended = Event()
        self._thread = Thread(target=self._run, name="vm-ahead", daemon=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Boot the next machine before each test, also before one that runs in a lane."""
        self._is_borne = bears_a_machine(item)
        if self._is_borne and self._thread.ident is None:
            self._thread.start()
        return (yield)

    def pytest_sessionfinish(self) -> None:
        """End the machines, in whichever way the session ends."""
        self._ended.set()
        self._machines.close()  # before the thread ends: a process that it started ends with it
        if self._thread.ident is not None:
            self._thread.join()
        self._machines.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._is_borne:
                self._machines.advance()
            self._ended.wait(LOOK_EVERY_S)
