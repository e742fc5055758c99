"""Decide the size of the reclaim pool, the one decision of the fast loop: the formula, whole cores, the extra core.

Growth is additive, suppression multiplicative, as in TCP. Katalyst's "up fast, down slow" is reversed, because here
the reclaim pool is the side that yields. Conditions that forbid growth come first: no measurement, a stall, too
little headroom. The extra core is lent beyond the headroom, to tasks of minimum weight. Pools that are sized by load
use the same bounds and steps.
"""

from math import inf, sqrt
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.usage import Stall

MOST_SHARE: Final = 0.2
"""Share of a CPU that ticks take at most, also where one takes longer than the longest period.

Without this bound the loop would never sleep there, and the process's other threads would wait for the interpreter.
"""


def affordable(period_s: float, mean_took_s: float) -> float:
    """Return a period, or a longer one with which ticks of `mean_took_s` CPU time take `MOST_SHARE` of a CPU."""
    return max(period_s, mean_took_s / MOST_SHARE)


def headroom_milli(lendable: int, use_milli: int, tuning: ReclaimTuning) -> int:
    """Return the CPU that may be lent while online pods and the system use `use_milli`; milli-CPU, at least 0.

    `headroom_cpu = (lendable x watermark - (online + system) - reserve) x lend`: Koordinator's suppression (capacity x
    threshold - used by all but offline - system), without the CPUs that are not lendable, and of it the part that the
    schedule lends. Reserved and dedicated CPUs and CPUs of other pools are left out on both sides, with their use. The
    reclaimed pods' own use is not in the formula: the result does not depend on the amount lent before.
    """
    return round(unused_milli(lendable, use_milli, tuning) * tuning.lend)


def unused_milli(lendable: int, use_milli: int, tuning: ReclaimTuning) -> int:
    """Return the CPU that online pods and the system leave unused, lent or not; milli-CPU, at least 0."""
    return max(0, round(lendable * 1000 * tuning.watermark) - use_milli - tuning.reserve_milli)


def use_leaving(milli: float, lendable: int, tuning: ReclaimTuning) -> float:
    """Return the largest use with which `headroom_milli` is at least `milli` (above 0); -inf if nothing is lent."""
    if not tuning.lend:
        return -inf
    return unused_milli(lendable, 0, tuning) - milli / tuning.lend


def at_most(milli: int, most_cpus: int) -> int:
    """Return the headroom within the operator's maximum, milli-CPU. `most_cpus`: 0 for no maximum."""
    return min(milli, 1000 * most_cpus) if most_cpus else milli


def step_milli(lendable: int, tuning: ReclaimTuning) -> int:
    """Return the most by which the headroom grows at once, milli-CPU.

    Large machines take larger steps (Koordinator: 10 %).
    """
    return max(tuning.step_milli, round(lendable * 1000 * tuning.step_share))


def dead_band_milli(lendable: int, tuning: ReclaimTuning) -> int:
    """Return how far the headroom must lie above the lent amount before the pool grows, milli-CPU.

    The setting is for 8 CPUs. The noise of a sum of n independent CPUs grows with sqrt(n), and the band with it.
    """
    return round(tuning.dead_band_milli * max(1.0, sqrt(lendable / 8)))


def floor_cpus(lendable: int, threads_per_core: int) -> int:
    """Return the smallest size of the reclaim pool, CPUs.

    One core: reclaimed pods stay alive and can finish.
    """
    return max(1, min(threads_per_core, lendable))


def whole_cpus(milli: int, lendable: int, threads_per_core: int, whole_core_from: float) -> int:
    """Return the CPUs for a headroom, in whole cores: at least the floor, at most all lendable CPUs.

    If the lendable CPUs are whole cores, the siblings of a core are never split between the reclaim pool and online
    pods.
    """
    core = 1000 * max(1, threads_per_core)
    part = min(core, max(1, round(core * whole_core_from)))
    cpus = (milli + core - part) // core * max(1, threads_per_core)
    return max(floor_cpus(lendable, threads_per_core), min(cpus, lendable))


class Yielded(NamedTuple):
    """The extra core.

    cpus: CPUs lent beyond the headroom.
    back_at: earliest time of the next extra core.
    relief_s: seconds for which the last stall took it away.
    """

    cpus: int = 0
    back_at: float = float("-inf")
    relief_s: float = 0.0


