"""Draw the demo's day as `docs/demo.svg`: `python -m benchmarks.demo_picture [FILE]` (half a minute, no root).

The real daemon decides on the simulated node. Every cell of the picture is the report of its `/v1/state` in that
quarter of an hour, so two runs differ by a quarter of an hour at most.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from nri_coloc.cli.daemon_process import DaemonProcess
from nri_coloc.cli.demo import Demo
from nri_coloc.cli.demo_lines import Record, Scene
from nri_coloc.core import cpuset
from nri_coloc.sim.day import HOURS
from nri_coloc.sim.node import Node

FILE = Path("docs/demo.svg")
MACHINE = "8cpu"
SECONDS = 30.0
QUARTERS = int(HOURS * 4)

LEFT, TOP, QUARTER, ROW, GAP = 64, 74, 9, 20, 4  # pixels
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
HEADING = "A day on eight CPUs: decided by the daemon, on a simulated node"
ONLINE, LENT, OWNED = "#7aa6da", "#4caf72", ("#d9822b", "#8a63c9")


class Cell(NamedTuple):
    """Describe one CPU in one quarter of an hour."""

    owner: str = ""
    """The pod that owns the CPU; empty on a CPU of the pool `share`."""
    lent: bool = False
    """Reclaimed pods may use the CPU."""


class Run(NamedTuple):
    """Describe neighbouring quarters of one CPU that look the same: the first, and the one after the last."""

    cpu: int
    first: int
    end: int
    cell: Cell


class Days:
    """Keep the cells of each quarter of an hour that the demo shows; the last state of a quarter counts."""

    def __init__(self) -> None:
        self.quarters: dict[int, list[Cell]] = {}

    def news(self, scene: Scene, records: Sequence[Record]) -> None:  # noqa: ARG002 - the demo's protocol
        """Keep the state of this moment."""
        self.quarters[min(int(scene.hour * 4), QUARTERS - 1)] = cells(scene.state)


def cells(state: Mapping[str, Any]) -> list[Cell]:
    """Return the cell of each CPU by its number, from the document of `/v1/state`."""
    owners = {
        cpu: f"{one['namespace']}/{one['pod']}"
        for one in state["containers"]
        if one["exclusive"]
        for cpu in cpuset.members(cpuset.parse(one["cpus"]))
    }
    reclaimed = any(one["class"] == "reclaimed" for one in state["containers"])
    lent = set(cpuset.members(cpuset.parse(state["pools"]["reclaim"]["cpus"]))) if reclaimed else set()
    return [
        Cell(owners.get(cpu, ""), cpu in lent) for cpu in cpuset.members(cpuset.parse(state["node"]["cpus"]))
    ]


def runs(quarters: Mapping[int, Sequence[Cell]]) -> Iterator[Run]:
    """Yield the runs of each CPU; a quarter without a state looks like the one before it."""
    moments = sorted(quarters)
    for cpu in range(len(quarters[moments[0]])):
        first, cell = 0, quarters[moments[0]][cpu]
        for moment in moments[1:]:
            if quarters[moment][cpu] != cell:
                yield Run(cpu, first, moment, cell)
                first, cell = moment, quarters[moment][cpu]
        yield Run(cpu, first, QUARTERS, cell)


def drawn(quarters: Mapping[int, Sequence[Cell]]) -> str:
    """Return the picture as SVG."""
    rows = len(next(iter(quarters.values())))
    found = list(runs(quarters))
    owners = sorted({run.cell.owner for run in found if run.cell.owner}, key=lambda o: _first(found, o))
    colours = {owner: OWNED[number % len(OWNED)] for number, owner in enumerate(owners)}
    width, height = LEFT + QUARTERS * QUARTER + 24, TOP + rows * (ROW + GAP) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>',
        "<title>A day of the demo: which pod owns each CPU, and which CPUs are lent</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#fcfcfc" stroke="#ddd"/>',
        f'<text x="{LEFT}" y="26" font-size="15">{HEADING}</text>',
        *_legend(),
        *(line for run in found for line in _bar(run, colours)),
        *(_label(owner, _first(found, owner)) for owner in owners),
        *(_text(LEFT - 10, _y(cpu) + 14, f"CPU {cpu}", "end") for cpu in range(rows)),
        *(
            _text(LEFT + hour * 4 * QUARTER, height - 16, f"{hour:02d}:00", "middle")
            for hour in range(0, 25, 3)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _first(found: Sequence[Run], owner: str) -> Run:
    return next(run for run in found if run.cell.owner == owner)


def _legend() -> Iterator[str]:
    said = (
        (ONLINE, "shared by online pods"),
        (LENT, "lent to offline pods as well"),
        (OWNED[0], "owned by a dedicated pod"),
    )
    for number, (colour, words) in enumerate(said):
        x = LEFT + number * 210
        yield f'<rect x="{x}" y="42" width="14" height="14" fill="{colour}"/>'
        yield _text(x + 20, 54, words, "start")


def _bar(run: Run, colours: Mapping[str, str]) -> Iterator[str]:
    colour = colours.get(run.cell.owner, ONLINE)
    yield _rect(run, 0, ROW, colour)
    if run.cell.lent:
        yield _rect(run, ROW // 2, ROW // 2, LENT)


def _rect(run: Run, below: int, height: int, colour: str) -> str:
    x, width = LEFT + run.first * QUARTER, (run.end - run.first) * QUARTER
    return f'<rect x="{x}" y="{_y(run.cpu) + below}" width="{width}" height="{height}" fill="{colour}"/>'


def _label(owner: str, run: Run) -> str:
    return f'<text x="{LEFT + run.first * QUARTER + 6}" y="{_y(run.cpu) + 14}" fill="#fff">{owner}</text>'


def _text(x: int, y: int, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def _y(cpu: int) -> int:
    return TOP + cpu * (ROW + GAP)


def main() -> None:
    """Play the demo and write the picture."""
    days = Days()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-coloc-")))
        node = stack.enter_context(Node(folder, MACHINE))
        sockets = ["--nri-socket", str(node.nri_socket), "--cri-socket", str(node.cri_socket)]
        daemon = stack.enter_context(DaemonProcess(folder, [*sockets, "--host-root", str(node.host_root)]))
        demo = Demo(node, daemon, SECONDS)
        demo.wait_for_connection()
        demo.play(days)
    file = Path(sys.argv[1]) if sys.argv[1:] else FILE
    file.write_text(drawn(days.quarters))
    print(f"written: {file}")


if __name__ == "__main__":
    main()
