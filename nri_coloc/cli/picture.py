"""Draw the node in a terminal: CPUs by owner, pools, containers, last decisions.

All data comes from the daemon's /v1/state and its audit records. Each CPU has its owner's sign beside its number, and
the legend has the same sign, so no reader needs colours. Only the owners' colours are kept between two pictures.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nri_coloc.cli.demo_lines import Record, subject
from nri_coloc.core.texts import plain
from nri_coloc.service import overview
from nri_coloc.service.overview import Layout, Owner

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
KINDS: Final = {
    "share": "green4",
    "lent": "orange4",
    "reclaim": "grey50",
    "pool": "steel_blue",
    "reserved": "grey23",
    "kubelet": "grey35",
    "none": "grey11",
}


Colour = Callable[[Owner], str]


class Decision(NamedTuple):
    """An audit record on the screen: `at` is the shown time, `cpus` the CPUs that it gives, "" for none."""

    at: str
    record: Record
    cpus: str


class NodePicture:
    """Draws states of one node; an owner keeps its colour between two pictures."""

    def __init__(self) -> None:
        self._colours: dict[str, str] = {}

    def drawn(
        self, state: Mapping[str, Any], decisions: Iterable[Decision], rows: int = sys.maxsize
    ) -> Group:
        """Return the picture of /v1/state and the decisions, with at most `rows` containers."""
        layout = overview.layout(state)
        return Group(
            Panel(
                Group(_Cells(layout, self._colour), Text(), _legend(layout, self._colour)),
                title="CPUs by owner",
                title_align="left",
            ),
            _pools(state),
            self._containers(layout, rows, observes=state["mode"] == "observe"),
            Panel(Group(*map(_line, decisions)), title="last decisions", title_align="left"),
        )

    def _colour(self, owner: Owner) -> str:
        if owner.kind != "dedicated":
            return KINDS[owner.kind]
        return self._colours.setdefault(owner.id, OWNERS[len(self._colours) % len(OWNERS)])

    def _containers(self, layout: Layout, rows: int, *, observes: bool) -> Table:
        heads = ("container", "class", "pool", "CPUs as they would be" if observes else "CPUs", "read back")
        table = Table(*heads, box=None, header_style="dim")
        for row in layout.rows[:rows]:
            name = f"{row.name} ({row.sign})" if row.sign else row.name
            style = "bold yellow" if row.warns else ""
            cpus, back = (Text(plain(text), style) for text in (row.cpus, row.read_back))
            table.add_row(*(Text(plain(text)) for text in (name, row.qos, row.pool)), cpus, back)
        if len(layout.rows) > rows:
            table.add_row(Text(f"and {len(layout.rows) - rows} more, see /v1/state", "dim"))
        return table


class _Cells:
    """Rows of CPUs for each NUMA node. A row has 4, 8, 16… CPUs, by the terminal's width, so that rows line up."""

    def __init__(self, layout: Layout, colour: Colour) -> None:
        self._layout = layout
        self._colour = colour

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        owner_of = self._layout.owner_of
        width = max((len(str(cpu)) for cpu in owner_of), default=1)
        for node, cpus in self._layout.nodes:
            title = f"node {plain(node)}  "
            room = max((options.max_width - len(title)) // (width + 4), 1)
            a_row = 1 << (room.bit_length() - 1)
            for at in range(0, len(cpus), a_row):
                row = Text(title if not at else " " * len(title), no_wrap=True)
                for cpu in cpus[at : at + a_row]:
                    owner = owner_of[cpu]
                    row.append(f" {cpu:>{width}}{owner.sign} ", f"bold white on {self._colour(owner)}")
                    row.append(" ")
                yield row


def _legend(layout: Layout, colour: Colour) -> Group:
    lines = []
    for owner, cpus in layout.legend.items():
        line = Text(f" {owner.sign} ", f"bold white on {colour(owner)}")
        lines.append(line.append(f" {plain(owner.name)}: CPUs {cpus}", "default on default not bold"))
    return Group(*lines)


def _pools(state: Mapping[str, Any]) -> Text:
    line = Text("pools and their containers: ", "dim")
    for name, pool in state["pools"].items():
        line.append(f"{plain(name)} ", "not dim")
        line.append(plain(pool["cpus"] or "none"), "not dim bold")
        line.append(f" ({plain(pool['members'])})   ")
    return line


def _line(decision: Decision) -> Text:
    at, record, cpus = decision
    text = Text(f"{plain(at)} ", "cyan")
    text.append(f"{plain(record['event'])} ", "bold")
    text.append(f"{plain(subject(record))} ")
    text.append(f"{plain(cpus)} " if cpus else "", "bold green")
    text.append(plain(f"{record['reason']}: {record['because']}"), "dim")
    return text