class Ground(NamedTuple):
    """The inputs of the decision about the extra core.

    now: seconds.
    cpus: size of the reclaim pool by its headroom.
    lendable: lendable CPUs.
    core: CPUs of one core.
    milli: headroom by present use, milli-CPU.
    rise: present use less all use of the last dwell, milli-CPU.
    doubtful: the readings allow no growth.
    step_s: seconds for which a size must stand because of the cost of a change (`Lent.step_s`).
    """

    now: float
    cpus: int
    lendable: int
    core: int
    milli: int
    rise: int
    doubtful: bool
    step_s: float = 0.0


def decide_extra_core(before: Yielded, ground: Ground, tuning: ReclaimTuning) -> Yielded:
    """Return the extra core after this tick.

    A rise of use above the dead band takes the extra core away for the dwell. On a node with many reclaimed cgroups
    it stays away longer, until the cost of both changes is within the loop's share of a CPU.
    """
    band = dead_band_milli(ground.lendable, tuning)
    room = extra_core(ground.lendable, ground.cpus, ground.core, tuning)
    if ground.rise > band:
        wait_s = max(tuning.dwell_s, ground.step_s if before.cpus else 0.0)
        return before._replace(cpus=0, back_at=max(before.back_at, ground.now + wait_s))
    spare = ground.milli - 1000 * ground.core * tuning.yielded_from
    if before.cpus:
        return before._replace(cpus=room) if spare >= 0 else relieved(before, ground.now, tuning)
    waits = ground.doubtful or ground.now < before.back_at
    return before if waits or spare < band else before._replace(cpus=room)


def extra_core(lendable: int, cpus: int, core: int, tuning: ReclaimTuning) -> int:
    """Return the CPUs of an extra core; 0 while only a part of the headroom is lent, because it lies beyond that."""
    return min(core, lendable - cpus) if tuning.lend == 1.0 else 0


def relieved(before: Yielded, now: float, tuning: ReclaimTuning) -> Yielded:
    """Return the state after a stall: no extra core for `relief_s`, or twice as long soon after the last stall."""
    soon = now - before.back_at < tuning.dwell_s
    relief_s = min(2 * before.relief_s, tuning.dwell_max_s) if soon and before.relief_s else tuning.relief_s
    return Yielded(0, now + relief_s, relief_s)


_NEVER = float("-inf")

_SETTLED: Final = frozenset({Binding.ALL_LENT, Binding.DEAD_BAND, Binding.FLOOR})
"""With these terms the pool has the size that the headroom allows."""


class Lent(NamedTuple):
    """The state of lending between two ticks.

    milli: headroom as granted, milli-CPU; steps and the dead band act on it.
    cpus: size of the reclaim pool by its headroom, in whole cores; 0 before the first decision.
    cut_at: time of the last suppression.
    grown_at: time of the last growth.
    hold_s: dwell after the last suppression, seconds.
    growth_took_s: CPU time of the last tick with growth, with its writes.
    more: the extra core.
    lend: the part of the headroom that the size follows: the present one after a suppression, or when growth ended.
    """

    milli: int = 0
    cpus: int = 0
    cut_at: float = _NEVER
    grown_at: float = _NEVER
    hold_s: float = 0.0
    growth_took_s: float = 0.0
    more: Yielded = Yielded()
    lend: float = 1.0

    @property
    def box(self) -> int:
        """Return the size of the reclaim pool with the extra core, CPUs."""
        return self.cpus + self.more.cpus

    def dwell_s(self, now: float, tuning: ReclaimTuning) -> float:
        """Return the seconds for which the headroom must have allowed a growth.

        The dwell doubles with each growth that had to be taken back soon. A load with bursts is then met at its
        bursts. After four times the dwell without a suppression it returns to its first value, and growth is tried
        again.
        """
        return self.hold_s if now - self.cut_at <= 4 * self.hold_s else tuning.dwell_s

    def step_s(self, tuning: ReclaimTuning) -> float:
        """Return the seconds between two growths.

        A growth is written to all reclaim cgroups, and so is a suppression that may follow. On a node with many
        reclaim cgroups both writes together stay within the loop's share of a CPU.
        """
        return max(tuning.step_s, 2 * self.growth_took_s / tuning.cost_share)


