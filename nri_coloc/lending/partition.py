"""Run the fast loop where pools are sized by load: `tick` turns the use of each tier's members into all sizes.

A burst that left its tier's band changes sizes in the tick that shows it, and takes CPUs from `reclaim` first. Growth
of `reclaim` is slow: after the dwell, a step at a time, no step on a late tick, and none without a measurement. If a
tier was not measured for long, or if a tick comes far too late, every tier gets all CPUs that its members ask for.
`reclaim` then has its smallest size (docs/testing.md, invariant 5). Total and deterministic; time is an argument.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.readings import FastReadings, Role
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import RECLAIM
from nri_coloc.lending import bands, usage
from nri_coloc.lending.bands import Allocatable, Memory, Tier
from nri_coloc.lending.pool_size import affordable, at_most, step_milli
from nri_coloc.lending.usage import Meter

_NEVER: Final = float("-inf")
_NO_METERS: Final[Mapping[int, Meter]] = MappingProxyType({})


class Load(NamedTuple):
    """A tier's use.

    milli: use as judged, milli-CPU.
    known_at: time of the last measurement.
    """

    milli: int
    known_at: float


class _Rate(NamedTuple):
    """The use of a tier's members.

    milli: sum of the members' rates, milli-CPU.
    span_s: the shortest interval of these rates.
    """

    milli: int
    span_s: float


_NO_RATE: Final = _Rate(0, float("inf"))
_NO_LOADS: Final[Mapping[str, Load]] = MappingProxyType({})


class PartitionMemory(NamedTuple):
    """The loop's state between two ticks. An empty one is the start.

    `grown_at`: time of the last growth of `reclaim`.
    """

    at: float = _NEVER
    meters: Mapping[int, Meter] = _NO_METERS
    loads: Mapping[str, Load] = _NO_LOADS
    bands: Memory = Memory()
    grown_at: float = _NEVER
    period_s: float = 0.02


class PartitionTick(NamedTuple):
    """One tick's result.

    memory: state for the next tick.
    sizes: CPUs by tier, and of `reclaim`.
    because: the reason in words.
    loads: CPUs used by each tier whose use is known.
    headroom: CPU that may be lent now.
    next_s: seconds to the next tick.
    """

    memory: PartitionMemory
    sizes: Mapping[str, int]
    because: str
    loads: Mapping[str, float]
    headroom: Headroom
    next_s: float


def tick(
    memory: PartitionMemory,
    readings: FastReadings,
    tiers: Sequence[Tier],
    tuning: ReclaimTuning,
    now: float,
) -> PartitionTick:
    """Return the size of every pool for these readings. `readings.lendable`: CPUs of all these pools together.

    After a clock that went back, the loop starts again as at the first tick.
    """
    if now < memory.at:
        memory = PartitionMemory()
    late = usage.late_s(readings, now, memory.at, memory.period_s)
    meters = usage.advance(memory.meters, readings, tuning.stale_s)
    loads = _loads(memory._replace(meters=meters), readings.counters_s, tiers, tuning, now)
    known = {name: load.milli / 1000 for name, load in loads.items() if load.known_at == now}
    allocatable = Allocatable(max(1, readings.lendable), _step(memory, readings, late, tuning, now))
    unusable = _unusable(late, tuning)
    use, lasting = ({}, Memory()) if unusable else (known, _lasting(memory.bands, tiers, loads, tuning, now))
    sized, sizes, why = bands.sizes(tiers, use, allocatable, lasting, tuning, now)
    grown = sizes[RECLAIM] > memory.bands.sizes.get(RECLAIM, sizes[RECLAIM])
    next_s = _next_period(tiers, sizes, known, tuning, readings.mean_took_s)
    after = PartitionMemory(
        at=now,
        meters=meters,
        loads=loads,
        bands=sized,
        grown_at=now if grown else memory.grown_at,
        period_s=next_s,
    )
    return PartitionTick(
        memory=after,
        sizes=sizes,
        because=f"pools resized: {unusable}{why}",
        loads=known,
        headroom=_headroom(sizes[RECLAIM], loads, readings.most),
        next_s=next_s,
    )


def _headroom(reclaim_cpus: int, loads: Mapping[str, Load], most_cpus: int) -> Headroom:
    """Return the headroom of a size of `reclaim`. `most_cpus`: the operator's maximum, 0 for none."""
    unused = 1000 * reclaim_cpus
    return Headroom(
        cpu_milli=at_most(unused, most_cpus),
        online_cpu_milli=sum(load.milli for load in loads.values()),
        binding=Binding.TIERS,
        unused_milli=unused,
    )


