"""The fast loop: `tick` turns one tick's readings into the size of the reclaim pool and the time of the next tick.

The pool grows only to a size that all recent peaks of use would have allowed. The next tick comes soon while there is
CPU to take back, and late while there is none. Pure; time is an argument.

A decision touches much code and data. After a sleep all of it is out of the processor's caches, so that a decision
costs more than all other work of a tick. So a tick that leaves the pool as it is also returns bounds within which
that will hold (`glance_after`). If a quick reading (`Look`) lies within these bounds, and no group waited long enough
for a stall, only the peaks are updated (`passed_over`). Any other or doubtful reading needs a full tick, and a full
tick comes at the latest after `PASSES_S`. The tick gets the samples of the last two quick readings, so that its rates
are of the last interval.
"""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding, Change, CPUTarget, Headroom
from nri_coloc.core.readings import FastReadings, Look, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import usage
from nri_coloc.lending.pool_size import (
    Grounds,
    Lent,
    Scene,
    Verdict,
    affordable,
    at_most,
    dead_band_milli,
    decide,
    extra_core,
    floor_cpus,
    use_leaving,
)
from nri_coloc.lending.usage import Cause, Gauge, Meter, Peaks, Stall, Use, is_calm

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
            return affordable(tuning.quiet_tick_s, mean_took_s)
        if use.box < QUIET_MILLI:
            return affordable(tuning.rest_tick_s, mean_took_s)
    usual_s = max(tuning.tick_s, min(mean_took_s / tuning.cost_share, tuning.tick_max_s))
    return affordable(usual_s, mean_took_s)


def jump(lendable: int, tuning: ReclaimTuning) -> float:
    """Return the rise of use between two readings that makes the next tick come sooner, milli-CPU.

    Such a rise may be the beginning of a burst: most of the interval that was read lay before it.
    """
    return dead_band_milli(lendable, tuning) / 4


def closer(period_s: float, tuning: ReclaimTuning, mean_took_s: float) -> float:
    """Return the seconds to the next tick after a rise of use. A pool that cannot shrink is read no sooner."""
    return affordable(min(period_s, CLOSER_S), mean_took_s) if period_s < tuning.quiet_tick_s else period_s


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
    next_s = closer(pace_s, tuning, readings.mean_took_s) if risen > jump(scene.lendable, tuning) else pace_s
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
        peaks, known_since, rise = usage.first_peak(total, now), now, 0
    else:
        rise = max(0, total - rates.peaks.peak)
        peaks = usage.with_peak(rates.peaks, total, now, memory.lent.dwell_s(now, tuning))
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


PASSES_S: Final = 0.8
"""Seconds after which a full tick decides in any case. Reports that come with ticks wait for it."""

_AT_REST: Final = frozenset({Binding.ALL_LENT, Binding.DEAD_BAND, Binding.FLOOR})
_WAITS: Final = frozenset({Binding.DWELL, Binding.GROWTH_STEP})
"""The pool cannot grow for a time that is known."""


class Bounds(NamedTuple):
    """The bounds within which the size of the reclaim pool stays; milli-CPU, seconds.

    most: use of online pods and system above which the pool has to shrink.
    calm: a peak of use at or below which the pool may grow.
    least: use at or below which the pool may grow from `back_at` on.
    rise: the most by which use may exceed all use of the last dwell.
    back_at: earliest time for the extra core.
    dwell_s: length of the window of peaks.
    reserved: use on reserved CPUs, which does not count.
    rests: whether the reclaimed pods used less than `QUIET_MILLI`.
    stall: the longest wait that is no stall, share of the time.
    until: time of the next full tick in any case.
    period_s: seconds between two quick readings.
    closer_s: the same after use rose by more than `jump`.
    jump: see `jump`.
    average_s: time constant of the mean that use is judged by.
    behind_s: error of the counters, seconds of CPU time.
    cpus, counters_s: as in `FastReadings`.
    """

    most: float
    calm: float
    least: float
    rise: float
    back_at: float
    dwell_s: float
    reserved: int
    rests: bool
    stall: float
    until: float
    period_s: float
    closer_s: float
    jump: float
    average_s: float
    behind_s: float
    cpus: int
    counters_s: float


class Glance(NamedTuple):
    """The state between two quick readings.

    bounds: the bounds of the last full tick.
    look: the last quick reading.
    mean: use as `usage.judged` returns it, milli-CPU.
    peaks: peaks of that use over the dwell.
    next_s: seconds to the next quick reading.
    last: the newest counters of each online group that is read round-robin.
    """

    bounds: Bounds
    look: Look
    mean: int
    peaks: Peaks
    next_s: float
    last: Mapping[int, Sample | Gauge]


