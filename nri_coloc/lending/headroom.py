"""Compute the CPU that may be lent: the formula, its whole cores, and the extra core for tasks of minimum weight."""

from math import inf, sqrt
from typing import NamedTuple

from nri_coloc.core.settings import ReclaimTuning


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
    step_s: seconds for which a size must stand because of the cost of a change (`pool_size.Lent.step_s`).
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
