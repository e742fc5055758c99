"""The fast loop: `tick` turns one tick's readings into the size of the reclaim pool and the time of the next tick.

The pool grows only to a size that all recent peaks of use would have allowed. The next tick comes soon while there is
CPU to take back, and late while there is none. Pure; time is an argument.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding, Change, CPUTarget, Headroom
from nri_coloc.core.readings import FastReadings
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import usage
from nri_coloc.lending.pool_size import (
    Grounds,
    Lent,
    Scene,
    Verdict,
    at_most,
    dead_band_milli,
    decide,
    floor_cpus,
)
from nri_coloc.lending.usage import Cause, Gauge, Meter, Stall, Use

BUCKETS = 8
"""Buckets of a window. It moves by an eighth of its length and covers at most a quarter more than its length."""


class Peaks(NamedTuple):
    """The highest use within a moving window; milli-CPU, seconds.

    closed: buckets that have ended, as (end, peak).
    highest: the highest peak of the closed buckets.
    opened_at: start of the open bucket.
    open: peak of the open bucket.
    """

    closed: tuple[tuple[float, int], ...] = ()
    highest: int = 0
    opened_at: float = 0.0
    open: int = 0

    @property
    def peak(self) -> int:
        """Return the highest value of the window, milli-CPU."""
        return max(self.highest, self.open)


def begin(value: int, now: float) -> Peaks:
    """Return a window with this single value."""
    return Peaks(opened_at=now, open=value)


def push(peaks: Peaks, value: int, now: float, window_s: float) -> Peaks:
    """Return the window with one more value, without the buckets that ended before the window begins."""
    if now - peaks.opened_at < window_s / BUCKETS:
        return peaks if value <= peaks.open else peaks._replace(open=value)
    horizon = now - window_s
    closed = tuple(bucket for bucket in (*peaks.closed, (now, peaks.open)) if bucket[0] > horizon)
    return Peaks(closed, max((peak for _, peak in closed), default=0), now, value)


QUIET_MILLI: Final = 20
"""Milli-CPU. Reclaimed pods that use less than this do not delay online pods."""

CLOSER_S: Final = 0.012
"""Seconds to the next tick after a burst.