def glance_after(
    tick: Tick, readings: FastReadings, look: Look | None, tuning: ReclaimTuning
) -> Glance | None:
    """Return the state for the next quick readings; None if the pool may change, or if `look` is not of this tick."""
    memory, lent, waits = tick.memory, tick.memory.lent, tick.target.binding in _WAITS
    if (
        look is None
        or not (waits or tick.target.binding in _AT_REST)
        or (lent.more.cpus and not readings.yields)
    ):
        return None
    use = usage.total(memory.meters, readings.at)
    if use is None or lent.grown_at == memory.at:
        return None  # the cost of a growth comes with the readings after it, and a tick notes it
    rates = memory.rates
    most, calm, least = _bounds_of_use(lent, readings, tuning)
    until = readings.at + PASSES_S
    bounds = Bounds(
        most=most,
        calm=-inf if waits else calm,
        least=least,
        rise=dead_band_milli(readings.lendable, tuning) if readings.yields else inf,
        back_at=lent.more.back_at,
        dwell_s=lent.dwell_s(readings.at, tuning),
        reserved=use.reserved,
        rests=use.box < QUIET_MILLI,
        stall=tuning.stall / 2 if readings.yields else tuning.stall,
        until=min(until, _grows_at(memory, tuning)) if waits else until,
        period_s=memory.pace_s,
        closer_s=closer(memory.pace_s, tuning, readings.mean_took_s),
        jump=jump(readings.lendable, tuning),
        average_s=tuning.average_s,
        behind_s=usage.behind_s(readings.lendable, readings.counters_s),
        cpus=readings.cpus,
        counters_s=readings.counters_s,
    )
    return Glance(
        bounds=bounds,
        look=look,
        mean=rates.online + rates.system,
        peaks=rates.peaks,
        next_s=memory.period_s,
        last=memory.gauges,
    )


def _bounds_of_use(lent: Lent, readings: FastReadings, tuning: ReclaimTuning) -> tuple[float, float, float]:
    """Return the bounds `most`, `calm` and `least` of `Bounds`, milli-CPU."""
    lendable, core = readings.lendable, readings.threads_per_core
    band = dead_band_milli(lendable, tuning)
    most = use_leaving(lent.milli, lendable, tuning) if lent.milli else inf
    calm = use_leaving(lent.milli + band, lendable, tuning)
    half_core = 1000 * core * tuning.yielded_from
    if lent.more.cpus:
        return min(most, use_leaving(half_core, lendable, tuning)), calm, -inf
    may_have = readings.yields and extra_core(lendable, lent.cpus, core, tuning) > 0
    return most, calm, use_leaving(half_core + band, lendable, tuning) if may_have else -inf


def _grows_at(memory: LoopMemory, tuning: ReclaimTuning) -> float:
    """Return the earliest time of the next growth of a pool that waits for it, as `pool_size` decides."""
    lent, dwell_s = memory.lent, memory.lent.dwell_s(memory.at, tuning)
    return max(lent.grown_at + lent.step_s(tuning), max(memory.rates.known_since, lent.cut_at) + dwell_s)


def passed_over(glance: Glance, look: Look, late_s: float) -> Glance | None:
    """Return the state after a quick reading; None if a full tick has to decide. `late_s`: how late the reading is."""
    bounds, span = glance.bounds, look.at - glance.look.at
    if look.at >= bounds.until or late_s >= bounds.period_s or span >= 2 * bounds.period_s:
        return None
    newest = _use_between(bounds, glance.look, look, span)
    if newest is None or not _are_calm(glance, look, span):
        return None
    mean = usage.judged(newest, span, glance.mean, bounds.average_s, bounds.behind_s)
    known = usage.with_peak(glance.peaks, mean, look.at, bounds.dwell_s)
    if mean > bounds.most or mean - glance.peaks.peak > bounds.rise:
        return None
    if known.peak <= bounds.calm or (mean <= bounds.least and look.at >= bounds.back_at):
        return None
    next_s = bounds.closer_s if mean - glance.mean > bounds.jump else bounds.period_s
    last = {**glance.last, **{sample.key: sample for sample in look.online}} if look.online else glance.last
    return Glance(bounds=bounds, look=look, mean=mean, peaks=known, next_s=next_s, last=last)


def _use_between(bounds: Bounds, before: Look, look: Look, span: float) -> int | None:
    """Return the use of online pods and the system, milli-CPU.

    None if the counters are doubtful, or if the reclaimed pods' use crossed `QUIET_MILLI`.
    """
    box, left = look.box_us - before.box_us, look.left_us - before.left_us
    system = look.system_us - before.system_us
    within_s = span + bounds.counters_s
    if span < usage.SHORTEST_S or not usage.is_plausible(box, within_s, bounds.cpus):
        return None
    # counters may lag by a scheduler's tick, so that a difference may fall by as much
    behind = round(bounds.counters_s * 1e6 * bounds.cpus)
    if not usage.is_plausible(left + system + behind, within_s, bounds.cpus):
        return None
    if (box / span < 1000 * QUIET_MILLI) is not bounds.rests:
        return None
    rates = round(left / span / 1000), round(system / span / 1000)
    return sum(usage.claimed(*rates, bounds.reserved))


def _are_calm(glance: Glance, look: Look, span: float) -> bool:
    """Return whether no group waited long enough for a stall of any cause."""
    stall, before = glance.bounds.stall, glance.look.waited_us
    if len(look.waited_us) != len(before):
        return False
    most = stall * span * 1e6
    for now, then in zip(look.waited_us, before, strict=True):
        if not 0 <= now - then <= most:
            return False
    return all(is_calm(glance.last.get(sample.key), sample, stall) for sample in look.online)


def caught_up(glance: Glance | None, memory: LoopMemory) -> LoopMemory:
    """Return the loop's state after the skipped decisions. Its meters keep the counters of the last full tick."""
    if glance is None:
        return memory
    at, system = glance.look.at, min(memory.rates.system, glance.mean)
    rates = memory.rates._replace(
        online=glance.mean - system, system=system, peaks=glance.peaks, rated_at=at, oldest=at
    )
    return memory._replace(at=at, rates=rates)
