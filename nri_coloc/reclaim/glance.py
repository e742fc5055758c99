"""Ticks that decide nothing: the box is at rest, and nothing that was read could take a CPU from it or give it one.

A decision touches much code and data, all of it out of the processor's caches after a sleep, so that it costs more
than half of a tick. So what was read is judged as a tick judges it, and peaks are kept; while the use leaves what is
lent and not so much more that the box might grow, and nobody waited long enough for a stall, that is all. Anything
else, and anything doubtful, is the tick's: it is given the newest samples of what was passed over before its own, so
that its rates are those of the last interval.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.model.lending import Binding
from nri_coloc.model.readings import FastReadings, Role, Sample
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim import peaks, usage, yielded
from nri_coloc.reclaim.headroom import dead_band_milli, headroom_milli
from nri_coloc.reclaim.loop import LoopMemory, Rates, Tick
from nri_coloc.reclaim.pace import QUIET_MILLI
from nri_coloc.reclaim.stall import Gauge
from nri_coloc.reclaim.usage import PLACE
from nri_coloc.reclaim.verdict import Lent

PASSES_S: Final = 0.5
"""How long no tick has to decide at most: what is told of ticks, and what else comes with them, waits for so long."""

_AT_REST: Final = frozenset({Binding.ALL_LENT, Binding.DEAD_BAND, Binding.FLOOR})


class Glance(NamedTuple):
    """`since`: when a tick last decided; `last`: the newest sample of each group that was read since then.

    `lendable`: CPUs as they were then; `rests`: whether the box used next to nothing.
    """

    since: float
    lendable: int
    rests: bool
    last: Mapping[int, Sample] = MappingProxyType({})


class Passed(NamedTuple):
    """What is known after readings that nothing had to be decided about."""

    glance: Glance
    memory: LoopMemory


class _Rates(NamedTuple):
    """Milli-CPU by role's place, and the newest interval of the pods."""

    sums: list[int]
    rated_at: float
    span_s: float


def begin(tick: Tick, readings: FastReadings) -> Glance | None:
    """Return what the next readings are held against; None where the box is not at rest."""
    if tick.target.binding not in _AT_REST:
        return None
    use = usage.total(tick.memory.meters, readings.at)
    return None if use is None else Glance(readings.at, readings.lendable, use.box < QUIET_MILLI)


def over(glance: Glance, memory: LoopMemory, readings: FastReadings, tuning: ReclaimTuning) -> Passed | None:
    """Pass over what was read; None where a tick has to decide. Times as in `loop.tick`, and the same `tuning`."""
    at, rates, lent = readings.at, memory.rates, memory.lent
    late = max(readings.late_s, at - memory.at - memory.period_s)
    if at - glance.since >= PASSES_S or late >= memory.period_s or readings.lendable != glance.lendable:
        return None
    found = _rates(glance.last, memory, readings, tuning.stall / 2 if readings.yields else tuning.stall)
    if found is None or (found.sums[PLACE[Role.BOX]] < QUIET_MILLI) is not glance.rests:
        return None
    newest, span, window, cpus = usage.split(found.sums), found.span_s, tuning.average_s, readings.lendable
    online = usage.judged(newest[0], span, rates.online, window, cpus)
    system = usage.judged(newest[1], span, rates.system, window, cpus)
    total = online + system
    known = peaks.push(rates.peaks, total, at, lent.dwell_s(at, tuning))
    least, most = (headroom_milli(cpus, milli, tuning) for milli in (total, known.peak))
    if least < lent.milli or most >= lent.milli + dead_band_milli(cpus, tuning):
        return None
    if _more_changes(lent, readings, least, total - rates.peaks.peak, tuning):
        return None
    after = Rates(online, system, found.rated_at, found.rated_at, known, rates.known_since)
    last = {**glance.last, **{sample.key: sample for sample in readings.samples}}
    return Passed(glance._replace(last=last), memory._replace(at=at, rates=after))


def _more_changes(lent: Lent, readings: FastReadings, milli: int, rise: int, tuning: ReclaimTuning) -> bool:
    """Whether what the box has beyond its headroom might come or go."""
    if not readings.yields:
        return lent.more.cpus > 0
    lendable, core = readings.lendable, readings.threads_per_core
    ground = yielded.Ground(readings.at, lent.cpus, lendable, core, milli, rise, doubtful=False)
    return yielded.decide(lent.more, ground, tuning) != lent.more


def caught_up(glance: Glance | None, readings: FastReadings) -> FastReadings:
    """Return the readings with what was passed over before them."""
    if glance is None or not glance.last:
        return readings
    return readings._replace(samples=(*glance.last.values(), *readings.samples))


def _rates(
    last: Mapping[int, Sample], memory: LoopMemory, readings: FastReadings, stall: float
) -> _Rates | None:
    """Return the rates since the last look; None if one is missing or doubtful, or somebody waited."""
    sums, rated, rated_at, span_s = [0] * len(PLACE), 0, 0.0, 0.0
    for sample in readings.samples:
        key, role, at, used, waited, *_ = sample
        if waited is not None and not _is_calm(last.get(key) or memory.gauges.get(key), at, waited, stall):
            return None
        if used is None:
            continue
        before = last.get(key) or memory.meters.get(key)
        if before is None or before.usage_us is None:
            return None
        span, risen = at - before.at, used - before.usage_us
        if not usage.SHORTEST_S <= span <= PASSES_S or not usage.is_plausible(risen, span, readings.cpus):
            return None
        rated += 1
        sums[PLACE[role]] += round(risen / span / 1000)
        if role is Role.PODS:
            rated_at, span_s = at, span
    return _Rates(sums, rated_at, span_s) if rated == len(memory.meters) and span_s else None


def _is_calm(before: Sample | Gauge | None, at: float, stalled_us: int, stall: float) -> bool:
    """Whether a group waited for so short a part of the time that it could be no stall, whoever was to blame."""
    if before is None or before.stalled_us is None:
        return False
    return 0 <= stalled_us - before.stalled_us <= stall * (at - before.at) * 1e6
