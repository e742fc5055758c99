"""Find the reclaimed pods that hurt an online pod: rank them by how their use rose when the pod's stall rose.

A hurt lasts until four turns in a row are calm. For each other pod the mean use in its hurt turns is compared with the
mean use in the calm turns before it, of the last 64 turns. The rise of reclaimed pods is the evidence against them, the
rise of other online pods speaks for them:

    confidence = rise of the culprits / rise of all pods * rise of the culprits / their use in hurt turns

0 is no evidence, 1 means that only the culprits rose, and from nothing. Two kinds of turns speak against each culprit:
the calm turns in which it was as busy, as of a pod that works all the time or in bursts, and the hurt turns before its
use rose, because no effect comes before its cause. Without calm turns, or with unknown use, there is no evidence.

A pod that does not use a disk is calm beside any hog. So for I/O the calm turns are those in which the online pod used
the disk, if at least three of them were before the hurt.

Culprits are all pods with at least a fifth of the largest rise. The confidence counts them all, also if they are more
than the eight that a verdict names: else many small pods would hide each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

TURNS: Final = 64
"""Turns that are remembered: about a minute."""

_ALL: Final = (1 << TURNS) - 1
"""The mask of all turns that are remembered."""

LEAST_CALM: Final = 3
"""Calm turns without which nothing can have risen."""

LONGER_S: Final = 2.0
"""Seconds by which a hurt lasts longer than the ones without a culprit before culprits are searched."""

LONGEST_ALONE_S: Final = 5.0

CALM_AGAIN: Final = 4
"""Calm turns in a row that end a hurt: waits scatter, so fewer are part of it."""

_FORGOTTEN: Final = 1 / 1800
"""Seconds by which `Feeling.alone_s` falls each second: one in half an hour."""

LEAST_CONFIDENCE: Final = 0.5

MOST: Final = 8
"""Culprits that one verdict names, at most."""

_BESIDE_THE_FIRST: Final = 0.2
"""Part of the largest rise from which another pod counts as a culprit too."""

_AS_BUSY: Final = 0.75
"""Part of its use in hurt turns from which a pod was as busy in a calm turn. A throttled pod uses half of it."""

_BUSY_AND_CALM: Final = 2
"""Hurt turns in which a pod is busy that outweigh one calm turn in which it was as busy."""

_BEFORE_ITS_RISE: Final = 4
"""Hurt turns in which a pod is busy that outweigh one hurt turn before its use rose."""

Uses = tuple[float | None, ...]
"""One pod's use in the last turns, the newest first; None is unknown."""


class Feeling(NamedTuple):
    """One online pod's memory of its hurts by one resource.

    calm, hurt: the last turns, bit 0 is the newest. Unknown turns are in neither.
    present: all turns since the present hurt began; 0 without one.
    lasts_s: seconds for which the pod was hurt in them.
    has_culprit: whether the present hurt had a verdict.
    alone_s: seconds of the longest hurt without a verdict of late, at most `LONGEST_ALONE_S`. A hurt that lasts hardly
        longer, such as a disk that is busy with itself, may begin by chance when a reclaimed pod does.
    """

    calm: int = 0
    hurt: int = 0
    present: int = 0
    lasts_s: float = 0.0
    has_culprit: bool = False
    alone_s: float = 0.0

    def after(self, span_s: float, *, hurt: bool | None) -> "Feeling":
        """Return the feeling after one more turn, whose reading is of so many seconds."""
        known = self.unread(1)
        known = known._replace(
            calm=known.calm | (hurt is False),
            hurt=known.hurt | (hurt is True),
            alone_s=max(0.0, self.alone_s - _FORGOTTEN * span_s),
        )
        if hurt:
            return known._replace(present=known.present | 1, lasts_s=self.lasts_s + min(span_s, 1.0))
        calm_again = (known.calm & _after_last(known.hurt)).bit_count()
        if calm_again < CALM_AGAIN and known.present.bit_length() <= TURNS - LEAST_CALM:
            return known
        lone_s = 0.0 if self.has_culprit else min(self.lasts_s, LONGEST_ALONE_S)
        return Feeling(known.calm, known.hurt, alone_s=max(known.alone_s, lone_s))

    def unread(self, turns: int) -> "Feeling":
        """Return the feeling after so many unknown turns."""
        present = (self.present + 1 << turns) - 1 if self.present else 0
        return self._replace(
            calm=self.calm << turns & _ALL, hurt=self.hurt << turns & _ALL, present=present & _ALL
        )

    def among(self, turns: int) -> "Feeling":
        """Return the feeling with the calm turns among these alone, if enough of them were before the present hurt."""
        known = self._replace(calm=self.calm & turns)
        return known if known.before.bit_count() >= LEAST_CALM else self

    def is_due(self, up: int) -> bool:
        """Return whether the pod has been hurt so long that culprits are searched."""
        least_s = self.alone_s + LONGER_S if self.alone_s else 0.0
        return self.readings >= up and self.lasts_s >= least_s

    @property
    def readings(self) -> int:
        """Return the number of hurt turns of the present hurt."""
        return (self.hurt & self.present).bit_count()

    @property
    def streak(self) -> int:
        """Return the number of hurt turns up to now, without a calm turn between; unknown turns do not count."""
        return (self.hurt & _after_last(self.calm)).bit_count()

    @property
    def before(self) -> int:
        """Return the mask of the calm turns before the present hurt."""
        return self.calm & ~self.present


def _after_last(turns: int) -> int:
    """Return the mask of the turns after the last one of these; of all without one."""
    return (turns & -turns) - 1 if turns else _ALL


class Suspect(NamedTuple):
    """One pod's use, in the unit of the resource.

    calm: mean use in the calm turns before the present hurt.
    hurt: mean use in the hurt turns of the present hurt.
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
    if feeling.before.bit_count() < LEAST_CALM or not feeling.readings:
        return NO_EVIDENCE
    suspects = [_suspect(pod_id, uses, feeling) for pod_id, uses in reclaimed.items()]
    ranked = sorted(
        (one for one in suspects if one is not None and one.rise >= least_rise),
        key=lambda one: (-one.rise, one.pod_id),
    )
    ranked = [one for one in ranked if _agrees(one, reclaimed[one.pod_id], feeling, least_rise)]
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
    calm = _mean(uses, feeling.before)
    hurt = _mean(uses, feeling.hurt & feeling.present)
    return None if calm is None or hurt is None else Suspect(pod_id, calm, hurt)


def _agrees(suspect: Suspect, uses: Uses, feeling: Feeling, least_rise: float) -> bool:
    """Return whether the present hurt comes with a pod's use, and not without it."""
    hurt, busy = feeling.hurt & feeling.present, _turns(uses, _AS_BUSY * suspect.hurt)
    rose = _turns(uses, suspect.calm + least_rise) & hurt
    too_early = (hurt & _turns(uses, 0.0)) >> rose.bit_length()
    calm = busy & feeling.before
    against = _BUSY_AND_CALM * calm.bit_count() + _BEFORE_ITS_RISE * too_early.bit_count()
    return (hurt & busy).bit_count() >= max(1, against)


def active(uses: Uses) -> int:
    """Return the mask of the turns in which a pod used anything."""
    return sum(1 << turn for turn, use in enumerate(uses) if use)


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
