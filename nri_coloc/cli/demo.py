"""`nri-coloc demo`: a day on a simulated node in half a minute, with the real daemon as its own process.

This process simulates the machine, the kubelet and the runtime; the daemon decides. Everything on the screen comes from
the daemon's /v1/state and /v1/audit over HTTP. Only the check compares these with the files that the daemon writes. If
the daemon ends, the demo fails.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from nri_coloc.cli.daemon_process import DaemonGone, DaemonProcess
from nri_coloc.cli.demo_check import Check
from nri_coloc.cli.demo_lines import PlainLines, Scene, Show
from nri_coloc.cli.streams import OutputRefused
from nri_coloc.errors import ColocError, SettingsError
from nri_coloc.sim import machines
from nri_coloc.sim.day import HOURS, Day
from nri_coloc.sim.node import Node

STEP_S: Final = 0.05
CONNECT_S: Final = 60.0

CHECKS: Final = (5.0, 10.5, 16.5, HOURS)
"""Hours at which all containers are compared: after night, morning, noon and evening."""

DONE, FAILED = 0, 1


def run(seconds: float, topology: str) -> int:
    """Run a day within `seconds` on the machine `topology`; return the exit code."""
    if topology not in machines.MACHINES:
        raise SettingsError(f"there is no machine {topology!r}; there are {', '.join(machines.MACHINES)}")
    with _ended_by_signals():
        try:
            return _run(seconds, topology)
        except KeyboardInterrupt:
            text = "interrupted; the daemon has ended and no file is left behind"
            print(f"nri-coloc demo: {text}", file=sys.stderr)
        except OutputRefused:
            raise  # the reader closed the output, or the disk is full: the caller handles it
        except (
            ColocError,
            OSError,
        ) as error:  # OSError: the disk is full, or a path is too long for a socket
            print(f"nri-coloc demo: {error}", file=sys.stderr)
    return FAILED


def _run(seconds: float, topology: str) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-coloc-")))
        node = stack.enter_context(Node(folder, topology))
        sockets = ["--nri-socket", str(node.nri_socket), "--cri-socket", str(node.cri_socket)]
        arguments = [*sockets, "--host-root", str(node.host_root)]
        daemon = stack.enter_context(DaemonProcess(folder, arguments))
        demo = Demo(node, daemon, seconds)
        demo.wait_for_connection()
        with _show(topology) as show:
            demo.play(show)
        print(f"\n{demo.summary()}")
    return DONE


def _show(topology: str) -> AbstractContextManager[Show]:
    if not sys.stdout.isatty():
        return PlainLines(sys.stdout)
    from nri_coloc.cli.demo_screen import Screen

    return Screen(topology)


class Demo:
    """One day: its node, the daemon that decides, and the records seen so far."""

    def __init__(self, node: Node, daemon: DaemonProcess, seconds: float) -> None:
        self._node = node
        self._daemon = daemon
        self._day = Day(node)
        self._check = Check(node, CHECKS)
        self._hours_per_second = HOURS / seconds
        self._began_at = 0.0
        self._seen = 0
        self._records = 0

    def wait_for_connection(self) -> None:
        """Wait until the daemon has registered with the runtime and serves HTTP."""
        end = time.monotonic() + CONNECT_S
        while not self._node.runtime.plugins.names or self._daemon.get("/v1/state") is None:
            self._daemon.check()
            if time.monotonic() > end:
                raise DaemonGone(f"the daemon did not connect within {CONNECT_S:g} s")
            time.sleep(STEP_S)

    def play(self, show: Show) -> None:
        """Run the day, and show the daemon's state and records."""
        began, self._began_at = time.monotonic(), time.time()
        while self._day.hour < HOURS or self._check.waits:
            self._day.advance((time.monotonic() - began) * self._hours_per_second)
            self._node.tick(time.monotonic())
            state = self._ask("/v1/state")
            self._show_news(show, state)
            self._check.look(self._day.hour, state["containers"])
            time.sleep(STEP_S)
        self._show_news(show, self._ask("/v1/state"))

    def summary(self) -> str:
        """Return the counts and the checks in a few lines."""
        return f"The day is over: {self._records} audit records.\n{self._check.words()}"

    def _show_news(self, show: Show, state: dict[str, Any]) -> None:
        answer = self._ask(f"/v1/audit?since={self._seen}&limit=1000")
        self._seen = answer["next"]
        self._records += len(answer["records"])
        scene = Scene(self._day.hour, self._began_at, self._hours_per_second, state)
        show.news(scene, answer["records"])

    def _ask(self, path: str) -> dict[str, Any]:
        answer = self._daemon.get(path)
        if answer is None:
            raise DaemonGone("the daemon has stopped serving HTTP")
        return answer


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP clean up as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    former = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
