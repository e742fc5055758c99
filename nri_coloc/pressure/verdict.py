"""Judge whether an online pod is hurt: its stall for a resource, compared with its own baseline at the same load.

A stall is the share of the time in which a task of the pod waited for the resource (PSI `some`). The pod's own
throttling and the hypervisor's steal are subtracted first: reclaimed pods cause neither. For I/O the wait is the stall
divided by the operations, because a pod that only reads waits all the time, also alone on a fast disk. For the other
resources the wait is the stall.

    hurt: wait > baseline * factor(tolerance) + spreads(resource) * spread, and wait > baseline + margin

The first bound is the pod's usual variation, the second one what matters to it. The margin is a fifth of the time in
which the pod is active: its own CPU time and the wait of its baseline. A request then takes a fifth longer. A server
that uses a tenth of a CPU is hurt by less waiting than one that uses a whole CPU. For I/O the margin is divided by the
operations too. So it needs no latency that fits one disk.

A reading of less than a second may be wrong by more than the margin. If its wait is above the bound that a reading of a
second has, and not above its own one, it is unknown, and nothing is learned from it.

The baseline is learned for each load (a power of four) from the pod's own readings. It follows calm readings in two
minutes and hurt readings in an hour: then a workload that changed for good is normal again. While a reclaimed pod is
throttled for the pod, calm readings count as hurt ones: a limit leaves waits up to the bound. A closed-loop pod does
less work while it is hurt, so a load without a baseline takes the baseline of the next higher load. A load above all
known loads is the pod's own burst and has no verdict until it is learned. Neither has an unknown reading.

A large I/O operation takes longer, also alone on the disk, but at most in proportion to its size. So the baseline is
multiplied by the size of an operation, relative to the size at which it was learned, if that is more than 1.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core.workload import Tolerance

ENOUGH: Final = 10
"""Readings after which a load has a baseline: ten seconds."""

REMEMBERED: Final = 128
"""Calm readings of which a baseline is the mean; of more, the older ones fade.

That is twice the turns in which culprits are searched (`culprit.TURNS`): a baseline that followed faster would learn a
hurt that rises slowly before there is a culprit.
"""

_HURT_PACE: Final = 0.0005
"""Weight of one hurt reading in a known baseline: most of an hour of readings."""

_FACTORS: Final[Mapping[Tolerance, float]] = {
    Tolerance.LOW: 1.25,
    Tolerance.NORMAL: 1.5,
    Tolerance.HIGH: 3.0,
}


class Resource(StrEnum):
    """The resources for which pods wait."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"


_SPREADS: Final[Mapping[Resource, float]] = {Resource.CPU: 2.5, Resource.MEMORY: 2.5, Resource.IO: 3.0}
"""Spreads that are usual variation: with fewer, waits for a disk have three times as many false verdicts."""

_PART: Final = 0.2
"""The margin, part of the time in which the pod is active."""

_TICK_S: Final = 0.01
"""The longest tick of a kernel (HZ=100)."""

RESOLUTION_S: Final = 2 * _TICK_S
"""Seconds by which a stall may be wrong.

PSI weighs each CPU by its whole ticks since the last reading (`collect_percpu_times` in kernel/sched/psi.c), so that is
a tick at each end of an interval.
"""

_MOST: Final[Mapping[Resource, float]] = {Resource.CPU: 0.2, Resource.MEMORY: 0.1, Resource.IO: 0.05}
"""The largest margins, shares of the time: otherwise a pod that uses many CPUs would bear any wait."""


class Strain(NamedTuple):
    """One pod's wait for one resource in one interval.

    stall: share of the time in which a task waited, 0 to 1, without `own` and `stolen`.
    operations: I/O operations a second; 0 for the other resources.
    own: share of the time that the pod's own limit explains.
    stolen: share of the time that the hypervisor took.
    size: bytes of one I/O operation; 0 for the other resources.
    resolution: share of the time by which the stall may be wrong; no margin is below it.
    cpu: the pod's own use of CPUs, milli-CPU.
    """

    stall: float
    operations: float = 0.0
    own: float = 0.0
    stolen: float = 0.0
    size: float = 0.0
    resolution: float = 0.0
    cpu: float = 0.0


class Level(NamedTuple):
    """The baseline at one load.

    readings: number of calm readings, at most `REMEMBERED`.
    mean: mean wait.
    spread: mean distance from the mean.
    size: mean bytes of one I/O operation.
    """

    readings: int = 0
    mean: float = 0.0
    spread: float = 0.0
    size: float = 0.0


Baseline = Mapping[int, Level]
"""By load, as a power of four; at most `LOADS` entries."""

LOADS: Final = 20

NO_BASELINE: Final[Baseline] = {}


