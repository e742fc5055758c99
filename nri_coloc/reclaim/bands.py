"""Sizes of pools by load: each online tier keeps its utilisation within a band, the lowest has what is left.

A tier above its band grows at once, one that stayed below it for the dwell gives back; both land in the middle of the
band, as far as can be from either edge, so that the next change is far (Meituan's LAR resizes by load in bands, too).
CPUs are given in turns, the higher priority first in each: one each, the minimum, what keeps a tier at its upper edge,
what it wants beyond that. So a burst of a higher tier takes first what the lowest has, then what the others have beyond
their need, then their need down to their minimum; and what comes back goes the other way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Final, NamedTuple

from nri_coloc.model.state import RECLAIM, SHARE, Asked
from nri_coloc.model.tuning import PoolTuning, ReclaimTuning
from nri_coloc.model.value import value
from nri_coloc.model.workload import QoSClass


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


class Idle(NamedTuple):
    """Since when a tier has been below its band, and the most CPUs that it used meanwhile."""

    since: float
    peak: float


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


def tiers(plan: Iterable[PoolTuning], asked: Mapping[str, Asked]) -> tuple[Tier, ...]:
    """Return the tiers that an operator's pools make, `share` and `reclaim` among them.

    `asked`: by pool, `share` included. Of a pool with groups each is a tier. A pool that is only a name over `share`
    counts there, one over `system` nowhere.
    """
    by_name = {tuning.name: tuning for tuning in (PoolTuning(SHARE), PoolTuning(RECLAIM), *plan)}
    milli = {SHARE: asked[SHARE].milli if SHARE in asked else 0}
    for name, total in asked.items():
        tuning = by_name.get(name.partition("/")[0], by_name[SHARE])
        if tuning.name != SHARE and (tuning.sized or tuning.band):
            milli[name] = total.milli
        elif name != SHARE and tuning.qos is not QoSClass.SYSTEM:
            milli[SHARE] += total.milli
    kept = {each.name: 0 for each in by_name.values() if each.minimum and not each.group_by}
    return tuple(
        _tier(name, by_name[name.partition("/")[0]], whole, 1 if name in asked else 0)
        for name, whole in (kept | milli | {RECLAIM: 0}).items()
    )


def _tier(name: str, tuning: PoolTuning, milli: int, least: int) -> Tier:
    whole = max(-(-milli // 1000), least)
    return Tier(name, tuning.priority, tuning.band, tuning.minimum, tuning.maximum, whole)


def sizes(
    tiers: Sequence[Tier],
    loads: Mapping[str, float],
    allocatable: int,
    memory: Memory,
    tuning: ReclaimTuning,
    now: float,
) -> tuple[Memory, dict[str, int], str]:
    """Return what to remember, the CPUs of every tier and of `reclaim`, and why in words.

    `loads`: CPUs used by tier; one that is missing was not measured, and keeps what it has. The sizes sum up to
    `allocatable`.
    """
    online = sorted((t for t in tiers if t.name != RECLAIM), key=lambda tier: -tier.priority)
    lowest = next((t for t in tiers if t.name == RECLAIM), Tier(RECLAIM))
    dwelt = now - tuning.dwell_s
    idle = {t.name: i for t in online if (i := _idle(t, loads.get(t.name), memory, now)) is not None}
    wishes = {t.name: _wish(t, loads.get(t.name), memory, idle.get(t.name), dwelt) for t in online}
    given = _given(online, lowest, wishes, allocatable)
    # whoever dwelt has had its say: another dwell begins, with a peak of its own
    dwelling = {name: each for name, each in idle.items() if each.since > dwelt}
    return Memory(given, dwelling), given, _words(wishes, memory.sizes, given)


def _idle(tier: Tier, load: float | None, memory: Memory, now: float) -> Idle | None:
    size = memory.sizes.get(tier.name)
    if size is None or tier.band is None:
        return None
    before = memory.idle.get(tier.name)
    if load is None:
        return before
    if load >= tier.band[0] * size - _EPSILON:
        return None
    return Idle(before.since, max(before.peak, load)) if before else Idle(now, load)


def _wish(tier: Tier, load: float | None, memory: Memory, idle: Idle | None, dwelt: float) -> _Wish:
    size = memory.sizes.get(tier.name)
    if tier.band is None or (load is None and size is None):
        return _Wish(tier.most, tier.most)
    if load is None:
        kept = min(size or 0, tier.most)
        return _Wish(kept, kept)
    low, high = tier.band
    middle = (low + high) / 2
    need = min(_whole(load / high), tier.most)
    if size is None:
        return _Wish(need, min(_whole(load / middle), tier.most), f"{tier.name} uses {load:.2f} CPUs")
    uses = f"{tier.name} uses {load:.2f} of {size} CPUs"
    if load > high * size + _EPSILON:
        return _Wish(need, min(_whole(load / middle), tier.most), f"{uses}, above {high:.0%}")
    if idle is not None and idle.since <= dwelt:
        wanted = min(_whole(idle.peak / middle), size, tier.most)
        return _Wish(min(need, wanted), wanted, f"{uses}, {idle.peak:.2f} at most of late, below {low:.0%}")
    return _Wish(need, min(size, tier.most))


def _whole(cpus: float) -> int:
    return max(ceil(cpus - _EPSILON), 1)


def _given(
    online: Sequence[Tier], lowest: Tier, wishes: Mapping[str, _Wish], allocatable: int
) -> dict[str, int]:
    """Share out all CPUs in turns; `reclaim` has what is left, up to its maximum, and the last online tier the rest."""
    given = dict.fromkeys((tier.name for tier in (*online, lowest)), 0)
    left = allocatable
    for turn in (
        [(t.name, min(1, wishes[t.name].want)) for t in online] + [(lowest.name, min(1, lowest.minimum))],
        [(t.name, t.minimum) for t in online] + [(lowest.name, lowest.minimum)],
        [(t.name, wishes[t.name].need) for t in online],
        [(t.name, wishes[t.name].want) for t in online],
    ):
        left = _take_turn(given, turn, left)
    for_the_lowest = (
        left if not lowest.maximum or not online else min(left, lowest.maximum - given[lowest.name])
    )
    given[lowest.name] += for_the_lowest
    if online:
        given[online[-1].name] += left - for_the_lowest
    return given


def _take_turn(given: dict[str, int], turn: Iterable[tuple[str, int]], left: int) -> int:
    for name, size in turn:
        more = max(min(size - given[name], left), 0)
        given[name] += more
        left -= more
    return left


def _words(wishes: Mapping[str, _Wish], before: Mapping[str, int], given: Mapping[str, int]) -> str:
    """Say of each tier that changed, or could not, what moved it; of `reclaim` what it has."""
    said = []
    for name, wish in wishes.items():
        if not wish.because and given[name] == before.get(name):
            continue
        short = "" if given[name] >= wish.want else f" of {wish.want} wanted"
        why = f"{wish.because}: " if wish.because else f"{name} makes room: "
        said.append(f"{why}{given[name]} CPUs{short}")
    return "; ".join([*said, f"{given[RECLAIM]} CPUs are left for {RECLAIM}"])
