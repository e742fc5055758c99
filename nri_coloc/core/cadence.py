"""How often changes of an amount are recorded: one that moves one way often, one that swings seldom.

Pure; time is an argument, seconds of one clock.
"""

from typing import Final, NamedTuple, Self

from nri_coloc.core.lending import Change

ONE_WAY_S: Final = 1.0
"""Seconds between two records of a pool that moves one way."""

SWING_S: Final = 60.0
"""Seconds between two records of a pool that swings. Without a turn for this time the swing is over."""

SWINGS_FROM: Final = 3
"""Turns, each within SWING_S after the last one, that make a swing. One burst is two turns: down and up."""

_NEVER: Final = float("-inf")


class Cadence(NamedTuple):
    """The state that decides when a record may be written.

    written_at: time of the last record.
    direction: direction of the last change.
    turned_at: time of the last turn.
    turns: turns so far, each within SWING_S after the last one.
    """

    written_at: float = _NEVER
    direction: Change = Change.KEEP
    turned_at: float = _NEVER
    turns: int = 0

    def turns_by(self, change: Change) -> bool:
        """Return whether a change goes against the direction. The first change is never a turn."""
        return Change.KEEP not in (change, self.direction) and change is not self.direction

    def moved(self, change: Change, at: float) -> Self:
        """Return the cadence after a change."""
        if not self.turns_by(change):
            return self if change is Change.KEEP else self._replace(direction=change)
        is_quick = at - self.turned_at < SWING_S
        return self._replace(direction=change, turned_at=at, turns=self.turns + 1 if is_quick else 1)

    def swings(self, at: float) -> bool:
        """Return whether the pool swings."""
        return self.turns >= SWINGS_FROM and at - self.turned_at < SWING_S

    def is_due(self, at: float) -> bool:
        """Return whether the next record may be written. A clock that went back makes it due."""
        pause_s = SWING_S if self.swings(at) else ONE_WAY_S
        return not 0.0 <= at - self.written_at < pause_s

    def allows(self, change: Change, at: float) -> bool:
        """Return whether a record may be written right after this change, which the cadence does not hold yet."""
        after = self.moved(change, at)
        return after.is_due(at) or (self.turns_by(change) and not after.swings(at))


class Extent(NamedTuple):
    """The lowest and the highest value of an amount."""

    low: int
    high: int

    def with_value(self, value: int) -> "Extent":
        """Return the extent that covers `value` too."""
        low, high = self
        if low <= value <= high:
            return self
        return Extent(min(low, value), max(high, value))
