"""Reads of an online pod beside a reclaimed writer on the same disk: `python -m benchmarks disk`, as root.

On the emulated machine with cgroup v2, in rounds: without the daemon, as a plain kubelet leaves the pods, and with it.
In each half of a round the online pod reads alone first, so the ratios are of neighbours in time. Emulation makes
each read slower and less even: the ratios show the mechanism, not a disk.
"""

import argparse
import json
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from benchmarks.colocation.turn import P99, P999
from tests.rig import RigError
from tests.vm.machine import Machine
from tests.vm.shapes import SHAPES

GUEST: Final = "benchmarks/disk_guest.py::test_round"
KINDS: Final = ("direct", "buffered")
WAYS: Final = ("plain kubelet", "nri-coloc")
PARTS: Final = {"p50": 0.5, "p99": P99, "p99.9": P999}

Half = dict[str, Any]
"""One half of a round: seconds of each read `alone` and `beside`, and the writer's MiB a second, `written`."""


def run(words: Sequence[str]) -> None:
    """Boot the machine, play the rounds and print their figures."""
    parser = argparse.ArgumentParser("python -m benchmarks disk")
    parser.add_argument("--rounds", type=int, default=8, choices=range(1, 9), metavar="1-8")
    rounds = parser.parse_args(words).rounds
    scenarios = [f"{GUEST}[{kind}-{number}]" for number in range(rounds) for kind in KINDS]
    machine = Machine(SHAPES["two_sockets"], scenarios)
    machine.start()
    try:
        for scenario in scenarios:
            record = machine.record(scenario)
            if not record.passed:
                raise RigError(f"a round failed in the machine:\n{record.report}")
        lines = (machine.folder / "disk.json").read_text().splitlines()
    finally:
        machine.close()
    played = [json.loads(line) for line in lines]
    for kind in KINDS:
        for way in WAYS:
            _show(f"{kind} writer, {way}", [one[way] for one in played if one["kind"] == kind])


def _show(title: str, halves: Sequence[Half]) -> None:
    """Print the medians of some rounds."""
    figures = [
        f"{name} {_middle(halves, part):5.1f} ms, {_ratio(halves, part):5.2f} x alone"
        for name, part in PARTS.items()
    ]
    written = median(half["written"] for half in halves)
    print(f"{title:<32}{'   '.join(figures)}   writer {written:.1f} MiB/s   rounds {len(halves)}")


def _middle(halves: Sequence[Half], part: float) -> float:
    return median(_at(half["beside"], part) for half in halves) * 1000


def _ratio(halves: Sequence[Half], part: float) -> float:
    return median(_at(half["beside"], part) / _at(half["alone"], part) for half in halves)


def _at(taken: Sequence[float], part: float) -> float:
    return sorted(taken)[min(len(taken) - 1, int(part * len(taken)))]
