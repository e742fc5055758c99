"""Record the readings of a daemon's turns, and judge them again: `python -m benchmarks replay-turns FILE`.

`python -m benchmarks pressure --record FILE` makes such a file. A replay judges its readings with the rules of this
tree, so it shows what a change of `pressure/verdict.py` or `pressure/culprit.py` does to the same seconds of a machine.

A line is one turn's `Seen` as a JSON list, or an object with the moment at which the bench began a case. This module is
also the recorded daemon: it runs instead of `python -m nri_coloc`, with FILE before the daemon's own arguments.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from nri_coloc.cli import main
from nri_coloc.core.readings import IOReading, StallReading
from nri_coloc.core.settings import PressureTuning, RungTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure import judging
from nri_coloc.pressure.judging import Felt, Judged, Seen, Watch
from nri_coloc.pressure.verdict import Resource

JUDGES_ALL: Final = PressureTuning(cpu=RungTuning(), memory=RungTuning(), io=RungTuning())


class Mark(NamedTuple):
    """The begin of a case of the bench: its name, and the moment (monotonic seconds)."""

    case: str
    at: float


def recorded(record: Seen | Mark) -> str:
    """Return a record as a line."""
    return json.dumps(record._asdict() if isinstance(record, Mark) else record, default=sorted) + "\n"


def mark(path: Path, case: str) -> None:
    """Write the begin of a case, which is now."""
    with path.open("a") as file:
        file.write(recorded(Mark(case, time.monotonic())))


def program(path: Path) -> tuple[str, ...]:
    """Return the recorded daemon, as arguments of Python before the command."""
    return "-m", "benchmarks.recorded_turns", str(path.absolute())


def read(lines: Iterable[str]) -> Iterator[Seen | Mark]:
    """Yield what these lines record."""
    for line in lines:
        record = json.loads(line)
        if isinstance(record, dict):
            yield Mark(**record)
            continue
        turn, online, reclaimed, tolerances, stolen, protected = record
        yield Seen(
            turn=turn,
            online={k: _reading(one) for k, one in online.items()},
            reclaimed={k: _reading(one) for k, one in reclaimed.items()},
            tolerances={k: Tolerance(one) for k, one in tolerances.items()},
            stolen=stolen,
            protected={Resource(k): frozenset(pods) for k, pods in protected.items()},
        )


def replayed(records: Iterable[Seen | Mark], resource: Resource) -> Iterator[str]:
    """Yield a line for each judged reading of an online pod, with the case and its second, and for each verdict."""
    watch: Watch = {}
    case = Mark("", 0.0)
    for record in records:
        if isinstance(record, Mark):
            case = record
            continue
        if record.turn == 1:  # another daemon
            watch = {}
        judged = judging.turn(watch, record, JUDGES_ALL)
        watch = judged.watch
        yield from _told(judged, record, resource, case)


def replay(arguments: Sequence[str]) -> None:
    """Print the judgements of a recorded file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay-turns")
    parser.add_argument("file", type=Path, help="of `python -m benchmarks pressure --record`")
    parser.add_argument("--resource", type=Resource, choices=[*Resource], default=Resource.IO)
    options = parser.parse_args(arguments)
    with options.file.open() as lines:
        for line in replayed(read(lines), options.resource):
            print(line)


def _reading(values: Sequence[Any] | None) -> StallReading | None:
    if values is None:
        return None
    reading = StallReading(*values)
    devices = reading.devices
    if devices is None:
        return reading
    return reading._replace(devices={device: IOReading(*counts) for device, counts in devices.items()})


def _told(judged: Judged, seen: Seen, resource: Resource, case: Mark) -> Iterator[str]:
    for pod_id in seen.tolerances:
        felt, reading = judged.watch[pod_id].felt.get(resource), seen.online[pod_id]
        if felt is not None and reading is not None:
            yield f"{case.case:12} {reading.at - case.at:6.1f} s  {pod_id[:8]}  {_words(felt)}"
    for one in judged.verdicts:
        names = ", ".join(suspect.pod_id[:8] for suspect in one.evidence.culprits)
        yield f"  verdict {one.resource}: {names} (confidence={one.evidence.confidence:.2f})"


def _words(felt: Felt) -> str:
    """Return a judgement in words; waits are shares of the time, for I/O ms for one operation."""
    judgement, strain = felt.judgement, felt.strain
    state: Mapping[bool | None, str] = {True: "HURT", False: "calm", None: "unknown"}
    words = f"{state[judgement.hurt]:7}"
    if strain is None:
        return words
    scale, unit = (1000, "ms") if strain.operations else (100, "%")
    figures = {name: getattr(judgement, name) for name in ("wait", "bound", "baseline", "spread")}
    told = " ".join(
        f"{name}={value * scale:.2f}{unit}" for name, value in figures.items() if value is not None
    )
    return f"{words} stall={strain.stall:.1%} {told} cpu={strain.cpu:.0f}m"


def _record(path: Path, arguments: Sequence[str]) -> int:
    """Run the daemon; write the readings of each turn."""
    judge = judging.turn
    with path.open("a", buffering=1) as file:

        def turn(before: Watch, seen: Seen, tuning: PressureTuning) -> Judged:
            file.write(recorded(seen))
            return judge(before, seen, tuning)

        judging.turn = turn
        return main.main(arguments, os.environ)


if __name__ == "__main__":
    sys.exit(_record(Path(sys.argv[1]), sys.argv[2:]))
