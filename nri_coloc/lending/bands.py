"""Size pools by load: keep the utilisation of each online tier within a band, and give `reclaim` the remaining CPUs.

A tier above its band grows at once. A tier that stayed below its band for the dwell shrinks. Both get the size that
puts their load in the middle of the band, far from either edge, so that the next change comes late. (Meituan's LAR
resizes by load in bands, too.)

CPUs are given in several passes, and in each pass to higher priorities first: one CPU each, the minimum, the CPUs
that keep a tier at its upper edge, and the CPUs that it wants beyond that. In the last two a CPU that is requested only
in part comes after the requested CPUs of all tiers of that priority. A burst of a higher tier therefore takes
CPUs in this order: from the lowest tier, from other tiers beyond their need, and from their need down to their
minimum. CPUs that become free return in the opposite order, and reach `reclaim` step by step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Final, NamedTuple

from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.core.state import POOLS, RECLAIM, SHARE, Asked
from nri_coloc.core.texts import counted
from nri_coloc.core.value import value
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing.tiers import Claim, by_priority, is_small_group, minimum_of


class Tier(NamedTuple):
    """One pool of online containers, or `reclaim`, the lowest tier.

    name: the pool's name.
    priority: a tier with a higher number gets CPUs first.
    band: utilisation, low and high, 0 to 1. Without a band (None) the tier has the CPUs that its members ask for.
    minimum, maximum: CPUs, 0 for no bound.
    asked: CPUs that all its members ask for, rounded up, at least 1 while it has members. A tier never gets more CPUs
        than this number, or than its minimum if that is larger.
    begun: whether the last of the CPUs that they ask for is only a part of one.
    """

    name: str
    priority: int = 0
    band: tuple[float, float] | None = None
    minimum: int = 0
    maximum: int = 0
    asked: int = 0
    begun: bool = False

    @property
    def most(self) -> int:
        """Return the CPUs beyond which the tier never grows."""
        most = max(self.asked, self.minimum)
        return min(most, self.maximum) if self.maximum else most

    def claim(self, size: int) -> Claim:
        """Return the tier's claim to a number of CPUs."""
        return Claim(self.name, self.priority, self.asked - self.begun, size)


class Allocatable(NamedTuple):
    """The CPUs to divide.

    cpus: all of them.
    step: CPUs by which `reclaim` may grow now at the cost of other tiers.
    """

    cpus: int
    step: int


class Idle(NamedTuple):
    """A tier's time below its band.

    since: start of that time, seconds.
    peak: the most CPUs that the tier used since then.
    giving: the dwell is over, and the tier still has more CPUs than it wants, because `reclaim` grows step by step.
    """

    since: float
    peak: float
    giving: bool = False


