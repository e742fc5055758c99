"""Looks that decide nothing: the box is at rest, and nothing that was read could take a CPU from it.

A decision touches much code and data, all of it out of the processor's caches after a sleep, so that it costs more
than all else in a tick. So when a tick leaves the box at rest, it says between which bounds that will hold. A look's
sums within them, with nobody who waited long enough for a stall, are kept among the peaks, and that is all. Anything
else, and anything doubtful, is the tick's, and so is most of a second of nothing: it is given the samples of the last
look before its own, so that its rates are those of the last interval.
"""

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import FastReadings, Look, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import fast_loop as peaks
from nri_coloc.lending import usage
from nri_coloc.lending.fast_loop import QUIET_MILLI, LoopMemory, Peaks, Tick, closer, jump
from nri_coloc.lending.headroom import dead_band_milli, headroom_milli
from nri_coloc.lending.pool_size import Lent
from nri_coloc.lending.stall import Gauge

PASSES_S: Final = 0.8
"""After so long the next tick decides in any case, because reports of ticks wait for a decision."""

_AT_REST: Final = frozenset({Binding.ALL_LENT, Binding.DEAD_BAND, Binding.FLOOR})
_WAITS: Final = frozenset({Binding.DWELL, Binding.GROWTH_STEP})
"""For a time that is known: the box cannot grow sooner."""


class Bounds(NamedTuple):
    """Between what the box stays as it is; milli-CPU, seconds.

    `most`: the use of online pods and the system beyond which something has to go, `rise`: how far it may lie above all
    of the dwell before. A peak of `calm` or less lets the box grow, from `back_at` on so does a use of `least` or less.
    `reserved`: what ran on reserved CPUs and is no part of the use. `rests`: whether the box used next to nothing;
    `stall`: the share of the time that nobody may wait longer than. `until`: when a tick decides in any case;
    `period_s`: between two looks, `closer_s` after use that rose by more than `jump`. `average_s`: of the mean that use
    is judged by. `lendable`, `cpus`: as in readings.
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
    """`look`: the last one; `last`: the newest counters of each online group that is read in turn.

    `mean`: the use as `usage.judged` has it; `peaks`: of it, over the dwell. `next_s`: when to look again.
    """

    bounds: Bounds
    look: Look
    mean: int
    peaks: Peaks
    next_s: float
    last: Mapping[int, Sample | Gauge]


def begin(tick: Tick, readings: FastReadings, look: Look | None, tuning: ReclaimTuning) -> Glance | None:
    """Return what the next looks are held against; None where the box is not at rest, or `look` is not this tick's."""
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
        most,
        -inf if waits else calm,
        least,
        dead_band_milli(readings.lendable, tuning) if readings.yields else inf,
        lent.more.back_at,
        lent.dwell_s(readings.at, tuning),
        use.reserved,
        use.box < QUIET_MILLI,
        tuning.stall / 2 if readings.yields else tuning.stall,
        min(until, _grows_at(memory, tuning)) if waits else until,
        memory.pace_s,
        closer(memory.pace_s, tuning),
        jump(readings.lendable, tuning),
        tuning.average_s,
        usage.behind_s(readings.lendable, readings.counters_s),
        readings.cpus,
        readings.counters_s,
    )
    return Glance(bounds, look, rates.online + rates.system, rates.peaks, memory.period_s, memory.gauges)


def _bounds(lent: Lent, readings: FastReadings, tuning: ReclaimTuning) -> tuple[float, float, float]:
    """Return the most that may be used, the highest peak that lets the box grow, and the most that gives back."""
    lendable, core = readings.lendable, readings.threads_per_core
    all_milli, band = headroom_milli(lendable, 0, tuning), dead_band_milli(lendable, tuning)
    most = all_milli - lent.milli if lent.milli else inf
    calm = all_milli - lent.milli - band
    spare = all_milli - 1000 * core * tuning.yielded_from
    if lent.more.cpus:
        return min(most, spare), calm, -inf
    return most, calm, spare - band if readings.yields and lent.cpus < lendable else -inf


def _grows_at(memory: LoopMemory, tuning: ReclaimTuning) -> float:
    """Return when a box that waits for its next growth may have it, as `verdict` has it."""
    lent, dwell_s = memory.lent, memory.lent.dwell_s(memory.at, tuning)
    return max(lent.grown_at + lent.step_s(tuning), max(memory.rates.known_since, lent.cut_at) + dwell_s)


def over(glance: Glance, look: Look, late_s: float) -> Glance | None:
    """Pass over a look; None where a tick has to decide. `late_s`: how late it is."""
    bounds, span = glance.bounds, look.at - glance.look.at
    if look.at >= bounds.until or late_s >= bounds.period_s or span >= 2 * bounds.period_s:
        return None
    newest = _use(bounds, glance.look, look, span)
    if newest is None or not _are_calm(glance, look, span):
        return None
    mean = usage.judged(newest, span, glance.mean, bounds.average_s, bounds.behind_s)
    known = peaks.push(glance.peaks, mean, look.at, bounds.dwell_s)
    if mean > bounds.most or mean - glance.peaks.peak > bounds.rise:
        return None
    if known.peak <= bounds.calm or (mean <= bounds.least and look.at >= bounds.back_at):
        return None
    next_s = bounds.closer_s if mean - glance.mean > bounds.jump else bounds.period_s
    last = {**glance.last, **{sample.key: sample for sample in look.online}} if look.online else glance.last
    return Glance(bounds, look, mean, known, next_s, last)


def _use(bounds: Bounds, before: Look, look: Look, span: float) -> int | None:
    """Return what online pods and the system used, milli-CPU; None if that is doubtful, or the box woke up or rests."""
    box, left = look.box_us - before.box_us, look.left_us - before.left_us
    system = look.system_us - before.system_us
    within_s = span + bounds.counters_s
    if span < usage.SHORTEST_S or not usage.is_plausible(box, within_s, bounds.cpus):
        return None
    # counters that are up to a scheduler's tick behind let a difference fall by as much
    behind = round(bounds.counters_s * 1e6 * bounds.cpus)
    if not usage.is_plausible(left + system + behind, within_s, bounds.cpus):
        return None
    if (box / span < 1000 * QUIET_MILLI) is not bounds.rests:
        return None
    rates = round(left / span / 1000), round(system / span / 1000)
    return sum(usage.claimed(*rates, bounds.reserved))


def _are_calm(glance: Glance, look: Look, span: float) -> bool:
    """Whether nobody waited for so long a part of the time that it could be a stall, whoever was to blame."""
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
    """Return the memory as it is after what was passed over; its cgroups' counters are those of the last tick."""
    if glance is None:
        return memory
    at, system = glance.look.at, min(memory.rates.system, glance.mean)
    rates = memory.rates._replace(
        online=glance.mean - system, system=system, peaks=glance.peaks, rated_at=at, oldest=at
    )
    return memory._replace(at=at, rates=rates)
