"""`nri-coloc demo`: a day on a simulated node in half a minute, with the real daemon as its own process.

This process plays the machine, the kubelet and the runtime; the daemon decides. What is shown comes from the
daemon's own /v1/state and /v1/audit over HTTP and from nothing else; only the check at the end compares it with
the files that the daemon was to change. If the daemon ends, so does the demo, with a failure.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from nri_coloc.cli.daemon_process import DaemonProcess
from nri_coloc.cli.demo_lines import PlainLines, Scene, Show
from nri_coloc.errors import ColocError, SettingsError
from nri_coloc.model import cpuset

STEP_S: Final = 0.05
CONNECT_S: Final = 15.0
SETTLE_S: Final = 3.0
"""Within which decided, read back and written sets must agree: the daemon sweeps every two seconds."""

CHECKS: Final = (5.0, 10.5, 16.5, 24.0)
"""Hours at which everything is compared: after night, morning, noon and evening."""

DONE, FAILED = 0, 1


class DemoFailed(ColocError):
    """The daemon did not do what it says."""


def run(seconds: float, topology: str) -> int:
    """Play a day within `seconds` on the machine called `topology`; returns the exit code."""
    from nri_coloc.node_sim import machines

    if topology not in machines.MACHINES:
        raise SettingsError(f"there is no machine {topology!r}; there are {', '.join(machines.MACHINES)}")
    with _ended_by_signals():
        try:
            return _run(seconds, topology)
        except KeyboardInterrupt:
            print("nri-coloc demo: interrupted; the daemon was ended, nothing is left behind", file=sys.stderr)
        except ColocError as error:
            print(f"nri-coloc demo: {error}", file=sys.stderr)
    return FAILED


def _run(seconds: float, topology: str) -> int:
    from nri_coloc.node_sim.node import Node

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-coloc-")))
        node = stack.enter_context(Node(folder, topology))
        sockets = ["--nri-socket", str(node.nri_socket), "--cri-socket", str(node.cri_socket)]
        daemon = stack.enter_context(
            DaemonProcess(folder, [*sockets, "--host-root", str(node.host_root)])
        )
        demo = Demo(node, daemon, seconds)
        demo.wait_for_connection()
        with _show(topology) as show:
            demo.play(show)
        print(demo.summary())
    return DONE


def _show(topology: str) -> Any:
    if not sys.stdout.isatty():
        return PlainLines(sys.stdout)
    from nri_coloc.cli.demo_screen import Screen

    return Screen(topology)


class Demo:
    """One day: the node it happens on, the daemon that decides, and what was seen of it."""

    def __init__(self, node: Any, daemon: DaemonProcess, seconds: float) -> None:
        from nri_coloc.node_sim.day import HOURS, Day

        self._node = node
        self._daemon = daemon
        self._day = Day(node)
        self._hours_per_second = HOURS / seconds
        self._hours = HOURS
        self._seen = 0
        self._records = 0
        self._began_at = 0.0
        self._compared: list[int] = []

    def wait_for_connection(self) -> None:
        """Wait until the daemon has registered with the runtime and serves HTTP."""
        end = time.monotonic() + CONNECT_S
        while not self._node.runtime.plugins.names or self._daemon.get("/v1/state") is None:
            self._daemon.check()
            if time.monotonic() > end:
                raise DemoFailed(f"the daemon did not connect within {CONNECT_S:g} s")
            time.sleep(STEP_S)

    def play(self, show: Show) -> None:
        """Let the day pass; show everything that the daemon says of it."""
        self._began_at = time.time()
        began = time.monotonic()
        due = list(CHECKS)
        while self._day.hour < self._hours:
            hour = (time.monotonic() - began) * self._hours_per_second
            self._day.advance(hour)
            self._node.tick(time.monotonic())
            self._show_news(show)
            while due and due[0] <= self._day.hour:
                due.pop(0)
                self._compare(show)
            time.sleep(STEP_S)

    def summary(self) -> str:
        """Return what was seen and checked, in a few lines."""
        times = ", ".join(map(str, self._compared))
        return (
            f"\nA day with {self._records} audit records. Compared {len(self._compared)} times: "
            f"{times} containers, each with the CPUs in its cgroup's files that the daemon reports;\n"
            "no CPU of a dedicated container was open to another one.\n"
            f"Check passed: {sum(self._compared)} pins, 0 differences."
        )

    # ---- what the daemon says ----

    def _show_news(self, show: Show) -> None:
        state = self._state()
        answer = self._daemon.get(f"/v1/audit?since={self._seen}&limit=1000") or {}
        records = answer.get("records", [])
        self._seen = answer.get("next", self._seen)
        self._records += len(records)
        show.news(Scene(self._day.hour, self._began_at, self._hours_per_second, state), records)

    def _state(self) -> dict[str, Any]:
        state = self._daemon.get("/v1/state")
        if state is None:
            raise DemoFailed("the daemon has stopped serving HTTP")
        return state

    # ---- whether it is true ----

    def _compare(self, show: Show) -> None:
        """Compare the daemon's report with the files until they agree, within bounds."""
        end = time.monotonic() + SETTLE_S
        while True:
            state = self._state()
            wrong = list(differences(self._node, state["containers"]))
            if not wrong:
                self._compared.append(len(state["containers"]))
                return
            if time.monotonic() > end:
                raise DemoFailed("the daemon's report and the cgroup files differ: " + "; ".join(wrong))
            self._show_news(show)
            time.sleep(STEP_S)


def differences(node: Any, reported: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each container whose files say something else than the daemon."""
    if {one["id"] for one in reported} != set(node.runtime.containers):
        yield f"{len(reported)} containers are reported, {len(node.runtime.containers)} exist"
        return
    files = {one["id"]: node.cpus(one["id"]) for one in reported}
    for one in reported:
        name, found = f"{one['namespace']}/{one['pod']}/{one['container']}", files[one["id"]]
        for kind in ("cpus", "actual_cpus"):
            if cpuset.parse(one[kind]) != found:
                yield f"{name}: {kind} {one[kind] or 'none'}, the files have {cpuset.render(found)}"
        if one["exclusive"]:
            pod = node.runtime.containers[one["id"]].pod.id
            strangers = (k for k in files if node.runtime.containers[k].pod.id != pod)
            if any(files[stranger] & found for stranger in strangers):
                yield f"{name}: another pod may run on its CPUs {cpuset.render(found)}"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP clean up as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    former = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
