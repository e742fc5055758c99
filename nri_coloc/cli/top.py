"""`nri-coloc top`: CPUs by owner, lent CPUs and decisions, as they happen.

It queries the running daemon once an interval and draws the answers; it measures nothing. Without a terminal it prints
one picture without colours.
"""

import os
import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from nri_coloc.cli import asking
from nri_coloc.cli.demo_lines import placement
from nri_coloc.cli.picture import Decision, NodePicture
from nri_coloc.core.texts import plain
from nri_coloc.service import overview

SHOWN: Final = 10
"""Decisions on the screen, newest first."""

PLAIN_WIDTH: Final = 160
"""Columns if there is no terminal."""


class Answers(NamedTuple):
    """The daemon's answers of one moment."""

    state: Mapping[str, Any]
    capacity: Mapping[str, Any]
    readiness: Mapping[str, Any]


def run(address: str, interval_s: float) -> int:
    """Show until `q` or Ctrl-C; raise DaemonSilent if the daemon does not answer at the start."""
    terminal = sys.stdout.isatty()
    # FORCE_COLOR and similar variables would make a pipe a terminal, in which no key could end the program
    console = Console(force_terminal=terminal, width=None if terminal else PLAIN_WIDTH)
    draws = terminal and not console.is_dumb_terminal
    top = Top(address, console.height // 3 if draws else sys.maxsize)
    top.look()
    if not draws:
        console.print(top.drawn())
        return 0
    with suppress(KeyboardInterrupt):  # Ctrl-C is one of the ways to end a program that only shows
        _watch(top, console, interval_s)
    return 0


def _watch(top: "Top", console: Console, interval_s: float) -> None:
    with _keys() as typed, Live(top.drawn(), console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while b"q" not in typed(interval_s).lower():
            top.look_again()
            live.update(top.drawn(), refresh=True)


class Top:
    """The last answers of a daemon, and its last decisions."""

    def __init__(self, address: str, rows: int = sys.maxsize) -> None:
        self._address = address
        self._rows = rows
        self._node = NodePicture()
        self._last: deque[Decision] = deque(maxlen=SHOWN)
        self._seen = 0
        self._silent = ""
        self._answers = Answers({}, {}, {})
        self._answered_at = datetime.now(UTC)

    def look(self) -> None:
        """Query the daemon; raise DaemonSilent if it does not answer, or if its answer is not valid."""
        ask = asking.ask
        self._answers = Answers(
            ask(self._address, "/v1/state"), ask(self._address, "/v1/capacity"), ask(self._address, "/readyz")
        )
        self._answered_at = datetime.now(UTC)
        try:
            for record in asking.records(self._address, since=self._seen):
                at = datetime.fromisoformat(record["ts"]).astimezone()
                self._last.appendleft(Decision(f"{at:%H:%M:%S}", record, placement(record)))
                self._seen = record["seq"]
            self.drawn()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise asking.stranger(self._address) from error

    def look_again(self) -> None:
        """Query again; without an answer, the last answers stay on the screen, with the reason."""
        try:
            self.look()
            self._silent = ""
        except asking.DaemonSilent as error:
            self._silent = plain(error)

    def drawn(self) -> RenderableType:
        """Return the picture of the last answers."""
        lines = list(self._head())
        if self._silent:
            age = (datetime.now(UTC) - self._answered_at).total_seconds()
            lines.append(Text(f"{self._silent}; the figures are {age:.0f} s old", "bold red"))
        return Group(*lines, self._node.drawn(self._answers.state, self._last, self._rows))

    def _head(self) -> Iterator[Text]:
        state, capacity, readiness = self._answers
        head = overview.head(state, capacity, readiness, self._answered_at)
        title = Text("nri-coloc ", "bold").append(f"CPUs {state['node']['cpus']}, ", "not bold")
        yield title.append(head.status, "not bold" if head.is_ready else "bold yellow")
        yield from (Text(plain(problem), "bold yellow") for problem in head.problems)
        yield from (Text(plain(fact)) for fact in head.facts)
        yield from (Text(plain(warning), "bold yellow") for warning in head.warnings)


@contextmanager
def _keys() -> Iterator[Callable[[float], bytes]]:
    """Read keys without Enter; yield a function that waits some seconds and returns the typed bytes."""
    if not sys.stdin.isatty():
        yield lambda seconds: _typed_within(seconds, [])
        return
    former = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # input that was typed before still counts
    try:
        yield lambda seconds: _typed_within(seconds, [sys.stdin.fileno()])
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, former)


def _typed_within(seconds: float, descriptors: list[int]) -> bytes:
    ready, _, _ = select.select(descriptors, [], [], seconds)
    return os.read(ready[0], 64) if ready else b""