`usage.judged` subtracts the counters' error. Over this interval most of a full burst remains.
"""


def usual_period(
    verdict: Verdict, scene: Scene, use: Use | None, tuning: ReclaimTuning, mean_took_s: float
) -> float:
    """Return the seconds between two ticks. `mean_took_s`: CPU time of one tick.

    A reclaim pool at its floor cannot shrink. It is watched closely only if it might grow, because growth needs
    readings of short intervals. A large pool whose pods use almost nothing may become busy together with a burst of
    online use. At `rest_tick_s` its CPUs are still taken back in time. The bound on the loop's cost stretches the
    short period up to `tick_max_s`, beyond which CPUs would be taken back too late.
    """
    if use is not None:
        if use.members == 0:
            return tuning.idle_tick_s
        if _nothing_to_do(verdict, scene, tuning):
            return tuning.quiet_tick_s
        if use.box < QUIET_MILLI:
            return tuning.rest_tick_s
    return max(tuning.tick_s, min(mean_took_s / tuning.cost_share, tuning.tick_max_s))


def jump(lendable: int, tuning: ReclaimTuning) -> float:
    """Return the rise of use between two readings that makes the next tick come sooner, milli-CPU.

    Such a rise may be the beginning of a burst: most of the interval that was read lay before it.
    """
    return dead_band_milli(lendable, tuning) / 4


def closer(period_s: float, tuning: ReclaimTuning) -> float:
    """Return the seconds to the next tick after a rise of use. A pool that cannot shrink is read no sooner."""
    return min(period_s, CLOSER_S) if period_s < tuning.quiet_tick_s else period_s


def _nothing_to_do(verdict: Verdict, scene: Scene, tuning: ReclaimTuning) -> bool:
    lent = verdict.lent
    at_floor = lent.box <= floor_cpus(scene.lendable, scene.threads)
    return at_floor and verdict.now_milli < lent.milli + dead_band_milli(scene.lendable, tuning)


_NEVER = float("-inf")


class Rates(NamedTuple):
    """The last rates and their peak; milli-CPU, seconds.

    online, system: use as judged by `usage.judged`.
    rated_at: end of the newest interval of the pods.
    oldest: end of the oldest interval of pods or system.
    peaks: peak of online and system use together.
    known_since: start of the time in which `peaks` has no gap; -inf before the first rate.
    rise: the newest use less the peak before it, at least 0.
    """

    online: int = 0
    system: int = 0
    rated_at: float = _NEVER
    oldest: float = _NEVER
    peaks: Peaks = Peaks()
    known_since: float = _NEVER
    rise: int = 0


class LoopMemory(NamedTuple):
    """The loop's state between two ticks. An empty one is the start. Mappings are never changed in place.

    at: time of the last tick.
    meters, gauges: last counters and rates by sample key, for use and for stalls.
    rates: last rates and their peak.
    lent: the size of the reclaim pool and the state of its control.
    period_s: seconds to the next tick, as the last tick advised.
    pace_s: the same without a rise of use.
    learns_until: until then a pool of the previous process keeps its size if a running cgroup has no rate yet.
    """

    at: float = _NEVER
    meters: Mapping[int, Meter] = MappingProxyType({})
    gauges: Mapping[int, Gauge] = MappingProxyType({})
    rates: Rates = Rates()
    lent: Lent = Lent()
    period_s: float = 0.02
    pace_s: float = 0.02
    learns_until: float = _NEVER


def resumed(cpus: int, now: float, tuning: ReclaimTuning) -> LoopMemory:
    """Return the state of a loop that knows only the size of the previous process's reclaim pool, `cpus`.

    The pool keeps this size until all running pods and the system have been measured. Their use then counts as if it
    had never been lower, and CPUs beyond the headroom are taken back at once. After `stale_s` the rates measured by
    then decide. Without any rate the pool gets its floor.
    """
    return LoopMemory(lent=Lent(1000 * cpus, cpus), learns_until=now + tuning.stale_s)


def learns(memory: LoopMemory, now: float) -> bool:
    """Return whether the reclaim pool keeps the size found at the start, because not all use has been measured."""
    return memory.rates.known_since == _NEVER and now < memory.learns_until


class Tick(NamedTuple):
    """One tick's result.

    memory: state for the next tick.
    target: size of the reclaim pool.
    headroom: CPU that may be lent now.
    next_s: seconds to the next tick.
    stall: the worst stall of the groups just read.
    grounds: input of `records.because`; None while lending is disabled.
    """

    memory: LoopMemory
    target: CPUTarget
    headroom: Headroom
    next_s: float
    stall: Stall = Stall()
    grounds: Grounds | None = None


def tick(memory: LoopMemory, readings: FastReadings, tuning: ReclaimTuning, now: float) -> Tick:
    """Return the size of the reclaim pool for these readings.

    `now` and all times in `readings` are seconds of one clock. After a clock that went back, the loop starts again at
    the floor.
    """
    if not tuning.enabled:
        return _disabled(readings, tuning, now)
    if now < memory.at:
        memory = LoopMemory(lent=Lent(cpus=memory.lent.box))
    meters = usage.advance(memory.meters, readings, tuning.stale_s)
    rates = memory.rates
    is_known = not learns(memory, now) or usage.knows_box(meters, readings)
    use = usage.total(meters, readings.at) if is_known else None
    if use is not None and use.rated_at > rates.rated_at:
        rates = _learnt(memory, use, readings, tuning, now)
    box_milli = use.box if use else 0
    windows_s = tuning.stall_window_s, tuning.lasting_window_s
    own = usage.explained(rates.online + rates.system, readings.lendable)
    gauges, stall = usage.advance_gauges(memory.gauges, readings, Cause(box_milli, own), windows_s)
    scene = _scene(memory, rates, readings, stall, tuning, now)
    verdict = decide(_costed(memory, readings), scene, tuning)
    if verdict.binding is Binding.STALL:
        gauges = usage.forgiven(gauges)
    pace_s = usual_period(verdict, scene, use, tuning, readings.mean_took_s)
    risen = rates.online + rates.system - memory.rates.online - memory.rates.system
    next_s = closer(pace_s, tuning) if risen > jump(scene.lendable, tuning) else pace_s
    after = LoopMemory(
        at=now,
        meters=meters,
        gauges=gauges,
        rates=rates,
        lent=verdict.lent,
        period_s=next_s,
        pace_s=pace_s,
        learns_until=memory.learns_until,
    )
    return _told(after, memory.lent, verdict, scene, tuning)


def _costed(memory: LoopMemory, readings: FastReadings) -> Lent:
    """Return the lending state with the cost of the last tick, if the pool grew in it."""
    lent = memory.lent
    return lent._replace(growth_took_s=readings.took_s) if lent.grown_at == memory.at != _NEVER else lent


def _learnt(memory: LoopMemory, use: Use, readings: FastReadings, tuning: ReclaimTuning, now: float) -> Rates:
    """Return this tick's judged rates, and their peak over the dwell."""
    rates, span = memory.rates, use.span_s
    behind = usage.behind_s(max(1, readings.lendable), readings.counters_s)
    known_since = rates.known_since
    window = tuning.average_s if known_since != _NEVER else 0.0
    # judge the sum: if online and system were judged separately, the counters' error would be subtracted twice
    total = usage.judged(use.online + use.system, span, rates.online + rates.system, window, behind)
    system = min(total, usage.judged(use.system, span, rates.system, window, behind))
    online = total - system
    if known_since == _NEVER or span > tuning.stale_s:
        # an average over more than stale_s hides the peaks within it
        peaks, known_since, rise = begin(total, now), now, 0
    else:
        rise = max(0, total - rates.peaks.peak)
        peaks = push(rates.peaks, total, now, memory.lent.dwell_s(now, tuning))
    return Rates(
        online=online,
        system=system,
        rated_at=use.rated_at,
        oldest=use.oldest,
        peaks=peaks,
        known_since=known_since,
        rise=rise,
    )


