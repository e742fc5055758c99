"""Skip the decision of a tick if its quick reading (`Look`) cannot change the size of the reclaim pool.

A decision touches much code and data. After a sleep all of it is out of the processor's caches, so that a decision
costs more than all other work of a tick. So a tick that leaves the pool as it is also returns bounds within which
that will hold. If a quick reading lies within these bounds, and no group waited long enough for a stall, only the
peaks are updated. Any other or doubtful reading needs a full tick, and a full tick comes at the latest after
`PASSES_S`. The tick gets the samples of the last two quick readings, so that its rates are of the last interval.
"""

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import FastReadings, Look, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import fast_loop, usage
from nri_coloc.lending.fast_loop import QUIET_MILLI, LoopMemory, Peaks, Tick, closer, jump
from nri_coloc.lending.pool_size import Lent, dead_band_milli, extra_core, use_leaving
from nri_coloc.lending.usage import Gauge

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
    jump: see `fast_loop.jump`.
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


def begin(tick: Tick, readings: FastReadings, look: Look | None, tuning: ReclaimTuning) -> Glance | None:
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
    most, calm, least = _bounds(lent, readings, tuning)
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
        closer_s=closer(memory.pace_s, tuning),
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


def _bounds(lent: Lent, readings: FastReadings, tuning: ReclaimTuning) -> tuple[float, float, float]:
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


def over(glance: Glance, look: Look, late_s: float) -> Glance | None:
    """Return the state after a quick reading; None if a full tick has to decide. `late_s`: how late the reading is."""
    bounds, span = glance.bounds, look.at - glance.look.at
    if look.at >= bounds.until or late_s >= bounds.period_s or span >= 2 * bounds.period_s:
        return None
    newest = _use(bounds, glance.look, look, span)
    if newest is None or not _are_calm(glance, look, span):
        return None
    mean = usage.judged(newest, span, glance.mean, bounds.average_s, bounds.behind_s)
    known = fast_loop.push(glance.peaks, mean, look.at, bounds.dwell_s)
    if mean > bounds.most or mean - glance.peaks.peak > bounds.rise:
        return None
    if known.peak <= bounds.calm or (mean <= bounds.least and look.at >= bounds.back_at):
        return None
    next_s = bounds.closer_s if mean - glance.mean > bounds.jump else bounds.period_s
    last = {**glance.last, **{sample.key: sample for sample in look.online}} if look.online else glance.last
    return Glance(bounds=bounds, look=look, mean=mean, peaks=known, next_s=next_s, last=last)


def _use(bounds: Bounds, before: Look, look: Look, span: float) -> int | None:
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
    return all(_is_calm(glance.last.get(sample.key), sample, stall) for sample in look.online)


def _is_calm(before: Sample | Gauge | None, sample: Sample, stall: float) -> bool:
    known = None if before is None else before.stalled_us
    if before is None or known is None or sample.stalled_us is None:
        return sample.stalled_us is known  # without pressure files no group has any
    return 0 <= sample.stalled_us - known <= stall * (sample.at - before.at) * 1e6


def caught_up(glance: Glance | None, memory: LoopMemory) -> LoopMemory:
    """Return the loop's state after the skipped decisions. Its meters keep the counters of the last full tick."""
    if glance is None:
        return memory
    at, system = glance.look.at, min(memory.rates.system, glance.mean)
    rates = memory.rates._replace(
        online=glance.mean - system, system=system, peaks=glance.peaks, rated_at=at, oldest=at
    )
    return memory._replace(at=at, rates=rates)
