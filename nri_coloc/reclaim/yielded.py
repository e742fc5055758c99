"""The core more of a box whose tasks yield: beyond the headroom, and gone at the first sign of harm.

A task of the least weight gives way to an online one that wakes up, and a CPU that never rests is woken sooner than one
that sleeps. So the core that online pods use in part is lent as well: on two CPUs it is half of the node
(docs/decisions/0026). Yet on a machine in full use the kernel looks no further than a task's last CPU for a place to
wake it on, so that online tasks may pile up on one CPU while offline ones have the other. Then they wait, and the core
is taken away for a moment: a CPU that is really idle pulls one of them over, and there it stays.
"""

from typing import NamedTuple

from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.headroom import dead_band_milli


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