@value
class Memory:
    """The state that the next sizing needs from the last one: all sizes, and the tiers below their band."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    idle: Mapping[str, Idle] = field(default_factory=dict)


class _Wish(NamedTuple):
    """One tier's claim.

    need: CPUs that keep the tier at the upper edge of its band.
    want: CPUs that the tier is to have.
    because: the reason.
    """

    need: int
    want: int
    because: str = ""


_EPSILON: Final = 1e-9
"""CPUs. Tolerance for rounding: a load that is exactly at an edge is within its band."""

_NO_TIERS: Final = frozenset(POOLS) - {SHARE}


def tiers(plan: Iterable[PoolTuning], asked: Mapping[str, Asked], core: int = 0) -> tuple[Tier, ...]:
    """Return the tiers that the operator's pools make, `share` and `reclaim` included.

    asked: what is asked for by pool, `share` included.
    core: CPUs of one core, the least that `reclaim` has.

    If a pool is divided into groups, each group is a tier. A pool that is only a name for CPUs of `share` counts as
    part of `share`, and so does a small group. A pool that is only a name for CPUs of `system` is in no tier.
    """
    by_name = _by_name(plan)
    milli = {SHARE: 0}
    for name, total in asked.items():
        tier = _tier_of(name, by_name, total.milli)
        if tier:
            milli[tier] = milli.get(tier, 0) + total.milli
    kept = {each.name: 0 for each in by_name.values() if each.minimum and not each.group_by}
    online = (
        _tier(name, by_name[name.partition("/")[0]], whole, 1 if name in asked else 0)
        for name, whole in (kept | milli).items()
        if name != RECLAIM
    )
    return (*online, _lowest(by_name[RECLAIM], core))


def tier_of(pool: str, plan: Iterable[PoolTuning], asked: Mapping[str, Asked]) -> str:
    """Return the tier of a pool's members: the pool, or the pool that it is a name for; "" for no tier.

    asked: requests by pool of the plan.
    """
    return _tier_of(pool, _by_name(plan), asked[pool].milli if pool in asked else 0)


def _by_name(plan: Iterable[PoolTuning]) -> dict[str, PoolTuning]:
    return {tuning.name: tuning for tuning in (PoolTuning(SHARE), PoolTuning(RECLAIM), *plan)}


def _tier_of(pool: str, by_name: Mapping[str, PoolTuning], milli: int) -> str:
    if pool in _NO_TIERS:
        return ""
    tuning = by_name.get(pool.partition("/")[0], by_name[SHARE])
    if tuning.name != SHARE and (tuning.sized or tuning.band) and not is_small_group(tuning, milli):
        return pool
    return "" if tuning.qos is QoSClass.SYSTEM else SHARE


def _tier(name: str, tuning: PoolTuning, milli: int, least: int) -> Tier:
    whole = max(-(-milli // 1000), least)
    return Tier(
        name=name,
        priority=tuning.priority,
        band=tuning.band,
        minimum=minimum_of(tuning, milli),
        maximum=tuning.maximum,
        asked=whole,
        begun=whole * 1000 > milli,
    )


def _lowest(tuning: PoolTuning, core: int) -> Tier:
    most = max(tuning.maximum, core) if tuning.maximum else 0
    return Tier(RECLAIM, minimum=max(tuning.minimum, core), maximum=most)


def sizes(
    tiers: Sequence[Tier],
    loads: Mapping[str, float],
    allocatable: Allocatable,
    memory: Memory,
    tuning: ReclaimTuning,
    now: float,
) -> tuple[Memory, dict[str, int], str]:
    """Return the state to remember, the CPUs of every tier and of `reclaim`, and the reason in words.

    loads: CPUs used by tier. A tier that was not measured is missing here and keeps its size.

    The sizes sum up to all allocatable CPUs.
    """
    online = sorted((t for t in tiers if t.name != RECLAIM), key=lambda tier: -tier.priority)
    lowest = next((t for t in tiers if t.name == RECLAIM), Tier(RECLAIM))
    before, dwelt = memory.sizes, now - tuning.partition_dwell_s
    idle = {t.name: i for t in online if (i := _idle(t, loads.get(t.name), memory, now)) is not None}
    gives = {name for name, each in idle.items() if each.since <= dwelt and name in loads}
    wishes = {t.name: _wish(t, loads.get(t.name), before.get(t.name, 0)) for t in online}
    wishes |= {
        t.name: _gift(t, wishes[t.name], before[t.name], idle[t.name], now) for t in online if t.name in gives
    }
    given = _given(online, lowest, wishes, before, allocatable, tuning.lend)
    # the dwell is over: another dwell begins, with a peak of its own
    dwelling = {name: each for name, each in idle.items() if name not in gives}
    dwelling |= {n: idle[n]._replace(giving=True) for n in gives if wishes[n].want < given[n] <= before[n]}
    return Memory(given, dwelling), given, _words(wishes, before, given, allocatable.cpus, tuning.lend)


def _idle(tier: Tier, load: float | None, memory: Memory, now: float) -> Idle | None:
    size, before = memory.sizes.get(tier.name, 0), memory.idle.get(tier.name)
    if not size or tier.band is None:
        return None
    if load is None:
        return before
    peak = max(before.peak, load) if before else load
    if before is not None and before.giving and _middle(tier.band, peak) < size:
        return before._replace(peak=peak)
    if load >= tier.band[0] * size - _EPSILON:
        return None
    return Idle(before.since if before else now, peak)


def _wish(tier: Tier, load: float | None, size: int) -> _Wish:
    """Return a tier's claim, before a dwell below its band is considered."""
    if tier.band is None or (load is None and not size):
        return _Wish(tier.most, tier.most)
    if load is None:
        kept = min(size, tier.most)
        return _Wish(kept, kept)
    high = tier.band[1]
    need, middle = min(_whole(load / high), tier.most), _middle(tier.band, load)
    if not size:
        return _Wish(need, min(middle, tier.most), f"{tier.name} uses {load:.2f} CPUs{_bound(tier, middle)}")
    if load > high * size + _EPSILON:
        because = f"{tier.name} uses {load:.2f} of {size} CPUs, above {high:.0%}{_bound(tier, middle)}"
        return _Wish(need, min(middle, tier.most), because)
    return _Wish(need, min(size, tier.most))


