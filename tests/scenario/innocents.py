"""Three hours of pods that hurt no other pod, a second at a time.

The noise is seeded. Its form is that of pods on a real node: demand and latency drift, single seconds scatter, the disk
is slow for some seconds every few minutes (a commit of the journal, the flash's own cleaning), other programs use the
CPUs in bursts. Reclaimed pods read steadily, in bursts and in phases, and come and go, independently of all that.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from math import exp

from nri_coloc.pressure.judging import Judged, Verdict
from tests.unit.pressure.kit import MIB, Bench, Doing

HOURS_S = 3 * 3600
REQUEST = 16 * 1024


def drift(draw: random.Random, width: float) -> Iterator[float]:
    """Yield factors that wander around 1 in minutes and scatter in seconds, each by this width."""
    slow = 0.0
    while True:
        slow = 0.99 * slow + draw.gauss(0, 0.14 * width)
        yield exp(slow + draw.gauss(0, width))


def episodes(draw: random.Random, every_s: float, longest_s: int, most: float) -> Iterator[float]:
    """Yield 1, and for a few seconds every few minutes a factor up to `most`."""
    while True:
        for _ in range(int(draw.expovariate(1 / every_s))):
            yield 1.0
        factor = draw.uniform(1.5, most)
        for _ in range(draw.randint(1, longest_s)):
            yield factor


def online(draw: random.Random, latency_s: float, share: float) -> Iterator[Doing]:
    """Yield an online pod's seconds: it waits for the disk for about this share of the time."""
    demand, scatter, disk = drift(draw, 0.3), drift(draw, 0.4), episodes(draw, 300, 3, 8.0)
    cpu, others = drift(draw, 0.3), episodes(draw, 300, 4, 10.0)
    reclaim = episodes(draw, 600, 3, 9.0)
    while True:
        each = latency_s * next(scatter) * next(disk)
        operations = min(share / latency_s * next(demand), 0.98 / each)
        yield Doing(
            cpu=(80 + 400 * share) * next(cpu),
            cpu_stall=min(1.0, 0.02 * next(others) * next(cpu)),
            memory_stall=0.01 * (next(reclaim) - 1),
            io_stall=min(1.0, operations * each),
            read=operations * REQUEST,
            operations=operations,
        )


def steady(draw: random.Random) -> Iterator[Doing]:
    """Yield a pod that uses as much as it gets."""
    use = drift(draw, 0.2)
    while True:
        yield _busy(next(use))


def bursts(draw: random.Random) -> Iterator[Doing]:
    """Yield a pod that works for some seconds a minute."""
    while True:
        yield from (Doing() for _ in range(int(draw.expovariate(1 / 20))))
        yield from (_busy(1.0) for _ in range(draw.randint(1, 8)))


def phases(draw: random.Random) -> Iterator[Doing]:
    """Yield a pod that computes and loads its data for minutes each."""
    while True:
        yield from (_busy(0.05) for _ in range(draw.randint(60, 400)))
        yield from (_busy(draw.uniform(0.8, 1.2)) for _ in range(draw.randint(30, 200)))


def _busy(part: float) -> Doing:
    return Doing(cpu=1500 * part, read=80 * MIB * part, operations=1280 * part, grows=5.0 * MIB * part)


INNOCENTS: dict[str, Callable[[random.Random], Iterator[Doing]]] = {
    "steady": steady,
    "bursts": bursts,
    "phases": phases,
}
DISKS = {"hdd": 0.008, "ssd": 0.0001, "nvme": 0.00002}

Second = tuple[dict[str, Doing], dict[str, Doing]]
"""The loads of online and of reclaimed pods in one second."""


def hours(seed: int, latency_s: float) -> Iterator[Second]:
    """Yield three hours: a pod that seldom waits for the disk, one that nearly always does, and reclaimed pods."""
    draw = random.Random(seed)
    pods = {"seldom": online(draw, latency_s, 0.05), "always": online(draw, latency_s, 0.9)}
    batch = {name: kind(draw) for name, kind in INNOCENTS.items()}
    job = ""
    for second in range(HOURS_S):
        if second % 240 == 0:  # a job of four minutes follows the other
            batch.pop(job, None)
            job = f"job{second}"
            batch[job] = steady(draw)
        yield playing(pods), playing(batch)


def playing(pods: dict[str, Iterator[Doing]]) -> dict[str, Doing]:
    """Return the next second of some pods."""
    return {name: next(one) for name, one in pods.items()}


def turns(node: Bench, seconds: Iterable[Second]) -> Iterator[tuple[int, Judged]]:
    """Yield each turn with its second. As in the daemon, a turn of 0.25 s follows a first hurt turn."""
    turns_s: tuple[float, ...] = (1.0,)
    for second, now in enumerate(seconds):
        for lasts_s in turns_s:
            judged = node.second(*now, lasts_s=lasts_s)
            yield second, judged
        turns_s = (0.25, 0.75) if len(turns_s) == 1 and judged.has_newly_hurt else (1.0,)


def begun(judged: Judged, verdict: Verdict) -> int:
    """Return the number of the turn in which the hurt of a verdict began."""
    present = judged.watch[verdict.victim].felt[verdict.resource].feeling.present
    return judged.turn - present.bit_length()
