"""How much CPU may be lent: the formula, its whole cores, and the extra core for tasks of minimum weight."""

from math import sqrt
from typing import NamedTuple

from nri_coloc.core.settings import ReclaimTuning


def headroom_milli(lendable: int, use_milli: int, tuning: ReclaimTuning) -> int:
    """Return what may be lent while online pods and the system use so much, milli-CPU, 0 at least.

    `headroom_cpu = lendable x watermark - (online + system) - reserve`: Koordinator's suppression (capacity x
    threshold - used by all but offline - system) with what is not lendable left out on both sides: reserved and
    dedicated CPUs, those of other pools, and what runs on them. What the box itself uses is not in it: the answer does
    not depend on what was lent before.
    """
    return max(0, round(lendable * 1000 * tuning.watermark) - use_milli - tuning.reserve_milli)


def at_most(milli: int, most_cpus: int) -> int:
    """Return what of it the box may have where an operator lets it have so many CPUs at most; 0 is any number."""
    return min(milli, 1000 * most_cpus) if most_cpus else milli


def step_milli(lendable: int, tuning: ReclaimTuning) -> int:
    """Return the most by which the headroom grows at once: large machines take larger steps (Koordinator: 10 %)."""
    return max(tuning.step_milli, round(lendable * 1000 * tuning.step_share))


def dead_band_milli(lendable: int, tuning: ReclaimTuning) -> int:
    """Return how far the headroom must lie above what is lent before the box grows.

    Given for 8 CPUs; the noise of a sum of n independent CPUs grows with sqrt(n), and the band with it.
    """
    return round(tuning.dead_band_milli * max(1.0, sqrt(lendable / 8)))


def floor_cpus(lendable: int, threads_per_core: int) -> int:
    """Return the least the box ever has: one core, so that offline pods stay alive and end by themselves."""
    return max(1, min(threads_per_core, lendable))


def whole_cpus(milli: int, lendable: int, threads_per_core: int, whole_core_from: float) -> int:
    """Return so many CPUs for that headroom, in whole cores: from the floor to all that is lendable.

    Siblings of a core are never split between box and online pods, where the lendable CPUs are whole cores themselves.
    """
    core = 1000 * max(1, threads_per_core)
    part = min(core, max(1, round(core * whole_core_from)))
    cpus = (milli + core - part) // core * max(1, threads_per_core)
    return max(floor_cpus(lendable, threads_per_core), min(cpus, lendable))


class Yielded(NamedTuple):
    """`cpus` beyond the headroom; not before `back_at`. `relief_s`: how long the last stall took them away."""

    cpus: int = 0
    back_at: float = float("-inf")
    relief_s: float = 0.0


class Ground(NamedTuple):
    """What decides it. `cpus`: of the box by its headroom, of so many `lendable`; `core`: a core's CPUs.

    `milli`: the headroom by present use; `rise`: how far use lies above all of the dwell before. `doubtful`: nothing
    may grow on these readings. `step_s`: how long the box's size has to stand for what a change of it costs
    (`verdict.Lent.step_s`).
    """

    now: float
    cpus: int
    lendable: int
    core: int
    milli: int
    rise: int
    doubtful: bool
    step_s: float = 0.0


def decide(before: Yielded, ground: Ground, tuning: ReclaimTuning) -> Yielded:
    """Return what the box has beyond its headroom: nothing after use rose by more than a ripple, for the dwell.

    On a node of many members for as long as it takes that what both changes cost stays within the loop's share.
    """
    band = dead_band_milli(ground.lendable, tuning)
    if ground.rise > band:
        wait_s = max(tuning.dwell_s, ground.step_s if before.cpus else 0.0)
        return before._replace(cpus=0, back_at=max(before.back_at, ground.now + wait_s))
    spare = ground.milli - 1000 * ground.core * tuning.yielded_from
    room = min(ground.core, ground.lendable - ground.cpus)
    if before.cpus:
        return before._replace(cpus=room) if spare >= 0 else relieved(before, ground.now, tuning)
    waits = ground.doubtful or ground.now < before.back_at
    return before if waits or spare < band else before._replace(cpus=room)


def relieved(before: Yielded, now: float, tuning: ReclaimTuning) -> Yielded:
    """Return what is left where online pods wait: nothing for a moment, twice as long soon after the last one."""
    soon = now - before.back_at < tuning.dwell_s
    relief_s = min(2 * before.relief_s, tuning.dwell_max_s) if soon and before.relief_s else tuning.relief_s
    return Yielded(0, now + relief_s, relief_s)
