"""False verdicts, hurts that are found, and limits, in simulated seconds: `python -m benchmarks verdicts`.

The seconds are drawn from a seed and judged by the pure core, so a run has the same figures on every machine:

- `innocents`: three hours of pods that hurt no other pod, for each seed and disk. Each verdict is false.
- `sudden`, `slow`: a hog after five minutes of innocents. It multiplies the waits of an online pod by three or five
  within a second, or by five within one or two minutes.
- `day`: three hours of innocents, and a hog for 20 s of every 200 s. It multiplies the waits by three to eight.
- `limited`: half an hour of innocents and hogs. They hurt by as much as they read, and the ladder limits them: the time
  for which an online pod waits at least four times as long as usual is the figure that counts.

A hog is found in time if a verdict names it within ten seconds, as long as a case of `python -m benchmarks pressure`.
Limits change nothing but the reads of the hogs of `limited`.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, repeat
from math import inf
from statistics import median
from typing import Final

from nri_coloc.core.settings import RungTuning
from nri_coloc.pressure import ladder
from nri_coloc.pressure.actions import throttle_io
from nri_coloc.pressure.judging import LEAST_RISES, Judged, Verdict
from nri_coloc.pressure.ladder import AT_REST, Accused, Floor, Turn
from nri_coloc.pressure.verdict import Resource
from tests.scenario.innocents import DISKS, HOURS_S, INNOCENTS, Second, begun, hours, online, playing, turns
from tests.unit.pressure.kit import DISK, MIB, Bench, Doing

KINDS: Final = ("busy", "forks", "cache", "anonymous", "disk")
RISES: Final = {"sudden": ((3, 1), (5, 1)), "slow": ((5, 60), (5, 120))}
"""Multiples of the usual wait, and the seconds within which they are reached."""

LEARNS_S: Final = 300
HOLDS_S: Final = 60
IN_TIME_S: Final = 10
EVERY_S: Final = 200
LASTS_S: Final = 20
LIMITED_S: Final = 1800
MOST_WAIT: Final = 0.98
READS: Final = 400.0 * MIB
"""Bytes a second that one hog of `limited` reads without a limit."""

WHOLE: Final = 9.0
"""Multiple of its usual wait that an online pod waits beside such a hog."""

HOGS: Final = ("hog", "other")
WORSE: Final = 4.0
"""Multiple of its usual wait from which an online pod counts as hurt in `limited`."""

FLOORS: Final = {Resource.IO: Floor(throttle_io.LEAST, RungTuning(throttles=True))}


class Limited:
    """A node on which the ladder limits culprits of verdicts on I/O.

    lasted_s: seconds of each limit that is over, by pod.
    """

    def __init__(self) -> None:
        self.node = Bench()
        self.lasted_s: list[tuple[str, float]] = []
        self._ladder = AT_REST
        self._since: dict[str, float] = {}

    def turns(self, seconds: Iterable[Second]) -> Iterator[tuple[int, Judged]]:
        """Yield each turn with its second."""
        for second, judged in turns(self.node, seconds):
            self._climb(judged)
            yield second, judged
        self._end(list(self._since))

    def limited(self, pod_id: str, doing: Doing) -> Doing:
        """Return a pod's second under its limit."""
        one = self._ladder.throttled.get((pod_id, Resource.IO))
        part = 1.0 if one is None or doing.read <= one.limit else one.limit / doing.read
        return replace(doing, read=doing.read * part, operations=doing.operations * part)

    def _climb(self, judged: Judged) -> None:
        disks, throttled = frozenset({DISK}), self._ladder.throttled
        newest = {k: one for k in judged.watch if (one := judged.newest(k)) is not None}
        uses = {k: one.use(Resource.IO, disks) for k, one in newest.items()}
        least = LEAST_RISES[Resource.IO]
        turn = Turn(
            at=self.node.at,
            accused={
                Resource.IO: [
                    Accused(k, one.victim, newest[k].fastest(disks))
                    for one in judged.verdicts
                    if one.resource is Resource.IO
                    for k in culprits(one)
                ]
            },
            hurt=judged.hurt,
            may=judged.watch.keys(),
            gone={k for k, _ in throttled} - judged.watch.keys(),
            idle={
                key
                for key, one in throttled.items()
                if (use := uses.get(key[0])) is not None and one.is_unused(use, least)
            },
        )
        self._ladder, _ = ladder.climb(self._ladder, turn, FLOORS)
        self.node.protected = self._ladder.victims
        now = {k for k, _ in self._ladder.throttled}
        self._end([k for k in self._since if k not in now])
        self._since |= dict.fromkeys(now - self._since.keys(), self.node.at)

    def _end(self, pods: Iterable[str]) -> None:
        self.lasted_s += [(k, self.node.at - self._since.pop(k)) for k in pods]


