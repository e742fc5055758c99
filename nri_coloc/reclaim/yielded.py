"""The core more of a box whose tasks yield: beyond the headroom, and gone at the first sign of harm.

A CPU that runs nothing but SCHED_IDLE tasks counts as idle when a place is sought for an online task that wakes up
(kernel/sched/fair.c, sched_idle_cpu), and a CPU that never rests is woken sooner than one that sleeps. So the core that
online pods use in part is lent as well: on two CPUs it is half of the node (docs/decisions/0025). Yet the kernel looks
for idle CPUs only as far as the machine's use lets it hope for one (SIS_UTIL), so that online tasks may pile up on one
CPU while there is another to have. Then they wait, and the core is taken away for a moment: a CPU that is really idle
pulls one of them over.
"""

from typing import NamedTuple

from nri_coloc.model.tuning import ReclaimTuning


class Yielded(NamedTuple):
    """`cpus` beyond the headroom; not before `back_at`. `relief_s`: how long the last stall took them away."""

    cpus: int = 0
    back_at: float = float("-inf")
    relief_s: float = 0.0


class Ground(NamedTuple):
    """What decides it. `room`: CPUs that the box might have beyond the headroom, a core at most; `core`: a core's CPUs.

    `milli`: the headroom by present use, `band`: its dead band; `rise`: how far use lies above all of the dwell before.
    `doubtful`: nothing may grow on these readings.
    """

    now: float
    room: int
    core: int
    milli: int
    band: int
    rise: int
    doubtful: bool


def bursts(rise: int, tuning: ReclaimTuning) -> bool:
    """Whether online pods just began to use much more than at any time of the dwell; `rise` in milli-CPU."""
    return rise > 1000 * tuning.yielded_from


def decide(before: Yielded, ground: Ground, tuning: ReclaimTuning) -> Yielded:
    """Return what the box has beyond its headroom: nothing while use rises steeply, and for the dwell after that."""
    if bursts(ground.rise, tuning):
        return before._replace(cpus=0, back_at=max(before.back_at, ground.now + tuning.dwell_s))
    spare = ground.milli - 1000 * ground.core * tuning.yielded_from
    if before.cpus:
        return before._replace(cpus=ground.room) if spare >= 0 else relieved(before, ground.now, tuning)
    waits = ground.doubtful or ground.now < before.back_at
    return before if waits or spare < ground.band else before._replace(cpus=ground.room)


def relieved(before: Yielded, now: float, tuning: ReclaimTuning) -> Yielded:
    """Return what is left where online pods wait: nothing for a moment, twice as long soon after the last one."""
    soon = now - before.back_at < tuning.dwell_s
    relief_s = min(2 * before.relief_s, tuning.dwell_max_s) if soon and before.relief_s else tuning.relief_s
    return Yielded(0, now + relief_s, relief_s)
