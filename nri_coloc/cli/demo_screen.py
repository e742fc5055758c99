"""The demo in a terminal: the node as coloured cells, pools, containers, and the last decisions.

Drawn anew from the daemon's /v1/state and its newest audit records at each step; nothing is remembered but
those records and which colour an owner got. A colour says whose a CPU is, never how busy it is.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nri_coloc.cli.demo_lines import Record, Scene, clock, placement, printable, subject
from nri_coloc.model import cpuset

SHOWN: Final = 7
"""Decisions on the screen, newest first: what does not fit into the window is the oldest."""

OWNERS: Final = (
    "dodger_blue2",
    "dark_orange3",
    "magenta3",
    "gold3",
    "turquoise4",
    "red3",
    "purple4",
    "hot_pink3",
)
SHARED: Final = "green4"
LENT: Final = "grey50"
RESERVED: Final = "grey23"
NOBODY: Final = "grey11"

QUIET: Final = frozenset({"daemon.start", "runtime.compare"})
"""Events of the daemon's own life, which tell a newcomer nothing about CPUs."""


class Screen:
    """Shows while its `with` block runs; the last picture stays."""

    def __init__(self, machine: str, console: Console | None = None) -> None:
        self._machine = machine
        self._colours: dict[str, str] = {}
        self._last: deque[tuple[str, Record, str]] = deque(maxlen=SHOWN)
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def news(self, scene: Scene, records: Sequence[Record]) -> None:
        """Draw the scene; the records join the list of decisions."""
        for record in records:
            if record["event"] not in QUIET:
                self._last.appendleft((scene.clock(record), record, placement(record, scene.state)))
        self._live.update(self._picture(scene), refresh=True)

    def _picture(self, scene: Scene) -> RenderableType:
        state = scene.state
        return Group(
            self._title(scene),
            Panel(Group(*self._cells(state)), title="which CPU belongs to whom", title_align="left"),
            self._pools(state),
            self._containers(state),
            Panel(Group(*self._decisions()), title="what was decided, and why", title_align="left"),
        )

    def _title(self, scene: Scene) -> RenderableType:
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=24, completed=scene.hour, width=20)
        cpus = scene.state["node"]["cpus"]
        row.add_row(
            Text("nri-coloc", "bold"),
            Text(clock(scene.hour), "bold cyan"),
            bar,
            f"{self._machine}: CPUs {cpus}, mode {scene.state['mode']}",
        )
        return row

    # ---- cells ----

    def _cells(self, state: Mapping[str, Any]) -> Iterator[Text]:
        owners = self._owners(state)
        for node in state["node"]["numa"]:
            row = Text(f"node {node['id']}  ")
            for cpu in cpuset.members(cpuset.parse(node["cpus"])):
                row.append(f" {cpu:>3} ", f"bold white on {owners.get(cpu, ('', NOBODY))[1]}")
                row.append(" ")
            yield row
        legend = Text()
        for name, colour in dict.fromkeys(owners[cpu] for cpu in sorted(owners)):
            legend.append("  ", f"on {colour}")
            legend.append(f" {name}    ")
        yield Text()
        yield legend

    def _owners(self, state: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
        """Return each CPU's owner and colour; the innermost owner wins."""
        pools = {name: cpuset.parse(pool["cpus"]) for name, pool in state["pools"].items()}
        found: dict[int, tuple[str, str]] = {}
        shared = "online pods, lent to batch" if pools["reclaim"] else "online pods"
        layers = [
            (pools["share"] & ~pools["reclaim"], "online pods only", SHARED),
            (pools["share"] & pools["reclaim"], shared, SHARED),
            (pools["reclaim"] & ~pools["share"], "batch pods only", LENT),
            (pools["reserved"], "reserved", RESERVED),
        ]
        for one in state["containers"]:
            if one["exclusive"]:
                name = f"{one['namespace']}/{one['pod']}/{one['container']}"
                layers.append((cpuset.parse(one["cpus"]), printable(name), self._colour(one["id"])))
        for mask, name, colour in layers:
            found.update(dict.fromkeys(cpuset.members(mask), (name, colour)))
        return found

    def _colour(self, container_id: str) -> str:
        return self._colours.setdefault(container_id, OWNERS[len(self._colours) % len(OWNERS)])

    # ---- tables ----

    def _pools(self, state: Mapping[str, Any]) -> Text:
        line = Text("pools   ", "dim")
        for name, pool in state["pools"].items():
            line.append(f"{printable(name)} ", "not dim")
            line.append(f"{pool['cpus'] or '-'}", "not dim bold")
            line.append(f" ({pool['members']})   ")
        return line

    def _containers(self, state: Mapping[str, Any]) -> Table:
        table = Table("container", "class", "CPUs", "read back", box=None, header_style="dim")
        for one in state["containers"]:
            name = printable(f"{one['namespace']}/{one['pod']}/{one['container']}")
            style = self._colour(one["id"]) if one["exclusive"] else ""
            agrees = one["actual_cpus"] == one["cpus"]
            back = Text(one["actual_cpus"] or "-", "green" if agrees else "yellow")
            table.add_row(Text(name, style), one["class"], one["cpus"], back)
        return table

    def _decisions(self) -> Iterator[Text]:
        for at, record, cpus in self._last:
            text = Text(f"{at} ", "cyan")
            text.append(f"{record['event']} ", "bold")
            text.append(f"{printable(subject(record))} ")
            text.append(f"{cpus} " if cpus else "", "bold green")
            text.append(printable(f"{record['reason']}: {record['because']}"), "dim")
            yield text
