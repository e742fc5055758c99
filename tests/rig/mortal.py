"""One daemon after another on the same folders, each killed at the step that a test names (`mortal_daemon`)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.rig import mortal_daemon
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

DIES_SECONDS: Final = 60


class Mortal:
    """Start one daemon after another on the same folders.

    `daemon`: the one that runs, or that died last.
    `up`: starts a daemon, with the settings of the test.
    """

    def __init__(self, up: Callable[..., Daemon], fate: Path, **setup: Any) -> None:
        self._fate = fate
        self._fate.write_text("")
        self.daemon = up(program=(*mortal_daemon.PROGRAM, str(fate)), **setup)

    @contextmanager
    def killed_at(self, step: str) -> Iterator[None]:
        """Kill the daemon at the step that the block causes; with an empty step it lives on."""
        self._fate.write_text(step)
        yield
        if step:
            wait_until(lambda: self.daemon.is_dead, DIES_SECONDS, f"the daemon to die at {step}")
        self._fate.write_text("")

    def next(self) -> None:
        """Start the next daemon, if the last one has died."""
        if self.daemon.is_dead:
            self.daemon.start()
            self.daemon.wait_synchronised()
