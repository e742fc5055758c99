"""Sizes of pools by load: each online tier keeps its utilisation within a band, the lowest has what is left.

A tier above its band grows at once, one that stayed below it for the dwell gives back; both land in the middle of the
band, as far as can be from either edge, so that the next change is far (Meituan's LAR resizes by load in bands, too).
CPUs are given in turns, the higher priority first in each: one each, the minimum, what keeps a tier at its upper edge,
what it wants beyond that. So a burst of a higher tier takes first what the lowest has, then what the others have beyond
their need, then their need down to their minimum; and what comes back goes the other way, to `reclaim` step by step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Final, NamedTuple

from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.core.state import POOLS, RECLAIM, SHARE, Asked
from nri_coloc.core.value import value
from nri_coloc.core.workload import QoSClass


class Tier(NamedTuple):
    """One pool of online containers, or `reclaim`, the lowest.

    `band`: utilisation, low and high, 0–1; None is sized by what is asked for. `minimum`, `maximum`: CPUs, 0 for none.
    `asked`: CPUs that its members ask for in all, rounded up, at least 1 while it has any; it never has more than that,
    or than its minimum.
    """

    name: str
    priority: int = 0
    band: tuple[float, float] | None = None
    minimum: int = 0
    maximum: int = 0
    asked: int = 0

    @property
    def most(self) -> int:
        """CPUs beyond which it never grows."""
        most = max(self.asked, self.minimum)
        return min(most, self.maximum) if self.maximum else most


class Allocatable(NamedTuple):
    """What there is to share out: CPUs in all, and by how many of them `reclaim` may grow now at other tiers' cost."""

    cpus: int
    step: int


class Idle(NamedTuple):
    """Since when a tier has been below its band, and the most CPUs that it used meanwhile.

    `giving`: it dwelt, and has more than it wants only because `reclaim` grows step by step.
    """

    since: float
    peak: float
    giving: bool = False


@value
class Memory:
    """What the next sizing needs of the last one: the sizes, and who has been below its band."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    idle: Mapping[str, Idle] = field(default_factory=dict)


class _Wish(NamedTuple):
    """CPUs that keep a tier at the upper edge of its band, CPUs that it is to have, and why."""

    need: int
    want: int
    because: str = ""


_EPSILON: Final = 1e-9
"""A load that is exactly at an edge is within its band, whatever the floating point says."""

_NO_TIERS: Final = frozenset(POOLS) - {SHARE}


def tiers(plan: Iterable[PoolTuning], asked: Mapping[str, Asked], core: int = 0) -> tuple[Tier, ...]:
    """Return the tiers that an operator's pools make, `share` and `reclaim` among them.

    `asked`: by pool, `share` included. Of a pool with groups each is a tier. A pool that is only a name over `share`
    counts there, one over `system` nowhere. `core`: CPUs of a core, which `reclaim` always has.
    """
    by_name = _by_name(plan)
    milli = {SHARE: 0}
    for name, total in asked.items():
        tier = _tier_of(name, by_name)
        if tier:
            milli[tier] = milli.get(tier, 0) + total.milli
    kept = {each.name: 0 for each in by_name.values() if each.minimum and not each.group_by}
    online = (
        _tier(name, by_name[name.partition("/")[0]], whole, 1 if name in asked else 0)
        for name, whole in (kept | milli).items()
        if name != RECLAIM
    )
    return (*online, _lowest(by_name[RECLAIM], core))


def tier_of(pool: str, plan: Iterable[PoolTuning]) -> str:
    """Return the tier that the members of a pool are in, "" for none: that of the pool, or of what it is a name for."""
    return _tier_of(pool, _by_name(plan))


def _by_name(plan: Iterable[PoolTuning]) -> dict[str, PoolTuning]:
    return {tuning.name: tuning for tuning in (PoolTuning(SHARE), PoolTuning(RECLAIM), *plan)}


def _tier_of(pool: str, by_name: Mapping[str, PoolTuning]) -> str:
    if pool in _NO_TIERS:
        return ""
    tuning = by_name.get(pool.partition("/")[0], by_name[SHARE])
    if tuning.name != SHARE and (tuning.sized or tuning.band):
        return pool
    return "" if tuning.qos is QoSClass.SYSTEM else SHARE


def _tier(name: str, tuning: PoolTuning, milli: int, least: int) -> Tier:
    whole = max(-(-milli // 1000), least)
    return Tier(name, tuning.priority, tuning.band, tuning.minimum, tuning.maximum, whole)


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
    """Return what to remember, the CPUs of every tier and of `reclaim`, and why in words.

    `loads`: CPUs used by tier; one that is missing was not measured, and keeps what it has. The sizes sum up to all
    that is allocatable.
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
    given = _given(online, lowest, wishes, before, allocatable)
    # the dwell is over: another dwell begins, with a peak of its own
    dwelling = {name: each for name, each in idle.items() if name not in gives}
    dwelling |= {n: idle[n]._replace(giving=True) for n in gives if wishes[n].want < given[n] <= before[n]}
    return Memory(given, dwelling), given, _words(wishes, before, given, allocatable.cpus)


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
    """Return what a tier is to have, but for what it may have dwelt below its band."""
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
    """Return what a tier is to have that has dwelt below its band."""
    assert tier.band is not None  # only such a tier is ever idle
    wanted = min(_middle(tier.band, idle.peak), size, tier.most)
    seconds = now - idle.since
    used = f"{tier.name} used {idle.peak:.2f} of {size} CPUs at most in {seconds:.0f} s, below {tier.band[0]:.0%}"
    return _Wish(min(wish.need, wanted), wanted, used)


def _bound(tier: Tier, wanted: int) -> str:
    """Say what keeps a tier from what its load would give it."""
    return f", and may have {tier.most} as its members ask for {tier.asked}" if wanted > tier.most else ""


def _middle(band: tuple[float, float], load: float) -> int:
    """Return the CPUs of which a load is the middle of the band."""
    return _whole(2 * load / (band[0] + band[1]))


def _whole(cpus: float) -> int:
    return max(ceil(cpus - _EPSILON), 1)


def _given(
    online: Sequence[Tier],
    lowest: Tier,
    wishes: Mapping[str, _Wish],
    before: Mapping[str, int],
    allocatable: Allocatable,
) -> dict[str, int]:
    """Share out all CPUs in turns; `reclaim` has what is left as far as it may, and the last online tier the rest.

    What would let `reclaim` grow by more than a step stays with those that had it; the higher ones keep first.
    """
    given = dict.fromkeys((tier.name for tier in (*online, lowest)), 0)
    left, most = allocatable.cpus, lowest.maximum if lowest.maximum and online else allocatable.cpus
    next_step = min(before.get(lowest.name, allocatable.cpus) + allocatable.step, most)
    for turn in (
        [(t.name, min(1, wishes[t.name].want)) for t in online] + [(lowest.name, min(1, lowest.minimum))],
        [(t.name, t.minimum) for t in online] + [(lowest.name, lowest.minimum)],
        [(t.name, wishes[t.name].need) for t in online],
        [(t.name, wishes[t.name].want) for t in online],
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
    wishes: Mapping[str, _Wish], before: Mapping[str, int], given: Mapping[str, int], cpus: int
) -> str:
    """Say of each tier that changed, or could not, what moved it; of `reclaim` what it has."""
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
        said.append(f"{because}: {has} CPUs{wanted}")
    return "; ".join([*said, f"{given[RECLAIM]} of {cpus} CPUs are left for {RECLAIM}"])
