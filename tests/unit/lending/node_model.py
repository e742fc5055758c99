"""A small node for the fast loop: online pods with a demand over time, a greedy reclaim pool, coarse counters.

Time is fluid, in steps of 1 ms. Online pods and the system come first, because the reclaim pool has the minimum
weight. They run outside the reclaim pool if there are such CPUs. As in the kernel, only the scheduler's tick updates
the counter of a task that keeps running: on each CPU, readings are up to `tick_s` behind. Ticks come late by up to
4 ms, and one in twenty by 8 ms; this was measured of a 20 ms ticker beside busy loops. One seed decides all draws.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from nri_coloc.core.lending import Change
from nri_coloc.core.readings import SCHEDULER_TICK_S, FastReadings, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.fast_loop import Tick
from tests.unit.lending.fast_kit import Watcher

STEP_S = 0.001
_ROLES: Final = (Role.ONLINE, Role.SYSTEM, Role.BOX, Role.DEDICATED)

Demand = Callable[[float], float]
"""Milli-CPU over time."""


def _none(_: float) -> float:
    return 0.0


def steady(milli: float) -> Demand:
    return lambda _: milli


def jump(before: float, after: float, at: float, lasts: float = 1e9) -> Demand:
    return lambda t: after if at <= t < at + lasts else before


class Moment(NamedTuple):
    at: float
    cpus: int
    change: Change
    tick: Tick


@dataclass
class Node:
    """A node in time; a new size of its reclaim pool, `box`, is applied as soon as it is decided.

    members: whether reclaimed pods exist.
    noise: largest deviation of a 5 ms stretch's demand from its mean, as a part of it, for one CPU; for n CPUs it is
        sqrt(n) times smaller.
    stall: part of the time that online pods wait while the reclaim pool is larger than its floor.
    own_stall: part of the time that they wait whatever its size, as threads that a pod binds to one CPU do.
    always_late: seconds that are added to the lateness of every tick.
    apart: use of online pods on the `other_cpus` CPUs that are not lendable.
    """

    cpus: int
    online: Demand
    system: Demand = field(default_factory=lambda: steady(20))
    hungry: Demand = field(default_factory=lambda: steady(1e9))
    threads: int = 1
    noise: float = 0.0
    seed: int = 1
    tuning: ReclaimTuning = field(default_factory=ReclaimTuning)
    stall: Demand = field(default_factory=lambda: steady(0))
    own_stall: Demand = field(default_factory=lambda: steady(0))
    members: bool = True
    always_late: float = 0.0
    yields: bool = False
    apart: Demand = field(default_factory=lambda: steady(0))
    other_cpus: int = 0
    tick_s: float = SCHEDULER_TICK_S

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.now = self.due = self.next_tick = 0.0
        self.box = self.cpus
        self.watcher = Watcher(self.tuning)
        self.used = dict.fromkeys(_ROLES, 0.0)
        self.seen = dict.fromkeys(self.used, 0)
        self.stalled = 0.0
        self.rate = dict.fromkeys(self.used, 0.0)
        self.factor = 1.0
        self.moments: list[Moment] = []

    def run(self, seconds: float) -> "Node":
        """Let time pass, seconds; ticks come when the loop asked for them."""
        end = self.now + seconds
        while self.now < end:
            if self.now >= self.next_tick:
                self.next_tick = self._tick()
            self._advance(min(end, self.next_tick))
        return self

    def _advance(self, until: float) -> None:
        """Let one step pass, and all further steps that begin before `until`; the pool keeps its size meanwhile."""
        now, whole, lent, others = self.now, self.cpus * 1000.0, self.box * 1000.0, self.other_cpus * 1000.0
        stall = self.stall if self.box > self.threads else _none
        of_online, of_system, of_box, of_apart = (self.used[role] for role in _ROLES)
        while True:
            if round(now / STEP_S) % 5 == 0:
                self.factor = 1 + self.noise * self.draw.uniform(-1, 1) / self.cpus**0.5
            system = min(self.system(now), whole)
            online = min(self.online(now) * self.factor, whole - system)
            box = min(lent, whole - system - online, self.hungry(now))
            apart = min(self.apart(now), others)
            of_online += online * STEP_S * 1000
            of_system += system * STEP_S * 1000
            of_box += box * STEP_S * 1000
            of_apart += apart * STEP_S * 1000
            self.stalled += (stall(now) + self.own_stall(now)) * STEP_S * 1e6
            now += STEP_S
            if now >= until:
                break
        self.now = now
        self.used = dict(zip(_ROLES, (of_online, of_system, of_box, of_apart), strict=True))
        self.rate = dict(zip(_ROLES, (online, system, box, apart), strict=True))

    def _read(self, role: Role) -> int:
        """Return the counter, µs, as the kernel last brought it up to date on each CPU where the role runs."""
        running, cpus = self.rate[role] / 1000, self.other_cpus if role is Role.DEDICATED else self.cpus
        behind = sum(
            self.draw.uniform(0, self.tick_s) * 1e6
            for _ in range(cpus)
            if self.draw.random() < running / cpus
        )
        self.seen[role] = max(self.seen[role], int(self.used[role] - behind))
        return self.seen[role]

    def _tick(self) -> float:
        online, system, box, apart = map(self._read, _ROLES)
        samples: tuple[Sample, ...] = (
            Sample(1, Role.PODS, self.now, online + box + apart),
            Sample(2, Role.SYSTEM, self.now, system),
            Sample(
                key=4,
                role=Role.ONLINE,
                at=self.now,
                usage_us=online,
                stalled_us=int(self.stalled),
                throttled_us=0,
            ),
        )
        if self.members:
            samples += (Sample(3, Role.BOX, self.now, box),)
        if self.other_cpus:
            samples += (Sample(5, Role.DEDICATED, self.now, apart),)
        late_s, cpus = self.now - self.due, self.cpus + self.other_cpus
        readings = FastReadings(
            at=self.now,
            samples=samples,
            late_s=late_s,
            lendable=self.cpus,
            threads_per_core=self.threads,
            cpus=cpus,
        )
        self._decide(readings._replace(yields=self.yields, counters_s=self.tick_s))
        late = self.draw.uniform(0, 0.004) if self.draw.random() < 0.95 else 0.008
        self.due = self.now + self.watcher.next_s
        return self.due + late + self.always_late

    def _decide(self, readings: FastReadings) -> None:
        result = self.watcher.take(readings)
        if result is None:
            return
        self.box = result.target.cpus
        self.moments.append(Moment(self.now, self.box, result.target.change, result))

    def copy(self, seed: int) -> "Node":
        """Return a node that goes on from here with draws of its own, and without the past moments."""
        told, self.moments = self.moments, []
        other = deepcopy(self)
        self.moments = told
        other.draw = Random(seed)
        return other

    def turns(self) -> list[float]:
        """Return the times at which the reclaim pool changed from growing to shrinking or back, seconds."""
        changes = [m for m in self.moments[1:] if m.change is not Change.KEEP]
        return [b.at for a, b in pairwise(changes) if a.change is not b.change]

    def box_at(self, second: float) -> int:
        return [m.cpus for m in self.moments if m.at <= second][-1]

    def suppressed_after(self, start: float, cpus: int) -> float:
        """Return the seconds from `start` until the reclaim pool had at most `cpus` CPUs."""
        return next(m.at for m in self.moments if m.at >= start and m.cpus <= cpus) - start

    def busy(self) -> float:
        """Return the part of the node that was used since the start, 0 to 1."""
        return sum(self.used.values()) / 1e6 / (self.cpus * self.now)
