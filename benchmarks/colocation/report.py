"""The summary of all days: a row for each kind of offline work and arrangement, as a table and as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from benchmarks.colocation.curves import Curves
from benchmarks.colocation.offline import KINDS
from benchmarks.colocation.turn import P99, P999, Day, percentile

JSON: Final = Path("build/colocation.json")
HEAD: Final = (
    f"{'':16} {'p50':>7} {'p99':>7} {'p99.9':>7} {'max':>8} ms {'cost µs':>7}   {'x alone p99':>11}  p99.9   node "
    "  offline work a second"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one row; times in milliseconds.

    p99_ratio, p999_ratio: medians over the rounds; each round is divided by the same round alone.
    request_us: the server's CPU time for a request, the median of the rounds.
    """

    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    requests: int
    request_us: float
    node_use: float
    stolen: float
    strangers: float
    done_a_second: float
    unit: str
    p99_ratio: float
    p999_ratio: float


def rows(kind: str, days: dict[str, list[Day]]) -> dict[str, Row]:
    """Return one row for each arrangement, over all rounds of one kind of work.

    Its times are of all rounds together.
    """
    return {name: _row(kind, played, days.get("alone", played)) for name, played in days.items()}


def _row(kind: str, played: list[Day], alone: list[Day]) -> Row:
    took = [nanoseconds for day in played for nanoseconds in day.took]
    unit = KINDS[kind]
    return Row(
        p50_ms=round(percentile(took, 0.5), 3),
        p99_ms=round(percentile(took, P99), 3),
        p999_ms=round(percentile(took, P999), 3),
        max_ms=round(max(took) / 1e6, 3),
        requests=len(took),
        request_us=round(median(day.request_us for day in played), 1),
        node_use=round(fmean(day.node_use for day in played), 4),
        stolen=round(fmean(day.stolen for day in played), 4),
        strangers=round(fmean(day.strangers for day in played), 4),
        done_a_second=round(fmean(day.done_a_second for day in played) * unit.scale, 2),
        unit=unit.unit,
        p99_ratio=round(_ratio(played, alone, P99), 3),
        p999_ratio=round(_ratio(played, alone, P999), 3),
    )


def _ratio(played: list[Day], alone: list[Day], part: float) -> float:
    pairs = zip(played, alone, strict=True)
    return median(percentile(day.took, part) / percentile(other.took, part) for day, other in pairs)


def show(kind: str, found: dict[str, Row]) -> None:
    """Print a table."""
    print(f"\n{kind}{HEAD[len(kind) :]}")
    for name, row in found.items():
        work = f"{row.done_a_second:10.1f} {row.unit}" if row.done_a_second else ""
        print(
            f"{name:16} {row.p50_ms:7.2f} {row.p99_ms:7.2f} {row.p999_ms:7.2f} {row.max_ms:8.2f}    "
            f"{row.request_us:7.0f}   {row.p99_ratio:11.2f} {row.p999_ratio:6.2f} {row.node_use:6.1%} {work}"
        )


def write(
    about: dict[str, Any], kind: str, found: dict[str, Row], over_time: dict[str, Curves]
) -> dict[str, Any]:
    """Write one kind of work into the file, keep the others, and return the whole content."""
    JSON.parent.mkdir(exist_ok=True)
    known: dict[str, Any] = json.loads(JSON.read_text()) if JSON.exists() else {}
    told = {name: {**asdict(row), "over_time": asdict(over_time[name])} for name, row in found.items()}
    known[kind] = {"about": about, **told}
    JSON.write_text(json.dumps(known, indent=1) + "\n")
    return known
