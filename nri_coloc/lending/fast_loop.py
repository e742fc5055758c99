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
from nri_coloc.lending import stall as stalls
from nri_coloc.lending import usage
from nri_coloc.lending.headroom import at_most, dead_band_milli, floor_cpus
from nri_coloc.lending.pool_size import Lent, Scene, Verdict, decide
from nri_coloc.lending.sentence import Grounds
from nri_coloc.lending.stall import Cause, Gauge, Stall
from nri_coloc.lending.usage import Meter, Use

BUCKETS = 8
"""The window moves on by an eighth of itself; it covers at least the whole, and about a quarter more at most."""


class Peaks(NamedTuple):
    """Closed buckets as (end, peak), the highest of them, and the open bucket; milli-CPU, seconds."""

    closed: tuple[tuple[float, int], ...] = ()
    highest: int = 0
    opened_at: float = 0.0
    open: int = 0

    @property
    def peak(self) -> int:
        """The highest value of the window."""
        return max(self.highest, self.open)


def begin(value: int, now: float) -> Peaks:
    """Return a window that knows this one value."""
    return Peaks(opened_at=now, open=value)


def push(peaks: Peaks, value: int, now: float, window_s: float) -> Peaks:
    """Return the window with one more value; what ended before it began is forgotten."""
    if now - peaks.opened_at < window_s / BUCKETS:
        return peaks if value <= peaks.open else peaks._replace(open=value)
    horizon = now - window_s
    closed = tuple(bucket for bucket in (*peaks.closed, (now, peaks.open)) if bucket[0] > horizon)
    return Peaks(closed, max((peak for _, peak in closed), default=0), now, value)


QUIET_MILLI: Final = 20
"""Reclaimed use below this disturbs no online pod, milli-CPU."""

CLOSER_S: Final = 0.012
"""How soon use that jumped is looked at again: over so long the counters' own error leaves most of a full burst."""


def usual_period(
    verdict: Verdict, scene: Scene, use: Use | None, tuning: ReclaimTuning, mean_took_s: float
) -> float:
    """Return the seconds between two ticks; `mean_took_s`: what a tick costs, CPU time.

    A box at its floor cannot be cut, so it is watched closely only when it might grow: the evidence for growth is
    always made of quick ticks. A large box that rests may wake up together with a burst, and is taken back in time even
    then (`rest_tick_s`). The cost bound stretches the quick period, but never beyond what still takes CPUs back in
    time (`tick_max_s`).
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
    """Return by how much use has to rise from one look to the next for a closer one, milli-CPU.

    It may be a burst that only began: what was read is of an interval that was quiet for the most part.
    """
    return dead_band_milli(lendable, tuning) / 4


def closer(period_s: float, tuning: ReclaimTuning) -> float:
    """Return when to look again after use that jumped; a box that cannot be cut is looked at no sooner."""
    return min(period_s, CLOSER_S) if period_s < tuning.quiet_tick_s else period_s


def _nothing_to_do(verdict: Verdict, scene: Scene, tuning: ReclaimTuning) -> bool:
    lent = verdict.lent
    at_floor = lent.box <= floor_cpus(scene.lendable, scene.threads)
    return at_floor and verdict.now_milli < lent.milli + dead_band_milli(scene.lendable, tuning)


_NEVER = float("-inf")


class Rates(NamedTuple):
    """The last rates and their peak; milli-CPU, seconds.

    `online` and `system` as `usage.judged` has them. `rated_at`: when the newest interval of the pods ended, `oldest`:
    when the oldest vital one did. `known_since`: since when `peaks` has no gap. `rise`: how far the newest use lies
    above the peak before it.
    """

    online: int = 0
    system: int = 0
    rated_at: float = _NEVER
    oldest: float = _NEVER
    peaks: Peaks = Peaks()
    known_since: float = _NEVER
    rise: int = 0


class LoopMemory(NamedTuple):
    """What the loop knows between ticks; the empty one is the start. Mappings are never changed in place.

    `period_s`: what the last tick advised; `pace_s`: what it does where use does not jump. `learns_until`: how long
    a box that was found keeps its size while not all that runs has a rate.
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
    """Return the memory of a loop that finds a box of so many CPUs and knows nothing else.

    The box keeps them until all that runs has been measured, which is then judged as use that was never lower: what it
    does not leave is taken back at once. After `stale_s` what was measured by then counts, and the floor without that.
    """
    return LoopMemory(lent=Lent(1000 * cpus, cpus), learns_until=now + tuning.stale_s)


def learns(memory: LoopMemory, now: float) -> bool:
    """Whether the box keeps what it was found with, because not all that runs has been measured."""
    return memory.rates.known_since == _NEVER and now < memory.learns_until


class Tick(NamedTuple):
    """One tick's result.

    `next_s`: when to tick again; `stall`: the worst waiting, blamed on the box or not; `grounds`: what
    `sentence.because` words, None while lending is disabled.
    """

    memory: LoopMemory
    target: CPUTarget
    headroom: Headroom
    next_s: float
    stall: Stall = Stall()
    grounds: Grounds | None = None


