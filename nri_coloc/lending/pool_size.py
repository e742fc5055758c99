"""How large the box is now: the one decision of the fast loop.

Additive growth, multiplicative cut (as TCP, and Katalyst's "up fast, down slow" turned round: here the box is what
yields). What must not happen is decided first: no measurement, a stall, too little headroom; then what may.
"""

from typing import NamedTuple

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import headroom
from nri_coloc.lending.headroom import (
    Yielded,
    dead_band_milli,
    floor_cpus,
    headroom_milli,
    step_milli,
    whole_cpus,
)
from nri_coloc.lending.stall import Stall

_NEVER = float("-inf")


class Lent(NamedTuple):
    """What is lent between two ticks.

    `milli`: the headroom as granted, what the steps and the dead band act on; `cpus`: the box, whole cores of it
    (0: nothing was decided yet), `more`: what it has beyond that. `cut_at`: when it last had to give way, `grown_at`:
    when it last grew; `hold_s`: the dwell that the last cut left; `growth_took_s`: CPU time of the last tick that let
    it grow, with its writes.
    """

    milli: int = 0
    cpus: int = 0
    cut_at: float = _NEVER
    grown_at: float = _NEVER
    hold_s: float = 0.0
    growth_took_s: float = 0.0
    more: Yielded = Yielded()

    @property
    def box(self) -> int:
        """CPUs of the box, all in all."""
        return self.cpus + self.more.cpus

    def dwell_s(self, now: float, tuning: ReclaimTuning) -> float:
        """Return how long the headroom must have borne a growth, seconds.

        It doubles with each growth that had to be taken back soon, so that a load with bursts is met at its bursts;
        after four times as long without a cut it is as short as at first, and growth is tried again.
        """
        return self.hold_s if now - self.cut_at <= 4 * self.hold_s else tuning.dwell_s

    def step_s(self, tuning: ReclaimTuning) -> float:
        """Return how long to wait between two growths.

        Each is written to every member, and so is the cut that may follow it: on a node of many members both together
        stay within the loop's share of a CPU.
        """
        return max(tuning.step_s, 2 * self.growth_took_s / tuning.cost_share)