def _scene(
    memory: LoopMemory, rates: Rates, readings: FastReadings, stall: Stall, tuning: ReclaimTuning, now: float
) -> Scene:
    return Scene(
        now=now,
        lendable=max(1, readings.lendable),
        threads=max(1, readings.threads_per_core),
        measured=rates is not memory.rates,
        online=rates.online,
        system=rates.system,
        peak=rates.peaks.peak,
        dwell_s=memory.lent.dwell_s(now, tuning),
        known_since=rates.known_since,
        age_s=now - rates.oldest,
        late_s=usage.late_s(readings, now, memory.at, memory.period_s),
        period_s=memory.period_s,
        stall=stall,
        rise=rates.rise,
        yields=readings.yields,
        most=readings.most,
        learns_until=memory.learns_until,
        equal=readings.equal,
    )


def _told(memory: LoopMemory, before: Lent, verdict: Verdict, scene: Scene, tuning: ReclaimTuning) -> Tick:
    lent = verdict.lent
    target = CPUTarget(lent.box, _change(before.box, lent.box), verdict.binding)
    known = verdict.binding is not Binding.LEARNING
    may_lend, unused = (lent.milli, verdict.unused_milli) if known else (0, 0)
    headroom = Headroom(
        cpu_milli=at_most(may_lend, scene.most),
        online_cpu_milli=scene.online,
        binding=verdict.binding,
        unused_milli=unused,
    )
    grounds = Grounds(before, verdict, scene, tuning)
    return Tick(
        memory=memory,
        target=target,
        headroom=headroom,
        next_s=memory.period_s,
        stall=scene.stall,
        grounds=grounds,
    )


def _change(before: int, after: int) -> Change:
    """Return the direction. The first decision counts as suppression: until then the pool has all CPUs of `share`."""
    if before == after:
        return Change.KEEP
    return Change.GROW if 0 < before < after else Change.SUPPRESS


def _disabled(readings: FastReadings, tuning: ReclaimTuning, now: float) -> Tick:
    """Return the tick without lending: the reclaim pool has the CPUs of `share`, and nothing is measured."""
    cpus = max(1, readings.lendable)
    return Tick(
        LoopMemory(at=now, lent=Lent(cpus=cpus), period_s=tuning.idle_tick_s, pace_s=tuning.idle_tick_s),
        CPUTarget(cpus, Change.KEEP, Binding.DISABLED),
        Headroom(binding=Binding.DISABLED),
        tuning.idle_tick_s,
    )
