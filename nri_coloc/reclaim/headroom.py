"""How much CPU may be lent: the formula, and how its milli-CPU become whole cores."""

from math import sqrt

from nri_coloc.model.tuning import ReclaimTuning


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