def culprits(verdict: Verdict) -> list[str]:
    """Return the pods that a verdict names."""
    return [one.pod_id for one in verdict.evidence.culprits]


def hog(kind: str, part: float, grows: float, draw: random.Random) -> Doing:
    """Return a second of a hog; `grows`: part of the largest growth of its memory."""
    if kind == "busy":
        return Doing(cpu=1900 * part)
    if kind == "forks":
        return Doing(cpu=1500 * part * draw.uniform(0.7, 1.3))
    if kind == "cache":
        return Doing(cpu=400 * part, read=300 * MIB * part, operations=1200 * part)
    if kind == "anonymous":
        return Doing(cpu=50 + (400 if grows else 0), grows=150.0 * MIB * grows)
    return Doing(cpu=20 + 100 * part, read=(2 + 200 * part) * MIB, operations=100 + 3000 * part)


def beside(calm: Doing, kind: str, times: float, part: float, draw: random.Random) -> Doing:
    """Return an online pod's second beside a part of a hog that multiplies its wait. Forks hurt every other second."""
    factor = 1 + (times - 1) * part
    if kind == "busy" or (kind == "forks" and draw.random() < 0.5):
        return replace(calm, cpu_stall=min(MOST_WAIT, calm.cpu_stall * factor))
    if kind == "disk":
        return replace(calm, io_stall=min(MOST_WAIT, calm.io_stall * factor))
    if kind == "forks":
        return calm
    more = 0.01 * times * part * draw.lognormvariate(0, 0.4)
    return replace(calm, memory_stall=min(MOST_WAIT, calm.memory_stall + more))


def growth(rises_s: int, second: int) -> float:
    """Return the part of its largest growth by which a hog of 1,200 MiB grows; it takes eight seconds at the least."""
    grows_s = max(8, rises_s)
    return 8 / grows_s if second < grows_s else 0.0


def alone(seed: int, kind: str, times: float, rises_s: int) -> Iterator[Second]:
    """Yield calm minutes, and then a hog beside innocents."""
    draw = random.Random(f"{seed} {kind} {times} {rises_s} plain None")
    pods = {"web": online(draw, DISKS["ssd"], 0.05)}
    innocents = {name: one(draw) for name, one in INNOCENTS.items()}
    for second in range(-LEARNS_S, rises_s + HOLDS_S):
        now, batch = playing(pods), playing(innocents)
        if second >= 0:
            part = min(1.0, (second + 1) / rises_s)
            now = {k: beside(one, kind, times, part, draw) for k, one in now.items()}
            batch["hog"] = hog(kind, part, growth(rises_s, second), draw)
        yield now, batch


def day(seed: int) -> Iterator[Second]:
    """Yield three hours of innocents, in which hogs `hog1`, `hog2` and so on come and go."""
    draw = random.Random(f"day {seed}")
    for second, (pods, batch) in enumerate(hours(seed, DISKS["ssd"])):
        number, into = divmod(second, EVERY_S)
        if not number or into >= LASTS_S:
            yield pods, batch
            continue
        kind = kind_of_day(seed, number)
        if not into:
            times = draw.uniform(3, 8)
        yield (
            {k: beside(one, kind, times, 1.0, draw) for k, one in pods.items()},
            {**batch, f"hog{number}": hog(kind, 1.0, growth(1, into), draw)},
        )


