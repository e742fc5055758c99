"""How soon the fast loop looks again: quick while something can be taken back, slow while nothing can."""

from typing import Final

from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.headroom import dead_band_milli, floor_cpus
from nri_coloc.reclaim.usage import Use
from nri_coloc.reclaim.verdict import Scene, Verdict

QUIET_MILLI: Final = 20
"""A box that uses less than this disturbs nobody, milli-CPU."""

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