def tick(memory: LoopMemory, readings: FastReadings, tuning: ReclaimTuning, now: float) -> Tick:
    """Decide the size of the box from what was just read. `now`, and all times in `readings`, are one clock's seconds.

    A clock that went back begins anew with the floor, as at the start.
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
    own = stalls.explained(rates.online + rates.system, readings.lendable)
    gauges, stall = stalls.advance(memory.gauges, readings, Cause(box_milli, own), windows_s)
    scene = _scene(memory, rates, readings, stall, tuning, now)
    verdict = decide(_costed(memory, readings), scene, tuning)
    if verdict.binding is Binding.STALL:
        gauges = stalls.forgiven(gauges)
    pace_s = usual_period(verdict, scene, use, tuning, readings.mean_took_s)
    risen = rates.online + rates.system - memory.rates.online - memory.rates.system
    next_s = closer(pace_s, tuning) if risen > jump(scene.lendable, tuning) else pace_s
    after = LoopMemory(now, meters, gauges, rates, verdict.lent, next_s, pace_s, memory.learns_until)
    return _told(after, memory.lent, verdict, scene, tuning)


def _costed(memory: LoopMemory, readings: FastReadings) -> Lent:
    """Note what it cost if the box grew in the last tick."""
    lent = memory.lent
    return lent._replace(growth_took_s=readings.took_s) if lent.grown_at == memory.at != _NEVER else lent


def _learnt(memory: LoopMemory, use: Use, readings: FastReadings, tuning: ReclaimTuning, now: float) -> Rates:
    """Return this tick's rates judged, and their peak of the dwell kept."""
    rates, span = memory.rates, use.span_s
    behind = usage.behind_s(max(1, readings.lendable), readings.counters_s)
    known_since = rates.known_since
    window = tuning.average_s if known_since != _NEVER else 0.0
    # the counters' own error is that of the sum: judged one by one, the parts would be forgiven it twice
    total = usage.judged(use.online + use.system, span, rates.online + rates.system, window, behind)
    system = min(total, usage.judged(use.system, span, rates.system, window, behind))
    online = total - system
    if known_since == _NEVER or span > tuning.stale_s:
        # an average over more than stale_s hides whatever peaked within it
        peaks, known_since, rise = begin(total, now), now, 0
    else:
        rise = max(0, total - rates.peaks.peak)
        peaks = push(rates.peaks, total, now, memory.lent.dwell_s(now, tuning))
    return Rates(online, system, use.rated_at, use.oldest, peaks, known_since, rise)


def _scene(
    memory: LoopMemory, rates: Rates, readings: FastReadings, stall: Stall, tuning: ReclaimTuning, now: float
) -> Scene:
    return Scene(
        now,
        max(1, readings.lendable),
        max(1, readings.threads_per_core),
        rates is not memory.rates,
        rates.online,
        rates.system,
        rates.peaks.peak,
        memory.lent.dwell_s(now, tuning),
        rates.known_since,
        now - rates.oldest,
        _late(memory, readings, now),
        memory.period_s,
        stall,
        rates.rise,
        readings.yields,
        readings.most,
        memory.learns_until,
        readings.equal,
    )


def _late(memory: LoopMemory, readings: FastReadings, now: float) -> float:
    """Return how late this tick is by whatever shows it: the shell's plan, the age of the readings, our own advice."""
    since_advice = now - memory.at - memory.period_s if memory.at != _NEVER else 0.0
    return max(readings.late_s, now - readings.at, since_advice)


def _told(memory: LoopMemory, before: Lent, verdict: Verdict, scene: Scene, tuning: ReclaimTuning) -> Tick:
    lent = verdict.lent
    target = CPUTarget(lent.box, _change(before.box, lent.box), verdict.binding)
    unused = 0 if verdict.binding is Binding.LEARNING else lent.milli
    headroom = Headroom(at_most(unused, scene.most), 0, scene.online, verdict.binding, unused)
    grounds = Grounds(before, verdict, scene, tuning)
    return Tick(memory, target, headroom, memory.period_s, scene.stall, grounds)


def _change(before: int, after: int) -> Change:
    """The first decision takes the box from all of `share` to the floor."""
    if before == after:
        return Change.KEEP
    return Change.GROW if 0 < before < after else Change.SUPPRESS


def _disabled(readings: FastReadings, tuning: ReclaimTuning, now: float) -> Tick:
    """Without lending the box has what `share` has, and nothing is measured."""
    cpus = max(1, readings.lendable)
    return Tick(
        LoopMemory(at=now, lent=Lent(cpus=cpus), period_s=tuning.idle_tick_s, pace_s=tuning.idle_tick_s),
        CPUTarget(cpus, Change.KEEP, Binding.DISABLED),
        Headroom(binding=Binding.DISABLED),
        tuning.idle_tick_s,
    )
