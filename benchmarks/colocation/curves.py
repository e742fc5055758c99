"""A day over time: requests, their p99, the node's use and the CPUs lent, in steps, all rounds together."""

from dataclasses import dataclass
from statistics import fmean

from benchmarks.colocation.turn import P99, Day, Look, percentile

STEPS = 40


@dataclass(frozen=True, slots=True)
class Curves:
    """Hold one value for each step.

    p99_ms: 0 if no request came.
    at_s: a step's middle, in seconds of the day.
    """

    at_s: list[float]
    requests_a_second: list[float]
    p99_ms: list[float]
    node_use: list[float]
    lent_cpus: list[float]


def curves(played: list[Day], seconds: float) -> Curves:
    """Return the curves of some rounds together."""
    width = seconds / STEPS
    took: list[list[int]] = [[] for _ in range(STEPS)]
    for day in played:
        for arrival, nanoseconds in zip(day.arrivals, day.took, strict=True):
            took[min(STEPS - 1, int(arrival / 1e9 / width))].append(nanoseconds)
    ends = [(step * width, (step + 1) * width) for step in range(STEPS)]
    return Curves(
        [round((begin + end) / 2, 3) for begin, end in ends],
        [round(len(part) / width / len(played), 1) for part in took],
        [round(percentile(part, P99), 3) if part else 0.0 for part in took],
        [round(fmean(_use(day.looks, begin, end) for day in played), 4) for begin, end in ends],
        [round(fmean(_near(day.looks, end).lent for day in played), 2) for _, end in ends],
    )


def _use(looks: tuple[Look, ...], begin: float, end: float) -> float:
    """Return the use between the readings nearest to a step's ends.

    They are at least two readings apart, because the kernel counts in steps of 10 ms.
    """
    first, last = _near(looks, begin), _near(looks, end)
    if last.whole - first.whole == 0:
        first = looks[max(0, looks.index(last) - 1)]
        last = looks[min(len(looks) - 1, looks.index(last) + 1)]
    return (last.busy - first.busy) / max(1, last.whole - first.whole)


def _near(looks: tuple[Look, ...], at: float) -> Look:
    return min(looks, key=lambda look: abs(look.at - at))