def kind_of_day(seed: int, number: int) -> str:
    """Return the kind of one hog of a day."""
    return KINDS[(number + seed) % len(KINDS)]


Course = Iterator[tuple[tuple[str, ...], tuple[str, ...]]]
"""The online pods that work in a second, and the hogs that read."""


def in_bursts(draw: random.Random) -> Course:
    """Yield a hog that reads for some seconds of each minute."""
    while True:
        yield from repeat((("web",), ("hog",)), draw.randint(5, 20))
        yield from repeat((("web",), ()), draw.randint(10, 40))


def by_turns(draw: random.Random) -> Course:
    """Yield two hogs that read one after the other."""
    for name in cycle(("hog", "other")):
        yield from repeat((("web",), (name,)), draw.randint(5, 20))


def two_victims(draw: random.Random) -> Course:
    """Yield a hog beside two online pods that work one after the other."""
    for name in cycle(("web", "shop")):
        yield from repeat(((name,), ("hog",)), draw.randint(20, 60))


def with_pauses(draw: random.Random) -> Course:
    """Yield a hog beside an online pod that works for some seconds of each minute."""
    while True:
        yield from repeat((("web",), ("hog",)), draw.randint(3, 10))
        yield from repeat(((), ("hog",)), draw.randint(5, 30))


COURSES: Final[dict[str, Callable[[random.Random], Course]]] = {
    "one hog": lambda _: repeat((("web",), ("hog",))),
    "in bursts": in_bursts,
    "two hogs": lambda _: repeat((("web",), ("hog", "other"))),
    "by turns": by_turns,
    "two victims": two_victims,
    "pauses": with_pauses,
}


def limited(node: Limited, course: str, seed: int, reads: list[float]) -> Iterator[Second]:
    """Yield calm minutes, and half an hour beside hogs whose limits hold; add the bytes that they read to `reads`."""
    draw = random.Random(f"{course} {seed}")
    pods = {name: online(draw, DISKS["ssd"], 0.05) for name in ("web", "shop")}
    innocents = {name: one(draw) for name, one in INNOCENTS.items()}
    seconds = COURSES[course](draw)
    hog = Doing(cpu=100, read=READS, operations=READS / (64 << 10))
    for second in range(-LEARNS_S, LIMITED_S):
        now, batch, (work, read) = playing(pods), playing(innocents), next(seconds)
        hogs = {k: node.limited(k, hog if k in read and second >= 0 else Doing()) for k in HOGS}
        reads.append(sum(one.read for one in hogs.values()))
        times = 1 + (WHOLE - 1) * reads[-1] / READS
        waits = {k: replace(one, io_stall=min(MOST_WAIT, one.io_stall * times)) for k, one in now.items()}
        yield {k: one if k in work else Doing(cpu=one.cpu) for k, one in waits.items()}, {**batch, **hogs}


