"""`nri-coloc top` in a terminal runs until a key or a signal ends it, and leaves the terminal as it was."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from tests.rig.waiting import PATIENCE_SECONDS
from tests.unit.cli.test_top import Daemon

WAIT_S = PATIENCE_SECONDS


class Terminal:
    """Run the program in a terminal of its own; its output is kept."""

    def __init__(self, address: str) -> None:
        self.keys, self._screen = pty.openpty()
        self.before = termios.tcgetattr(self._screen)
        command = [sys.executable, "-m", "nri_coloc", "top", "--http", address]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            command, stdin=self._screen, stdout=self._screen, env=environment, start_new_session=True
        )
        self.written = b""

    def shows(self, text: bytes) -> bool:
        """Wait until the program has written a text since the last call."""
        end = time.monotonic() + WAIT_S
        while text not in self.written and time.monotonic() < end:
            if select.select([self.keys], [], [], 0.1)[0]:
                self.written += os.read(self.keys, 1 << 16)
        found, self.written = text in self.written, b""
        return found

    def ends(self) -> int:
        """Return the exit code when it ends; its output is read meanwhile, because a full terminal would block it."""
        end = time.monotonic() + WAIT_S
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.keys], [], [], 0.1)[0]:
                os.read(self.keys, 1 << 16)
        return self.process.wait(WAIT_S)

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._screen)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.keys)
        os.close(self._screen)


@pytest.fixture
def daemon():
    served = Daemon()
    yield served
    served.silence()


@pytest.fixture
def terminal(daemon):
    opened = Terminal(daemon.address)
    yield opened
    opened.close()


def test_q_ends_it_and_the_terminal_is_as_it_was(terminal):
    assert terminal.shows(b"CPUs by owner")
    os.write(terminal.keys, b"q")
    assert terminal.ends() == 0
    assert terminal.attributes() == terminal.before


def test_it_draws_anew_by_itself(terminal, daemon):
    assert terminal.shows(b"decision 1")
    daemon.view.records.append(daemon.view.record(2))
    assert terminal.shows(b"decision 2")


def test_ctrl_c_is_a_way_to_leave(terminal):
    assert terminal.shows(b"CPUs by owner")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ends() == 0
    assert terminal.attributes() == terminal.before
