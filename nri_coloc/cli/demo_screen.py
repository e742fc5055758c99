"""The demo in a terminal: the node as coloured cells, pools, containers, and the last decisions.

Node and decisions are drawn as in `nri-coloc top`; the demo adds the hour of the simulated day.
"""

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nri_coloc.cli.demo_lines import Record, Scene, clock, placement
from nri_coloc.cli.picture import Decision, NodePicture

SHOWN: Final = 7
"""Decisions on the screen, newest first: if the window is too small, the oldest are cut off."""

QUIET: Final = frozenset({"daemon.start", "runtime.compare"})
"""Events about the daemon itself, which say nothing about CPUs."""


class Screen:
    """A display in the terminal during the `with` block; the last picture stays."""

    def __init__(self, machine: str, console: Console | None = None) -> None:
        self._machine = machine
        self._node = NodePicture()
        self._last: deque[Decision] = deque(maxlen=SHOWN)
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def news(self, scene: Scene, records: Sequence[Record]) -> None:
        """Draw the scene, and add the records to the list of decisions."""
        for record in records:
            if record["event"] not in QUIET:
                self._last.appendleft(Decision(scene.clock(record), record, placement(record)))
        drawn = self._node.drawn(scene.state, self._last)
        self._live.update(Group(self._title(scene), drawn), refresh=True)

    def _title(self, scene: Scene) -> RenderableType:
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=24, completed=scene.hour, width=20)
        cpus = scene.state["node"]["cpus"]
        row.add_row(
            Text("nri-coloc", "bold"),
            Text(clock(scene.hour), "bold cyan"),
            bar,
            f"{self._machine}: CPUs {cpus}, mode {scene.state['mode']}, simulated",
        )
        return row
