"""Readings of the fast loop in a few words: their counters go on from tick to tick."""

from collections.abc import Mapping
from typing import Any

from nri_coloc.core.readings import FastReadings, Look, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import fast_loop
from nri_coloc.lending.fast_loop import Glance, LoopMemory, Tick, tick
from nri_coloc.lending.gauges import BOXED, LEFT, REST, SUMMED

KEYS = {role: number for number, role in enumerate(Role, 1)}


READ_AFTER_S = 20e-6
"""Seconds from the beginning of a tick to the reading of the clock."""


def look_of(readings: FastReadings) -> Look | None:
    """Return the sums of these readings; None if they are not of one moment, or a value is missing."""
    summed = [sample for sample in readings.samples if sample.role in SUMMED]
    if not summed or any(sample.usage_us is None or sample.at != summed[0].at for sample in summed):
        return None
    signs = LEFT, REST, dict.fromkeys(BOXED, 1)
    left, system, box = (sum(by.get(s.role, 0) * (s.usage_us or 0) for s in summed) for by in signs)
    online = tuple(sample for sample in readings.samples if sample.role is Role.ONLINE)
    return Look(summed[0].at + READ_AFTER_S, left, system, box, online=online)


class Watcher:
    """The loop as the daemon runs it: readings that need no decision are skipped.

    next_s: seconds until the next readings.
    """

    def __init__(self, tuning: ReclaimTuning) -> None:
        self.tuning = tuning
        self.memory = LoopMemory()
        self.glance: Glance | None = None
        self.next_s = 0.0
        self.passed = 0
        self._looked: tuple[Sample, ...] = ()

    def retune(self, tuning: ReclaimTuning) -> None:
        """Use other settings from now on, as the daemon does: the next readings are decided about."""
        self.memory = fast_loop.caught_up(self.glance, self.memory)
        self.tuning, self.glance = tuning, None

    def take(self, readings: FastReadings) -> Tick | None:
        """Return the decision about these readings, None if they were skipped."""
        look = look_of(readings) if _summed(self._looked) == _summed(readings.samples) else None
        decided = None if self._passes_over(look, readings.late_s) else self.decided(readings)
        if decided is not None:
            self.glance = fast_loop.glance_after(decided, readings, look, self.tuning)
            self.memory, self.next_s = decided.memory, decided.next_s
        self._looked = readings.samples
        return decided

    def decided(self, readings: FastReadings) -> Tick:
        """Return the decision that these readings would get now."""
        readings = readings._replace(samples=(*self._looked, *readings.samples))
        return tick(fast_loop.caught_up(self.glance, self.memory), readings, self.tuning, readings.at)

    def _passes_over(self, look: Look | None, late_s: float) -> bool:
        if look is None or self.glance is None:
            return False
        passed = fast_loop.passed_over(self.glance, look, late_s)
        if passed is not None:
            self.glance, self.next_s, self.passed = passed, passed.next_s, self.passed + 1
        return passed is not None


def _summed(samples: tuple[Sample, ...]) -> set[int]:
    return {sample.key for sample in samples if sample.role in SUMMED}


class Feed:
    """Exact counters.

    rates: milli-CPU by role; PODS is the sum of all roles below kubepods.
    """

    def __init__(self, lendable: int = 8, threads: int = 1, tuning: ReclaimTuning | None = None) -> None:
        self.lendable, self.threads, self.cpus = lendable, threads, 2 * lendable
        self.tuning = tuning or ReclaimTuning()
        self.now = 100.0
        self.usage = dict.fromkeys((Role.PODS, Role.SYSTEM, Role.BOX), 1_000_000)
        self.stalled = self.throttled = 0
        self.memory = LoopMemory()

    def read(self, seconds: float, rates: Mapping[Role, int] | None = None, **more: Any) -> FastReadings:
        """Let `seconds` pass at these rates and read everything."""
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
        """Tick after `seconds` with this use, milli-CPU, and a system that uses 100."""
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
        """Return the next sample of an online group that waits and is throttled for these parts of `seconds`."""
        self.stalled += round(share * seconds * 1e6)
        self.throttled += round(throttled * seconds * 1e6)
        usage = self.usage.get(Role.ONLINE, 0)
        return Sample(
            key=99,
            role=Role.ONLINE,
            at=self.now + seconds,
            usage_us=usage,
            stalled_us=self.stalled,
            throttled_us=self.throttled,
            **more,
        )
