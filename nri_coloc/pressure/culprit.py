"""Find the reclaimed pods that hurt an online pod: rank them by how their use rose when the pod's stall rose.

Of the last 64 turns, the pod was calm in some and hurt in others. For each other pod the mean use in the hurt turns is
compared with the mean use in the calm turns. The rise of reclaimed pods is the evidence against them, the rise of
other online pods speaks for them:

    confidence = rise of the culprits / rise of all pods * rise of the culprits / their use in hurt turns

0 is no evidence, 1 means that only the culprits rose, and from nothing. A pod that was as busy in the calm turns is no
culprit: neither a pod that was busy all the time, nor a pod that was busy in as many calm turns as in hurt ones, such
as a pod that works in bursts. Without calm turns, or with unknown use, there is no evidence.

Culprits are all pods with at least a fifth of the largest rise. The confidence counts them all, also if they are more
than the eight that a verdict names: else many small pods would hide each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

TURNS: Final = 64
"""Turns that are remembered: about a minute."""

LEAST_CALM: Final = 3
"""Calm turns without which nothing can have risen."""

LEAST_CONFIDENCE: Final = 0.5

MOST: Final = 8
"""Culprits that one verdict names, at most."""

_BESIDE_THE_FIRST: Final = 0.2
"""Part of the largest rise from which another pod counts as a culprit too."""

_AS_BUSY: Final = 0.75
"""Part of its use in hurt turns from which a pod was as busy in a calm turn. A throttled pod uses half of it."""

_THERE: Final = 0.25
"""Part of its mean use in hurt turns from which a pod was there in a hurt turn: it may begin between two readings."""

Uses = tuple[float | None, ...]
"""One pod's use in the last turns, the newest first; None is unknown."""


class Feeling(NamedTuple):
    """In which of the last turns a pod was calm or hurt: bit 0 is the newest turn. Unknown turns are in neither."""

    calm: int = 0
    hurt: int = 0

    def after(self, *, hurt: bool | None) -> "Feeling":
        """Return the feeling after one more turn."""
        mask = (1 << TURNS) - 1
        return Feeling((self.calm << 1 | (hurt is False)) & mask, (self.hurt << 1 | (hurt is True)) & mask)

    def unread(self, turns: int) -> "Feeling":
        """Return the feeling after so many unknown turns."""
        mask = (1 << TURNS) - 1
        return Feeling(self.calm << turns & mask, self.hurt << turns & mask)

    @property
    def streak(self) -> int:
        """Return the number of hurt turns up to now, without a calm turn between; unknown turns do not count."""
        return (self.hurt & self.since_calm).bit_count()

    @property
    def since_calm(self) -> int:
        """Return the mask of the turns after the last calm one."""
        return (self.calm & -self.calm) - 1 if self.calm else (1 << TURNS) - 1


class Suspect(NamedTuple):
    """One pod's use, in the unit of the resource.

    calm: mean use in the calm turns.
    hurt: mean use in the hurt turns since the last calm one.
    """

    pod_id: str
    calm: float
    hurt: float

    @property
    def rise(self) -> float:
        return max(0.0, self.hurt - self.calm)


class Evidence(NamedTuple):
    """The result.

    culprits: the named ones, largest rise first; empty without evidence.
    confidence: 0 to 1.
    others: sum of the rises of all pods that are no culprits.
    """

    culprits: tuple[Suspect, ...] = ()
    confidence: float = 0.0
    others: float = 0.0


NO_EVIDENCE: Final = Evidence()


def evidence(
    feeling: Feeling, reclaimed: Mapping[str, Uses], online: Iterable[Uses], least_rise: float
) -> Evidence:
    """Return the culprits among the reclaimed pods, and the confidence that they are the cause.

    online: uses of the other online pods.
    least_rise: the rise below which a pod is no culprit.
    """
    if feeling.calm.bit_count() < LEAST_CALM or not feeling.hurt:
        return NO_EVIDENCE
    suspects = [_suspect(pod_id, uses, feeling) for pod_id, uses in reclaimed.items()]
    ranked = sorted(
        (one for one in suspects if one is not None and one.rise >= least_rise),
        key=lambda one: (-one.rise, one.pod_id),
    )
    ranked = [one for one in ranked if _agrees(reclaimed[one.pod_id], one.hurt, feeling)]
    if not ranked:
        return NO_EVIDENCE
    culprits = tuple(one for one in ranked if one.rise >= _BESIDE_THE_FIRST * ranked[0].rise)
    rise, reclaimed_rises = (sum(one.rise for one in some) for some in (culprits, ranked))
    online_rises = sum(one.rise for uses in online if (one := _suspect("", uses, feeling)) is not None)
    all_rises = reclaimed_rises + online_rises
    confidence = rise / all_rises * rise / sum(one.hurt for one in culprits)
    return Evidence(culprits[:MOST], confidence, all_rises - rise)


def _suspect(pod_id: str, uses: Uses, feeling: Feeling) -> Suspect | None:
    """Return a pod's use in calm and in hurt turns; None if either is unknown."""
    calm = _mean(uses, feeling.calm)
    hurt = _mean(uses, feeling.hurt & feeling.since_calm)
    return None if calm is None or hurt is None else Suspect(pod_id, calm, hurt)


def _agrees(uses: Uses, hurt: float, feeling: Feeling) -> bool:
    """Return whether the hurt comes and goes with a pod's use.

    Most turns in which it was as busy as now were hurt turns, and it was there in most of the hurt turns of late.
    """
    busy, there = _turns(uses, _AS_BUSY * hurt), _turns(uses, _THERE * hurt)
    late = feeling.hurt & feeling.since_calm & _turns(uses, 0.0)
    is_specific = (busy & feeling.hurt).bit_count() > (busy & feeling.calm).bit_count()
    return is_specific and 2 * (there & late).bit_count() > late.bit_count()


def _turns(uses: Uses, least: float) -> int:
    """Return the mask of the turns in which a pod used this much."""
    return sum(1 << turn for turn, use in enumerate(uses) if use is not None and use >= least)


def _mean(uses: Sequence[float | None], turns: int) -> float | None:
    count, total = 0, 0.0
    for use in uses:
        if turns & 1 and use is not None:
            count, total = count + 1, total + use
        turns >>= 1
        if not turns:
            break
    return total / count if count else None