class Scene(NamedTuple):
    """The inputs of one tick. Use is milli-CPU as judged, times are seconds.

    now: time of the tick.
    lendable: lendable CPUs.
    threads: CPUs of one core.
    measured: whether this tick has a new rate.
    online, system: use of online pods and of the system.
    peak: highest use of the last `dwell_s`.
    dwell_s: see `Lent.dwell_s`.
    known_since: start of the time in which `peak` has no gap; -inf before the first rate.
    age_s: age of the oldest rate that counts.
    late_s: how late the tick is.
    period_s: planned seconds between two ticks.
    stall: the worst stall.
    rise: present use less all use of the last dwell.
    yields: whether every reclaimed task yields to online tasks at once.
    most: the operator's maximum of the reclaim pool, CPUs, 0 for none. The decision ignores it; the reported headroom
        and the CPUs that are written are cut to it.
    learns_until: until then a pool of the previous process is kept without a rate.
    equal: a pod of the same weight, to which reclaimed tasks do not yield; "" for none.
    """

    now: float
    lendable: int
    threads: int
    measured: bool
    online: int
    system: int
    peak: int
    dwell_s: float
    known_since: float
    age_s: float
    late_s: float
    period_s: float
    stall: Stall
    rise: int = 0
    yields: bool = False
    most: int = 0
    learns_until: float = _NEVER
    equal: str = ""


class Verdict(NamedTuple):
    """The result of one decision.

    lent: the new state.
    binding: the term that decided.
    now_milli, peak_milli: headroom by present use and by peak use, milli-CPU.
    unused_milli: CPU that online pods left unused at peak use, lent or not; milli-CPU.
    """

    lent: Lent
    binding: Binding
    now_milli: int = 0
    peak_milli: int = 0
    unused_milli: int = 0


class Grounds(NamedTuple):
    """All inputs and the result of one decision: its reason can be derived from them."""

    before: Lent
    verdict: Verdict
    scene: Scene
    tuning: ReclaimTuning