class Judgement(NamedTuple):
    """The judgement of one reading.

    hurt: None if it is unknown.
    wait: share of the time; for I/O seconds for one operation.
    baseline, spread: mean wait at this load and size, and mean distance from it; None without a baseline.
    margin: wait above the baseline that matters.
    bound: the wait above which the pod is hurt, the larger of both bounds; None without a baseline.
    """

    hurt: bool | None
    wait: float = 0.0
    baseline: float | None = None
    spread: float | None = None
    margin: float | None = None
    bound: float | None = None


UNKNOWN: Final = Judgement(None)


def judge(
    known: Baseline,
    resource: Resource,
    strain: Strain | None,
    tolerance: Tolerance,
    *,
    protected: bool = False,
) -> tuple[Baseline, Judgement]:
    """Return the baseline after this reading, and its judgement; None as strain is a reading that failed.

    protected: whether a reclaimed pod is throttled for the pod.
    """
    if strain is None:
        return known, UNKNOWN
    wait, load = wait_of(resource, strain), _power(load_of(resource, strain))
    level = _of_size(_expected(known, load), strain.size)
    if level is None:
        return _learned(known, load, (wait, strain.size), slowly=protected), Judgement(None, wait)
    usual = level.mean * _FACTORS[tolerance] + _SPREADS[resource] * level.spread
    margin = _margin(resource, strain, level.mean, strain.resolution)
    of_a_second = min(strain.resolution, RESOLUTION_S)
    fine = _margin(resource, strain, level.mean, of_a_second)
    bound = max(usual, level.mean + margin)
    is_unclear = max(usual, level.mean + fine) < wait <= bound
    hurt = None if is_unclear else wait > bound
    judgement = Judgement(
        hurt=hurt, wait=wait, baseline=level.mean, spread=level.spread, margin=margin, bound=bound
    )
    if hurt is None:
        return known, judgement
    return _learned(known, load, (wait, strain.size), slowly=hurt or protected), judgement


def wait_of(resource: Resource, strain: Strain) -> float:
    """Return the figure that is compared: the stall, for I/O the seconds of stall for one operation."""
    return strain.stall / _parts(resource, strain)


def load_of(resource: Resource, strain: Strain) -> float:
    """Return the pod's own use of a resource: milli-CPU, or I/O operations a second; 0 for memory."""
    if resource is Resource.CPU:
        return strain.cpu
    return strain.operations


def longest_stall(resource: Resource, judgement: Judgement, strain: Strain) -> float:
    """Return the share of the time that a pod may wait at the load of its judged reading; inf without a baseline."""
    return inf if judgement.bound is None else judgement.bound * _parts(resource, strain)


def _margin(resource: Resource, strain: Strain, usual: float, resolution: float) -> float:
    """Return the wait above the `usual` one that no tolerance calls a hurt, in the unit of `wait_of`."""
    parts = _parts(resource, strain)
    active = strain.cpu / 1000 + usual * parts
    return max(min(_PART * active, _MOST[resource]), resolution) / parts


def _parts(resource: Resource, strain: Strain) -> float:
    """Return the number of parts of a stall that are compared: the I/O operations a second, else 1."""
    return max(1.0, strain.operations) if resource is Resource.IO else 1.0


def _power(load: float) -> int:
    """Return the power of four of a load."""
    return min((int(load).bit_length() + 1) // 2, LOADS - 1)


def _expected(known: Baseline, load: int) -> Level | None:
    """Return the baseline of a load, else of the next higher load that has one."""
    ready = [each for each, level in known.items() if each >= load and level.readings >= ENOUGH]
    return known[min(ready)] if ready else None


def _of_size(level: Level | None, size: float) -> Level | None:
    """Return a baseline for operations of a size; None if it was learned without operations."""
    if level is None or size <= level.size:
        return level
    if not level.size:
        return None
    larger = size / level.size
    return level._replace(mean=level.mean * larger, spread=level.spread * larger)


def _learned(known: Baseline, load: int, reading: tuple[float, float], *, slowly: bool) -> Baseline:
    """Return the baseline after a reading: its wait, and the size of an operation.

    slowly: for a hurt reading, or one beside a limit.
    """
    wait, size = reading
    level = known.get(load, Level())
    if slowly and not level.readings:
        return known  # a load that was only seen while hurt is no baseline
    readings = level.readings if slowly else min(REMEMBERED, level.readings + 1)
    if slowly:
        pace = _HURT_PACE if level.readings >= ENOUGH else 0.0
    else:
        pace = 1 / readings
    mean = level.mean + (wait - level.mean) * pace
    spread = level.spread + (abs(wait - mean) - level.spread) * pace
    return {**known, load: Level(readings, mean, spread, level.size + (size - level.size) * pace)}
