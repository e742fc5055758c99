"""The resources that a process and its children use now, read from the kernel, and how much such figures grow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Vitals:
    """Hold the figures of a whole process tree.

    pss_kib: proportional set size, in KiB.
    anon_kib: its part that is no file, in KiB.
    descriptors: number of open descriptors.
    threads: number of threads.

    Pages of a file that other processes have mapped too count in part, and more when those processes end. So `pss_kib`
    moves with other work on the machine; `anon_kib` is the process's own.
    """

    pss_kib: int
    anon_kib: int
    descriptors: int
    threads: int


def look(pid: int) -> Vitals:
    """Return the sum of a process and all below it; a process that ends meanwhile counts as far as it was read."""
    tree = list(_tree(pid))
    return Vitals(
        sum(_rollup(member, "Pss:") for member in tree),
        sum(_rollup(member, "Pss_Anon:") for member in tree),
        sum(len(_entries(_PROC / str(member) / "fd")) for member in tree),
        sum(len(_entries(_PROC / str(member) / "task")) for member in tree),
    )


def growth(times: Sequence[float], values: Sequence[float]) -> float:
    """Return how much a straight line through the points rises from the first to the last.

    The line's slope is the median of the slopes between all pairs (Theil and Sen). So a few moments in which other work
    had the machine do not tilt it.
    """
    points = list(zip(times, values, strict=True))
    slopes = [(b - y) / (a - x) for (x, y), (a, b) in combinations(points, 2) if a > x]
    if not slopes:
        raise ValueError("a line takes two points at least")
    return median(slopes) * (times[-1] - times[0])


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in _entries(_PROC / str(pid) / "task"):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _rollup(pid: int, name: str) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