def decide(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> Verdict:
    """Return the new size: it grows by a step at most, shrinks at once, and never grows on doubtful readings."""
    if tuning.paused:
        return _floor(lent, scene, Binding.PAUSED)
    if scene.known_since == _NEVER:
        return _kept(lent, scene) if scene.now < scene.learns_until else _floor(lent, scene, Binding.LEARNING)
    if scene.age_s > tuning.stale_s:
        return _floor(lent, scene, Binding.STALE)
    if scene.late_s > tuning.stale_s:
        return _floor(lent, scene, Binding.LATE)
    floor = floor_cpus(scene.lendable, scene.threads)
    if lent.cpus < floor:
        # more CPUs became lendable: the floor is now a whole core of them
        lent = lent._replace(cpus=floor)
    now_milli = headroom_milli(scene.lendable, scene.online + scene.system, tuning)
    peak_milli = headroom_milli(scene.lendable, scene.peak, tuning)
    if _stalls(scene, tuning):
        after, binding = _relieved(lent, scene, now_milli, tuning), Binding.STALL
        return Verdict(after, binding, now_milli, peak_milli, after.milli)
    if now_milli < lent.milli or lent.cpus > scene.lendable:
        after = _shrunk(lent, scene, min(now_milli, lent.milli), tuning)
        binding = Binding.SCHEDULE if tuning.lend < lent.lend else Binding.ONLINE_USE
    else:
        after, binding = _grown(lent, scene, peak_milli, tuning)
    after = _following(_with_more(after, scene, now_milli, tuning), binding, tuning)
    unused = after.milli if tuning.lend == 1.0 else unused_milli(scene.lendable, scene.peak, tuning)
    return Verdict(after, binding, now_milli, peak_milli, unused)


def _following(lent: Lent, binding: Binding, tuning: ReclaimTuning) -> Lent:
    """Return the state with the present part of the headroom, if the size follows it by now.

    A part that rose is followed step by step. Until then the cause of a growth is the schedule, not online use.
    """
    if lent.lend == tuning.lend or (tuning.lend > lent.lend and binding not in _SETTLED):
        return lent
    return lent._replace(lend=tuning.lend)


def _stalls(scene: Scene, tuning: ReclaimTuning) -> bool:
    """Return whether online pods stall because of reclaimed pods.

    Behind tasks that yield, online tasks wait for moments only. A suppression for each of them would cost more than
    it gives. There only a lasting stall counts, at half of the bound.
    """
    stall = scene.stall
    return stall.lasting > tuning.stall / 2 if scene.yields else stall.blamed > tuning.stall


def _kept(lent: Lent, scene: Scene) -> Verdict:
    """Return the size found at the start: without a measurement nothing is taken back, and nothing is lent."""
    floor = floor_cpus(scene.lendable, scene.threads)
    return Verdict(lent._replace(cpus=max(floor, min(lent.cpus, scene.lendable))), Binding.LEARNING)


def _floor(lent: Lent, scene: Scene, binding: Binding) -> Verdict:
    cpus = floor_cpus(scene.lendable, scene.threads)
    return Verdict(lent._replace(milli=0, cpus=cpus, cut_at=scene.now, more=Yielded()), binding)


def _cpus(milli: int, scene: Scene, tuning: ReclaimTuning) -> int:
    return whole_cpus(milli, scene.lendable, scene.threads, tuning.whole_core_from)


def _shrunk(lent: Lent, scene: Scene, milli: int, tuning: ReclaimTuning) -> Lent:
    """Return the state after the headroom fell. If the pool loses no whole core, only `milli` falls."""
    cpus = min(lent.cpus, _cpus(milli, scene, tuning))
    if cpus == lent.cpus:
        return lent._replace(milli=milli)
    return lent._replace(milli=milli, cpus=cpus, cut_at=scene.now, hold_s=_hold_s(lent, scene, tuning))


def _hold_s(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> float:
    """Return the dwell after this suppression, seconds.

    It doubles if the last growth is taken back soon, and only once for all suppressions of one burst.
    """
    held = max(lent.hold_s, tuning.dwell_s)
    if lent.grown_at <= lent.cut_at:
        return held
    if scene.now - lent.grown_at > 2 * held:
        return tuning.dwell_s
    return max(tuning.dwell_s, min(2 * held, tuning.dwell_max_s))


def _relieved(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """Return the state after a stall: the extra core is taken back first."""
    after = lent if lent.more.cpus and now_milli >= lent.milli else _cut(lent, scene, now_milli, tuning)
    if after.cpus == lent.box:
        return after  # the pool is at its floor already: its size is not the cause of the stall
    return after._replace(more=relieved(lent.more, scene.now, tuning))


def _with_more(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """Return the state with the extra core, if reclaimed tasks yield."""
    if not scene.yields:
        return lent._replace(more=Yielded()) if lent.more.cpus else lent
    ground = Ground(
        now=scene.now,
        cpus=lent.cpus,
        lendable=scene.lendable,
        core=scene.threads,
        milli=now_milli,
        rise=scene.rise,
        doubtful=_forbids(scene) is not None or scene.now - scene.known_since < tuning.dwell_s,
        step_s=lent.step_s(tuning),
    )
    return lent._replace(more=decide_extra_core(lent.more, ground, tuning))


def _cut(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """Return the state after a stall.

    `tuning.cut` of the pool stays, in whole cores rounded down, and at least one core is taken back.
    """
    cores = int(lent.cpus * tuning.cut) // scene.threads * scene.threads
    cpus = min(cores, lent.cpus - scene.threads)
    milli = min(lent.milli, now_milli, max(0, cpus) * 1000)
    return _shrunk(lent, scene, milli, tuning)._replace(cut_at=scene.now)


def _grown(lent: Lent, scene: Scene, peak_milli: int, tuning: ReclaimTuning) -> tuple[Lent, Binding]:
    step = lent.milli + step_milli(scene.lendable, tuning)
    milli = min(peak_milli, step)
    # lend a core only with the dead band above it: else the next ripple of a steady load takes it back
    band = dead_band_milli(scene.lendable, tuning)
    cpus = _cpus(milli - band, scene, tuning)
    if milli < lent.milli + band and cpus <= lent.cpus:
        return lent, _forbids(scene) or _at_rest(lent, scene, peak_milli)
    waits = _forbids(scene) or _awaits(lent, scene, tuning)
    if waits is not None:
        return lent, waits
    grown = lent._replace(milli=max(milli, lent.milli), cpus=max(cpus, lent.cpus), grown_at=scene.now)
    return grown, Binding.GROWTH_STEP if step < peak_milli else Binding.ONLINE_USE


def _forbids(scene: Scene) -> Binding | None:
    """Return the reason that makes this tick's readings doubtful, or None."""
    if scene.late_s >= 2 * scene.period_s:
        return Binding.LATE
    return None if scene.measured else Binding.STALE


def _awaits(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> Binding | None:
    """Return the reason for which growth has to wait, or None."""
    known, uncut = scene.now - scene.known_since, scene.now - lent.cut_at
    if min(known, uncut) < scene.dwell_s:
        return Binding.DWELL
    return Binding.GROWTH_STEP if scene.now - lent.grown_at < lent.step_s(tuning) else None


def _at_rest(lent: Lent, scene: Scene, peak_milli: int) -> Binding:
    if lent.cpus >= scene.lendable:
        return Binding.ALL_LENT
    return Binding.FLOOR if peak_milli < 1000 else Binding.DEAD_BAND
