"""Three hours of pods that hurt no other pod, a second at a time: noise makes one verdict at most, on any disk.

The noise is seeded. Its form is that of pods on a real node: demand and latency drift, single seconds scatter, the disk
is slow for some seconds every few minutes (a commit of the journal, the flash's own cleaning), other programs use the
CPUs in bursts. Reclaimed pods read steadily, in bursts and in phases, and come and go, independently of all that. As in
the daemon, a first hurt turn is followed by a turn of a quarter of a second.

Of 36 runs (seeds 600 to 611, three disks) two have two verdicts, and the mean is 0.5. The disks of one seed share all
draws but the waits for the disk, so a verdict on CPU or memory comes on each of them.
"""

import random
from collections.abc import Callable, Iterator
from math import exp

import pytest

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


def verdicts(seed: int, latency_s: float) -> set[tuple[str, str, int]]:
    """Return the hurts of three hours that have a verdict: victim, resource, and the turn in which the hurt began."""
    draw = random.Random(seed)
    node = Bench()
    pods = {"seldom": online(draw, latency_s, 0.05), "always": online(draw, latency_s, 0.9)}
    batch = {name: kind(draw) for name, kind in INNOCENTS.items()}
    job, found = "", set[tuple[str, str, int]]()
    turns_s: tuple[float, ...] = (1.0,)
    for second in range(HOURS_S):
        if second % 240 == 0:  # a job of four minutes follows the other
            batch.pop(job, None)
            job = f"job{second}"
            batch[job] = steady(draw)
        now = [{name: next(one) for name, one in some.items()} for some in (pods, batch)]
        for lasts_s in turns_s:
            judged = node.second(*now, lasts_s=lasts_s)
            found |= {(one.victim, one.resource.value, begun(judged, one)) for one in judged.verdicts}
        turns_s = (0.25, 0.75) if len(turns_s) == 1 and judged.has_newly_hurt else (1.0,)
    return found


def begun(judged: Judged, verdict: Verdict) -> int:
    """Return the number of the turn in which the hurt of a verdict began."""
    present = judged.watch[verdict.victim].felt[verdict.resource].feeling.present
    return judged.turn - present.bit_length()


@pytest.mark.parametrize(
    "latency_s",
    [
        pytest.param(DISKS["hdd"], marks=pytest.mark.tier("test")),
        DISKS["ssd"],
        pytest.param(DISKS["nvme"], marks=pytest.mark.tier("test")),
    ],
    ids=DISKS,
)
def test_innocents_of_this_seed_have_one_verdict_at_most(latency_s: float):
    assert len(verdicts(0, latency_s)) <= 1
