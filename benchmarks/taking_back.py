"""Pace of an urgent order beside a bare `memory.reclaim`: `python -m benchmarks taking-back`, as root.

Both take 512 MiB of anonymous memory that compresses 3:1 to zram, on the emulated machine with cgroup v2, in
alternating rounds. The pace is the rise of MemAvailable a second.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

from tests.rig import RigError
from tests.vm.machine import Machine
from tests.vm.shapes import SHAPES

GUEST: Final = "benchmarks/taking_back_guest.py::test_pace"
MIB: Final = 1 << 20

Rounds = Sequence[tuple[str, Mapping[str, float]]]
"""Seconds of the whole, seconds of the first bytes, and the rise of MemAvailable, by way."""


def run(words: Sequence[str]) -> None:
    """Boot the machine, play the rounds and print their figures."""
    argparse.ArgumentParser("python -m benchmarks taking-back").parse_args(words)
    machine = Machine(SHAPES["two_sockets"], [GUEST])
    machine.start()
    try:
        record = machine.record(GUEST)
        if not record.passed:
            raise RigError(f"the rounds failed in the machine:\n{record.report}")
        rounds = json.loads((machine.folder / "taking_back.json").read_text())
    finally:
        machine.close()
    for name, found in rounds:
        whole, first, rise = found["seconds"], found["first_s"], found["rise"] / MIB
        print(f"{name:<8}{whole:6.2f} s, the first 256 MiB {first:6.2f} s, MemAvailable +{rise:.0f} MiB")
    pace = _ratio(rounds, lambda found: found["rise"] / found["seconds"])
    print(f"pace of urgent: {pace:.0%} of bare (aim: 80 % or more)")
    first = _ratio(rounds, lambda found: found["first_s"])
    print(f"first 256 MiB of urgent: {first:.2f} times that of bare (aim: 3 or less)")


def _ratio(rounds: Rounds, figure: Callable[[Mapping[str, float]], float]) -> float:
    """Return the median of a figure of urgent rounds, divided by that of bare rounds."""
    urgent, bare = (
        median(figure(found) for name, found in rounds if name == each) for each in ("urgent", "bare")
    )
    return urgent / bare
