"""The fast loop where pools are sized by load: `tick` turns what the members of each tier used into all sizes.

A burst that has left its tier's band is met in the tick that shows it, for it takes from `reclaim` first. What makes
`reclaim` larger is slow: the dwell, a step at a time, no step on a late tick, and none on what was not measured. A tier
that was not measured for long, or a tick that comes far too late, gives every tier all that its members ask for:
what `reclaim` has then is the least it ever has (DESIGN 3, invariant 5). Total and deterministic; time is an argument.
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
from nri_coloc.lending.headroom import at_most, step_milli
from nri_coloc.lending.usage import Meter

_NEVER: Final = float("-inf")
_NO_METERS: Final[Mapping[int, Meter]] = MappingProxyType({})


class Load(NamedTuple):
    """What a tier uses as judged, milli-CPU, and when that was last known."""

    milli: int
    known_at: float


class _Rate(NamedTuple):
    """The sum of the rates of a tier's members, milli-CPU, and the shortest interval that one of them stands for."""

    milli: int
    span_s: float


_NO_RATE: Final = _Rate(0, float("inf"))
_NO_LOADS: Final[Mapping[str, Load]] = MappingProxyType({})


class PartitionMemory(NamedTuple):
    """What the loop knows between ticks; the empty one is the start. `grown_at`: when `reclaim` last grew."""

    at: float = _NEVER
    meters: Mapping[int, Meter] = _NO_METERS
    loads: Mapping[str, Load] = _NO_LOADS
    bands: Memory = Memory()
    grown_at: float = _NEVER
    period_s: float = 0.02


class PartitionTick(NamedTuple):
    """One tick's result. `sizes`: CPUs by tier and of `reclaim`; `loads`: CPUs used by each tier that is known."""

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
    """Size every pool by what was just read; `readings.lendable`: CPUs of all of them together.

    A clock that went back begins anew, as at the start.
    """
    if now < memory.at:
        memory = PartitionMemory()
    late = _late(memory, readings, now)
    meters = usage.advance(memory.meters, readings, tuning.stale_s)
    loads = _loads(memory._replace(meters=meters), readings.counters_s, tiers, tuning, now)
    known = {name: load.milli / 1000 for name, load in loads.items() if load.known_at == now}
    allocatable = Allocatable(max(1, readings.lendable), _step(memory, readings, late, tuning, now))
    if tuning.paused:
        sized, sizes, why = bands.sizes(tiers, {}, allocatable, Memory(), tuning, now)
        because = f"{tuning.paused}: every tier has the CPUs that its members ask for; {why}"
    elif late > tuning.stale_s:
        # an average over so long hides whatever peaked within it
        sized, sizes, why = bands.sizes(tiers, {}, allocatable, Memory(), tuning, now)
        because = f"tick {late:.2f} s late, more than {tuning.stale_s} s; {why}"
    else:
        lasting = _lasting(memory.bands, tiers, loads, tuning, now)
        sized, sizes, because = bands.sizes(tiers, known, allocatable, lasting, tuning, now)
    grown = sizes[RECLAIM] > memory.bands.sizes.get(RECLAIM, sizes[RECLAIM])
    next_s = _next_period(tiers, sizes, known, tuning, readings.mean_took_s)
    after = PartitionMemory(now, meters, loads, sized, now if grown else memory.grown_at, next_s)
    used = sum(load.milli for load in loads.values())
    unused = 1000 * sizes[RECLAIM]
    headroom = Headroom(at_most(unused, readings.most), 0, used, Binding.TIERS, unused)
    return PartitionTick(after, sizes, because, known, headroom, next_s)


def _late(memory: PartitionMemory, readings: FastReadings, now: float) -> float:
    """Return how late this tick is by whatever shows it: the shell's plan, the age of the readings, our own advice."""
    since_advice = now - memory.at - memory.period_s if memory.at != _NEVER else 0.0
    return max(readings.late_s, now - readings.at, since_advice)


def _loads(
    memory: PartitionMemory,
    counters_s: float,
    tiers: Sequence[Tier],
    tuning: ReclaimTuning,
    now: float,
) -> dict[str, Load]:
    """Return every tier's load: judged anew where all its members have a rate, or where those that have one use more
    already than all did before; else what was known last."""
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
    """Return the rate as it counts: a burst at once, the coarseness of counters never."""
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
    """Return the memory without the sizes that nothing recent stands for: those tiers get what is asked for."""
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
    """Return the seconds to the next tick: quick while a tier that may grow uses half of what would make it grow."""
    growing = [tier for tier in tiers if tier.band is not None and sizes[tier.name] < tier.most]
    if not growing:
        return tuning.quiet_tick_s
    if not any(_is_loaded(tier, sizes, loads) for tier in growing):
        # each has room for twice its load in its own pool, and more
        return max(tuning.tick_max_s, min(mean_took_s / tuning.cost_share, tuning.quiet_tick_s))
    return max(tuning.tick_s, min(mean_took_s / tuning.cost_share, tuning.tick_max_s))


def _is_loaded(tier: Tier, sizes: Mapping[str, int], loads: Mapping[str, float]) -> bool:
    assert tier.band is not None  # asked of tiers with a band only
    return loads.get(tier.name, 0.0) > tier.band[1] * sizes[tier.name] / 2