def _gift(tier: Tier, wish: _Wish, size: int, idle: Idle, now: float) -> _Wish:
    """Return the claim of a tier that stayed below its band for the dwell."""
    assert tier.band is not None  # only such a tier is ever idle
    wanted = min(_middle(tier.band, idle.peak), size, tier.most)
    seconds = now - idle.since
    used = f"{tier.name} used {idle.peak:.2f} of {size} CPUs at most in {seconds:.0f} s, below {tier.band[0]:.0%}"
    return _Wish(min(wish.need, wanted), wanted, used)


def _bound(tier: Tier, wanted: int) -> str:
    """Return the words for a bound that keeps a tier from the CPUs that its load asks for; "" for no bound."""
    return f", and may have {tier.most} as its members ask for {tier.asked}" if wanted > tier.most else ""


def _middle(band: tuple[float, float], load: float) -> int:
    """Return the CPUs for which a load lies in the middle of the band."""
    return _whole(2 * load / (band[0] + band[1]))


def _whole(cpus: float) -> int:
    return max(ceil(cpus - _EPSILON), 1)


def _given(
    online: Sequence[Tier],
    lowest: Tier,
    wishes: Mapping[str, _Wish],
    before: Mapping[str, int],
    allocatable: Allocatable,
    lend: float,
) -> dict[str, int]:
    """Return the CPUs of each tier.

    `reclaim` gets the lent part of the CPUs that remain, up to its maximum; the last online tier gets the rest. If
    `reclaim` would grow by more than a step, the excess stays with the tiers that had it, higher priorities first.
    """
    given = dict.fromkeys((tier.name for tier in (*online, lowest)), 0)
    left = allocatable.cpus
    for turn in (
        [(t.name, min(1, wishes[t.name].want)) for t in online] + [(lowest.name, min(1, lowest.minimum))],
        [(t.name, t.minimum) for t in online] + [(lowest.name, lowest.minimum)],
        *(each.items() for each in by_priority(t.claim(wishes[t.name].need) for t in online)),
        *(each.items() for each in by_priority(t.claim(wishes[t.name].want) for t in online)),
    ):
        left = _take_turn(given, turn, left)
    most = lowest.maximum if lowest.maximum and online else allocatable.cpus
    most = min(most, int((given[lowest.name] + left) * lend)) if online else most
    next_step = min(before.get(lowest.name, allocatable.cpus) + allocatable.step, most)
    for turn in (
        [(lowest.name, next_step)],
        [(t.name, min(before.get(t.name, 0), t.most)) for t in online if next_step < most],
        [(lowest.name, most)],
    ):
        left = _take_turn(given, turn, left)
    if online:
        given[online[-1].name] += left
    return given


def _take_turn(given: dict[str, int], turn: Iterable[tuple[str, int]], left: int) -> int:
    for name, size in turn:
        more = max(min(size - given[name], left), 0)
        given[name] += more
        left -= more
    return left


def _words(
    wishes: Mapping[str, _Wish], before: Mapping[str, int], given: Mapping[str, int], cpus: int, lend: float
) -> str:
    """Return, for each tier that changed or was kept from changing, the cause; for `reclaim`, its CPUs."""
    said = []
    for name, wish in wishes.items():
        has, had = given[name], before.get(name)
        if has == had and (not wish.because or has == wish.want):
            continue
        because = wish.because or f"{name} {'makes room' if has < wish.want else 'has the requested CPUs'}"
        wanted = (
            ""
            if has == wish.want
            else f" of {wish.want} wanted"
            if has < wish.want
            else f", {wish.want} wanted"
        )
        said.append(f"{because}: {counted(has, 'CPU')}{wanted}")
    lent = f", of which {lend:.0%} are lent" if lend < 1 else ""
    return "; ".join([*said, f"{given[RECLAIM]} of {cpus} CPUs are left for {RECLAIM}{lent}"])