class Scene(NamedTuple):
    """What one tick knows. Uses are milli-CPU as judged, times seconds.

    `measured`: there is a new rate of this tick. `peak`: of the last `dwell_s`, `known_since`: since when that has no
    gap (-inf: there was no rate yet). `age_s`: of the oldest rate that counts. `late_s`: of the tick, `period_s`: what
    was planned between two. `rise`: how far the use lies above all of the dwell before, milli-CPU; `yields`: whether
    every task of the box gives way at once. `most`: CPUs that an operator lets the box have, 0 for any number: what is
    decided here knows no bounds, and is cut to them where it is told and carried out.
    `learns_until`: how long a box that was found is kept without a rate. `equal`: a pod that it does not give way to,
    which weighs as little.
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
    """The new state, and which term bound it. `now_milli`, `peak_milli`: the headroom by present and peak use."""

    lent: Lent
    binding: Binding
    now_milli: int = 0
    peak_milli: int = 0


def decide(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> Verdict:
    """Decide how much is lent: grows by a step at most, shrinks at once, and never grows on doubtful readings."""
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
        return Verdict(after, binding, now_milli, peak_milli)
    if now_milli < lent.milli or lent.cpus > scene.lendable:
        after, binding = _shrunk(lent, scene, min(now_milli, lent.milli), tuning), Binding.ONLINE_USE
    else:
        after, binding = _grown(lent, scene, peak_milli, tuning)
    return Verdict(_with_more(after, scene, now_milli, tuning), binding, now_milli, peak_milli)


def _stalls(scene: Scene, tuning: ReclaimTuning) -> bool:
    """Whether online pods wait because of the box.

    Behind tasks that yield they do so for moments, and a cut for each costs them more than it gives: what lasts counts,
    but half of it.
    """
    stall = scene.stall
    return stall.lasting > tuning.stall / 2 if scene.yields else stall.blamed > tuning.stall


def _kept(lent: Lent, scene: Scene) -> Verdict:
    """Nothing is known: nobody is taken anything from, and nobody is given anything."""
    floor = floor_cpus(scene.lendable, scene.threads)
    return Verdict(lent._replace(cpus=max(floor, min(lent.cpus, scene.lendable))), Binding.LEARNING)


def _floor(lent: Lent, scene: Scene, binding: Binding) -> Verdict:
    cpus = floor_cpus(scene.lendable, scene.threads)
    return Verdict(lent._replace(milli=0, cpus=cpus, cut_at=scene.now, more=Yielded()), binding)


def _cpus(milli: int, scene: Scene, tuning: ReclaimTuning) -> int:
    return whole_cpus(milli, scene.lendable, scene.threads, tuning.whole_core_from)


def _shrunk(lent: Lent, scene: Scene, milli: int, tuning: ReclaimTuning) -> Lent:
    """Give way at once to what is left; a box that loses no whole core only lowers what it may grow from."""
    cpus = min(lent.cpus, _cpus(milli, scene, tuning))
    if cpus == lent.cpus:
        return lent._replace(milli=milli)
    return lent._replace(milli=milli, cpus=cpus, cut_at=scene.now, hold_s=_hold_s(lent, scene, tuning))


def _hold_s(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> float:
    """Return the dwell after this cut: double where growth is taken back soon, once for all cuts of one burst."""
    held = max(lent.hold_s, tuning.dwell_s)
    if lent.grown_at <= lent.cut_at:
        return held
    if scene.now - lent.grown_at > 2 * held:
        return tuning.dwell_s
    return max(tuning.dwell_s, min(2 * held, tuning.dwell_max_s))


def _relieved(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """Give way to a stall: what the box has beyond its headroom goes first."""
    after = lent if lent.more.cpus and now_milli >= lent.milli else _cut(lent, scene, now_milli, tuning)
    if after.cpus == lent.box:
        return after  # at its floor already, it is not the size of the box that they wait for
    return after._replace(more=headroom.relieved(lent.more, scene.now, tuning))


def _with_more(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """Add what tasks that yield may have beyond the headroom."""
    if not scene.yields:
        return lent._replace(more=Yielded()) if lent.more.cpus else lent
    ground = headroom.Ground(
        scene.now,
        lent.cpus,
        scene.lendable,
        scene.threads,
        now_milli,
        scene.rise,
        _forbids(scene) is not None or scene.now - scene.known_since < tuning.dwell_s,
        lent.step_s(tuning),
    )
    return lent._replace(more=headroom.decide(lent.more, ground, tuning))


def _cut(lent: Lent, scene: Scene, now_milli: int, tuning: ReclaimTuning) -> Lent:
    """A stall leaves `tuning.cut` of the box, in whole cores rounded down, and one core less in any case."""
    cores = int(lent.cpus * tuning.cut) // scene.threads * scene.threads
    cpus = min(cores, lent.cpus - scene.threads)
    milli = min(lent.milli, now_milli, max(0, cpus) * 1000)
    return _shrunk(lent, scene, milli, tuning)._replace(cut_at=scene.now)


def _grown(lent: Lent, scene: Scene, peak_milli: int, tuning: ReclaimTuning) -> tuple[Lent, Binding]:
    step = lent.milli + step_milli(scene.lendable, tuning)
    milli = min(peak_milli, step)
    # a core is lent only with the dead band above it: else the next ripple of a steady load took it back
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
    """Return what makes this tick's readings doubtful, or None."""
    if scene.late_s >= 2 * scene.period_s:
        return Binding.LATE
    return None if scene.measured else Binding.STALE


def _awaits(lent: Lent, scene: Scene, tuning: ReclaimTuning) -> Binding | None:
    """Return what growth has to wait for, or None."""
    known, uncut = scene.now - scene.known_since, scene.now - lent.cut_at
    if min(known, uncut) < scene.dwell_s:
        return Binding.DWELL
    return Binding.GROWTH_STEP if scene.now - lent.grown_at < lent.step_s(tuning) else None


def _at_rest(lent: Lent, scene: Scene, peak_milli: int) -> Binding:
    if lent.cpus >= scene.lendable:
        return Binding.ALL_LENT
    return Binding.FLOOR if peak_milli < 1000 else Binding.DEAD_BAND
