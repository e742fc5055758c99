"""Readings of the fast loop in a few words: counters that go on from tick to tick."""

from collections.abc import Mapping
from typing import Any

from nri_coloc.model.readings import FastReadings, Role, Sample
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.loop import LoopMemory, Tick, tick

KEYS = {role: number for number, role in enumerate(Role, 1)}


class Feed:
    """Exact counters. `rates` are milli-CPU by role; PODS is the sum of what lies in it."""

    def __init__(self, lendable: int = 8, threads: int = 1, tuning: ReclaimTuning | None = None) -> None:
        self.lendable, self.threads, self.cpus = lendable, threads, 2 * lendable
        self.tuning = tuning or ReclaimTuning()
        self.now = 100.0
        self.usage = dict.fromkeys((Role.PODS, Role.SYSTEM, Role.BOX), 1_000_000)
        self.stalled = self.throttled = 0
        self.memory = LoopMemory()

    def read(self, seconds: float, rates: Mapping[Role, int] | None = None, **more: Any) -> FastReadings:
        """Let time pass at these rates and read everything."""
        self.now += seconds
        for role, milli in (rates or {}).items():
            self.usage[role] = self.usage.get(role, 0) + round(milli * seconds * 1000)
        samples = [Sample(KEYS[role], role, self.now, usage) for role, usage in self.usage.items()]
        samples += more.pop("samples", [])
        return FastReadings(
            self.now,
            tuple(samples),
            lendable=self.lendable,
            threads_per_core=self.threads,
            cpus=self.cpus,
            **more,
        )

    def tick(self, online: int = 0, *, box: int = 500, seconds: float = 0.02, **more: Any) -> Tick:
        """Tick after some time with that use, milli-CPU, and a system of 100."""
        rates = {Role.PODS: online + box, Role.SYSTEM: 100, Role.BOX: box}
        return self.give(self.read(seconds, rates, **more))

    def give(self, readings: FastReadings) -> Tick:
        result = tick(self.memory, readings, self.tuning, self.now)
        self.memory = result.memory
        return result

    def ticks(self, count: int, online: int = 0, **more: Any) -> Tick:
        for _ in range(count - 1):
            self.tick(online, **more)
        return self.tick(online, **more)

    def waited(self, share: float, seconds: float = 0.02, throttled: float = 0.0, **more: Any) -> Sample:
        """An online group that waited this part of the next `seconds`, and was throttled that part."""
        self.stalled += round(share * seconds * 1e6)
        self.throttled += round(throttled * seconds * 1e6)
        usage = self.usage.get(Role.ONLINE, 0)
        return Sample(99, Role.ONLINE, self.now + seconds, usage, self.stalled, self.throttled, **more)
