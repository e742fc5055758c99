"""`make bench`: every benchmark, or those named on the command line; prints a table, writes build/bench.json.

A number after a name goes to that benchmark: `cost 500`. `side-by-side` (`make bench-hook`), `companions` and
`beside-companion` need programs in Go and run only when they are named; the same holds for `colocation`
(`make bench-colocation`), `disk`, `pressure`, `replay-turns`, `taking-back` and `verdicts`, which take options of
their own.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from benchmarks import (
    beside,
    beside_companion,
    burst,
    companions,
    cost,
    decision,
    disk,
    figures,
    hook,
    pressure,
    pushes,
    real,
    recorded_turns,
    sampling,
    side_by_side,
    starts,
    synchronize,
    taking_back,
    turns,
    verdicts,
)
from benchmarks.colocation import command
from tests.rig import RigError, kubepods

Played = TypeVar("Played")

ALL = {
    "beside": beside.run,
    "burst": burst.run,
    "cost": cost.run,
    "decision": decision.run,
    "hook": hook.run,
    "pushes": pushes.run,
    "real": real.run,
    "sampling": sampling.run,
    "start": starts.run,
    "sync": synchronize.run,
    "turns": turns.run,
}
WITH_OPTIONS: dict[str, Callable[..., None]] = {
    "colocation": command.run,
    "disk": disk.run,
    "pressure": pressure.run,
    "replay-turns": recorded_turns.replay,
    "taking-back": taking_back.run,
    "verdicts": verdicts.run,
}
NEEDS_ROOT = ("burst", "colocation", "disk", "pressure", "pushes", "real", "taking-back")
NAMED: dict[str, Callable[..., dict[str, figures.Figures]]] = {
    **ALL,
    "beside-companion": beside_companion.run,
    "companions": companions.run,
    "side-by-side": side_by_side.run,
}


def main() -> None:
    """Run the benchmarks of the command line."""
    print(figures.machine())
    if os.geteuid() == 0:
        kubepods.take_away_leftover()
    if sys.argv[1:2] and sys.argv[1] in WITH_OPTIONS:
        _with_options(sys.argv[1])
        return
    asked = _asked(sys.argv[1:] or list(ALL))
    unknown = [name for name, _ in asked if name not in NAMED]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join((*NAMED, *WITH_OPTIONS))}")
    for name, numbers in asked:
        if name in NEEDS_ROOT and os.geteuid() != 0:
            print(f"left out: {name}, which needs root")
            continue
        results = played(name, NAMED[name], *numbers)
        figures.show(results)
        figures.write(results)


def _asked(words: list[str]) -> list[tuple[str, list[int]]]:
    """Return the benchmarks that are named, each with the numbers that follow its name."""
    found: list[tuple[str, list[int]]] = []
    for word in words:
        if word.isdigit() and found:
            found[-1][1].append(int(word))
        else:
            found.append((word, []))
    return found


def _with_options(name: str) -> None:
    """Run a benchmark that has options and figures of its own."""
    if name in NEEDS_ROOT and os.geteuid() != 0:
        sys.exit(f"{name}: a real containerd needs root")
    played(name, WITH_OPTIONS[name], sys.argv[2:])


def played(name: str, play: Callable[..., Played], *arguments: object) -> Played:
    """Return the result of a benchmark; end the process if it has no node, or at SIGINT or SIGTERM, after its clean-up.

    Only the first signal counts: another one would stop the clean-up.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return play(*arguments)
    except RigError as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted; everything was taken away again")


def _interrupt(_number: int, _frame: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # programs of the clean-up would inherit SIG_IGN
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