def _unusable(late: float, tuning: ReclaimTuning) -> str:
    """Return why measurements do not count, so that each tier gets its containers' requests; "" if they count."""
    if tuning.paused:
        return f"each tier has the CPUs that its containers request: {tuning.paused}; "
    # an average over so long hides the peaks within it
    if late <= tuning.stale_s:
        return ""
    return f"each tier has the CPUs that its containers request: the tick was {late:.2f} s late; "


def _loads(
    memory: PartitionMemory,
    counters_s: float,
    tiers: Sequence[Tier],
    tuning: ReclaimTuning,
    now: float,
) -> dict[str, Load]:
    """Return every tier's load, judged or last known.

    A load is judged if all members of the tier have a rate. It is also judged if the members with a rate already use
    more than all members did before. Else the last known load stays.
    """
    rated: dict[str, _Rate] = {}
    unrated = set()
    for meter in memory.meters.values():
        if meter.role is not Role.TIER:
            continue
        if meter.until < now:
            unrated.add(meter.tier)
        else:
            milli, span_s = rated.get(meter.tier, _NO_RATE)
            rated[meter.tier] = _Rate(milli + meter.milli, min(span_s, meter.span_s))
    found = {t.name: memory.loads[t.name] for t in tiers if t.name in memory.loads}
    for tier in tiers:
        rate, former = rated.get(tier.name), found.get(tier.name)
        if rate is None:
            continue
        behind_s = usage.behind_s(max(1, memory.bands.sizes.get(tier.name, 1)), counters_s)
        milli = _judged(rate, former, behind_s, tuning)
        if tier.name not in unrated or (former is not None and milli > former.milli):
            found[tier.name] = Load(milli, now)
    return found


def _judged(rate: _Rate, former: Load | None, behind_s: float, tuning: ReclaimTuning) -> int:
    """Return the use that counts, milli-CPU: a burst counts at once, the coarseness of counters never."""
    mean, window_s = (former.milli, tuning.average_s) if former is not None else (0, 0.0)
    return usage.judged(rate.milli, rate.span_s, mean, window_s, behind_s)


def _step(
    memory: PartitionMemory, readings: FastReadings, late: float, tuning: ReclaimTuning, now: float
) -> int:
    """Return by how many CPUs `reclaim` may grow now: whole cores, one step at a time, none on a late tick."""
    if late >= 2 * memory.period_s or now - memory.grown_at < tuning.step_s:
        return 0
    threads = max(1, readings.threads_per_core)
    whole = step_milli(max(1, readings.lendable), tuning) // 1000
    return max(whole // threads * threads, threads)


def _lasting(
    before: Memory, tiers: Sequence[Tier], loads: Mapping[str, Load], tuning: ReclaimTuning, now: float
) -> Memory:
    """Return the state without the sizes of tiers whose load is stale: these tiers get the CPUs that are asked for."""
    stale = {t.name for t in tiers if t.band is not None and _is_stale(loads.get(t.name), tuning, now)}
    if not stale:
        return before
    return Memory(
        {name: size for name, size in before.sizes.items() if name not in stale},
        {name: idle for name, idle in before.idle.items() if name not in stale},
    )


def _is_stale(load: Load | None, tuning: ReclaimTuning, now: float) -> bool:
    return load is None or now - load.known_at > tuning.stale_s


def _next_period(
    tiers: Sequence[Tier],
    sizes: Mapping[str, int],
    loads: Mapping[str, float],
    tuning: ReclaimTuning,
    mean_took_s: float,
) -> float:
    """Return the seconds to the next tick.

    The time is short while a tier that may grow uses more than half of the load that makes it grow.
    """
    growing = [tier for tier in tiers if tier.band is not None and sizes[tier.name] < tier.most]
    if not growing:
        return affordable(tuning.quiet_tick_s, mean_took_s)
    if not any(_is_loaded(tier, sizes, loads) for tier in growing):
        # each of these tiers has room for twice its load in its own pool
        least_s, most_s = tuning.tick_max_s, tuning.quiet_tick_s
    else:
        least_s, most_s = tuning.tick_s, tuning.tick_max_s
    return affordable(max(least_s, min(mean_took_s / tuning.cost_share, most_s)), mean_took_s)


def _is_loaded(tier: Tier, sizes: Mapping[str, int], loads: Mapping[str, float]) -> bool:
    assert tier.band is not None  # asked of tiers with a band only
    return loads.get(tier.name, 0.0) > tier.band[1] * sizes[tier.name] / 2