def told_innocents(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the figures of hours without a hurt."""
    runs, resources, lasted_s = list[int](), Counter[str](), list[float]()
    for seed in seeds:
        for latency_s in DISKS.values():
            node, found = Limited(), set[tuple[str, Resource, int]]()
            for _, judged in node.turns(hours(seed, latency_s)):
                found |= {(one.victim, one.resource, begun(judged, one)) for one in judged.verdicts}
            runs.append(len(found))
            resources.update(resource for _, resource, _ in found)
            lasted_s += [span_s for _, span_s in node.lasted_s]
    yield (
        f"{len(runs)} runs of three hours: {sum(runs)} false verdicts, median {median(runs):.0f}, worst {max(runs)}, "
        f"{sum(one > 1 for one in runs)} runs above one ({_counts(resources)})"
    )
    yield f"wrong limits: {len(lasted_s)}, {sum(lasted_s):.0f} s in all, {max(lasted_s, default=0):.0f} s the longest"


def told_hogs(seeds: Sequence[int], rises: str) -> Iterator[str]:
    """Yield the figures of single hogs."""
    found, false = list[tuple[str, float]](), 0
    for seed in seeds:
        for kind in KINDS:
            for times, rises_s in RISES[rises]:
                named = [
                    (second - LEARNS_S, culprits(one))
                    for second, judged in turns(Bench(), alone(seed, kind, times, rises_s))
                    for one in judged.verdicts
                    if second >= LEARNS_S
                ]
                found.append((kind, min((after_s for after_s, pods in named if "hog" in pods), default=inf)))
                false += any("hog" not in pods for _, pods in named)
    yield _found(found)
    yield f"{false} with a verdict that names innocents alone"


def told_days(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the figures of hogs that come and go."""
    found, false = list[tuple[str, float]](), 0
    for seed in seeds:
        named, innocents = dict[str, float](), set[tuple[str, Resource, int]]()
        for second, judged in turns(Bench(), day(seed)):
            for one in judged.verdicts:
                hogs = [k for k in culprits(one) if k.startswith("hog")]
                named = dict.fromkeys(hogs, second % EVERY_S) | named
                innocents |= set() if hogs else {(one.victim, one.resource, begun(judged, one))}
        false += len(innocents)
        numbers = range(1, HOURS_S // EVERY_S)
        found += [(kind_of_day(seed, number), named.get(f"hog{number}", inf)) for number in numbers]
    yield _found(found)
    yield f"{false} hurts with a verdict that names innocents alone"


def told_limits(seeds: Sequence[int], course: str) -> Iterator[str]:
    """Yield the figures of hogs that are limited."""
    hurt_s, reads, lasted_s = list[int](), list[float](), list[float]()
    for seed in seeds:
        node, read = Limited(), list[float]()
        for _ in node.turns(limited(node, course, seed, read)):
            pass
        hurt_s.append(sum(one >= READS / (WHOLE - 1) * (WORSE - 1) for one in read))
        reads.append(sum(read) / LIMITED_S / MIB)
        lasted_s += [span_s for k, span_s in node.lasted_s if k not in HOGS]
    yield (
        f"hurt for {median(hurt_s):.0f} s of {LIMITED_S} s (median; {max(hurt_s)} s the worst), hogs read "
        f"{median(reads):.0f} MiB/s; wrong limits {sum(lasted_s):.0f} s in {len(seeds)} runs"
    )


def _found(found: Sequence[tuple[str, float]]) -> str:
    named = [(kind, after_s) for kind, after_s in found if after_s < inf]
    kinds, of = Counter(kind for kind, _ in named), Counter(kind for kind, _ in found)
    in_time = sum(after_s < IN_TIME_S for _, after_s in named)
    by_kind = ", ".join(f"{kind} {kinds[kind]} of {of[kind]}" for kind in KINDS)
    return f"{len(named)} of {len(found)} found, {in_time} of them in time ({by_kind})"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def run(arguments: Sequence[str]) -> None:
    """Print the figures of each form of seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks verdicts")
    parser.add_argument("--seed", type=int, default=600, help="the first of the seeds (default 600)")
    parser.add_argument("--runs", type=int, default=4, help="seeds (default 4, a minute of CPU)")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.runs)
    forms: dict[str, Iterator[str]] = {
        "innocents": told_innocents(seeds),
        **{rises: told_hogs(seeds, rises) for rises in RISES},
        "day": told_days(seeds),
        **{f"limited, {course}": told_limits(seeds, course) for course in COURSES},
    }
    for name, lines in forms.items():
        for line in lines:
            print(f"{name}: {line}", flush=True)
