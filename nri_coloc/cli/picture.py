"""The node as a terminal draws it: coloured cells, pools, containers, decisions.

Everything is drawn anew from the daemon's /v1/state and its audit records; what is remembered is which colour an owner
got. A colour says whose a CPU is, never how busy it is.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nri_coloc.cli.asking import plain
from nri_coloc.cli.demo_lines import Record, subject
from nri_coloc.model import cpuset

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


class Decision(NamedTuple):
    """An audit record on the screen: `at` as it is shown, `cpus` that it gives, "" for none."""

    at: str
    record: Record
    cpus: str


class NodePicture:
    """Draws states of one node; an owner keeps its colour from one to the next."""

    def __init__(self) -> None:
        self._colours: dict[str, str] = {}

    def drawn(
        self, state: Mapping[str, Any], decisions: Iterable[Decision], rows: int = sys.maxsize
    ) -> Group:
        """Return /v1/state and what was decided, as it is to be printed; of the containers at most `rows`."""
        return Group(
            Panel(Group(*self._cells(state)), title="which CPU belongs to whom", title_align="left"),
            self._pools(state),
            self._containers(state, rows),
            Panel(Group(*map(_line, decisions)), title="what was decided, and why", title_align="left"),
        )

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
                layers.append((cpuset.parse(one["cpus"]), plain(name), self._colour(one["id"])))
        for mask, name, colour in layers:
            found.update(dict.fromkeys(cpuset.members(mask), (name, colour)))
        return found

    def _colour(self, container_id: str) -> str:
        return self._colours.setdefault(container_id, OWNERS[len(self._colours) % len(OWNERS)])

    def _pools(self, state: Mapping[str, Any]) -> Text:
        line = Text("pools   ", "dim")
        for name, pool in state["pools"].items():
            line.append(f"{plain(name)} ", "not dim")
            line.append(f"{pool['cpus'] or '-'}", "not dim bold")
            line.append(f" ({pool['members']})   ")
        return line

    def _containers(self, state: Mapping[str, Any], rows: int) -> Table:
        table = Table("container", "class", "CPUs", "read back", box=None, header_style="dim")
        for one in state["containers"][:rows]:
            name = plain(f"{one['namespace']}/{one['pod']}/{one['container']}")
            style = self._colour(one["id"]) if one["exclusive"] else ""
            agrees = one["actual_cpus"] == one["cpus"]
            back = Text(one["actual_cpus"] or "-", "green" if agrees else "yellow")
            table.add_row(Text(name, style), one["class"], one["cpus"], back)
        if len(state["containers"]) > rows:
            table.add_row(Text(f"and {len(state['containers']) - rows} more: /v1/state has them all", "dim"))
        return table


def _line(decision: Decision) -> Text:
    at, record, cpus = decision
    text = Text(f"{at} ", "cyan")
    text.append(f"{record['event']} ", "bold")
    text.append(f"{plain(subject(record))} ")
    text.append(f"{cpus} " if cpus else "", "bold green")
    text.append(plain(f"{record['reason']}: {record['because']}"), "dim")
    return text
