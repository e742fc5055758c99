"""Choose the time of the next turn: a second after the last one, or sooner.

A pod's first hurt reading is confirmed or refuted by a turn a quarter of a second later. An online pod that waits
longer for a disk (`disk_waits`) has a turn at once. If this turn does not judge it hurt, two quick ones follow: a
reading that began seconds ago shows little of a wait that has just begun.
"""

from collections.abc import Mapping
from math import inf
from typing import Final

from nri_coloc.pressure.disk_waits import DiskWaits
from nri_coloc.pressure.judging import Judged
from nri_coloc.pressure.population import Online
from nri_coloc.pressure.rates import SHORTEST_S
from nri_coloc.pressure.verdict import Resource

QUICK_S: Final = 0.25
"""Seconds from a turn to a quick one: a disk that is saturated is limited within a second."""

_AFTER_ALARM: Final = 2
"""Quick turns after an alarm that its own turn did not judge a hurt."""


class TurnTimes:
    """Knows the last turn, and what asks for the next one. For one thread."""

    def __init__(self, waits: DiskWaits) -> None:
        self._waits = waits
        self._turned_at = -inf
        self._alarmed: frozenset[str] = frozenset()
        self._quick_turns = 0

    def due_in(self, now: float) -> float:
        """Return the seconds until the next turn, infinity if it need not come before the next second."""
        return max(0.0, self._turned_at + QUICK_S - now) if self._quick_turns else inf

    def check_in(self, now: float) -> float:
        """Return the seconds until `is_alarmed` is to be called, infinity if it need not be called."""
        return self._waits.due_in(now)

    def is_alarmed(self, now: float) -> bool:
        """Return whether an online pod waits longer for a disk than its baseline allows: a turn is due then."""
        found = self._waits.risen(now)
        self._alarmed |= found
        return bool(found)

    def begin(self, now: float) -> bool:
        """Begin a turn; return False if the last one is too recent for a reading."""
        if now - self._turned_at < SHORTEST_S:
            return False
        self._turned_at = now
        return True

    def alarmed(self, now: float) -> frozenset[str]:
        """Return the online pods that this turn reads because of an alarm, also one that has just come."""
        self._alarmed |= self._waits.risen_of_all(now)
        return self._alarmed

    def judged(self, judged: Judged | None, followed: Mapping[str, Online]) -> None:
        """Take the result of the turn; None if nothing is judged, or without reclaimed pods.

        followed: the online pods whose waits for disks are checked until the next turn.
        """
        self._quick_turns = 0 if judged is None else self._next_quick_turns(judged)
        if not self._quick_turns:
            self._alarmed = frozenset()
        self._waits.follow(followed, {} if judged is None else judged.read)

    def _next_quick_turns(self, judged: Judged) -> int:
        """Return the number of quick turns to come.

        A quick turn asks for no more of them: pods that are hurt round-robin would make each turn a quick one.
        """
        if self._quick_turns:
            return self._quick_turns - 1
        is_unclear = not self._alarmed <= judged.hurt[Resource.IO]
        return _AFTER_ALARM if is_unclear else int(judged.has_newly_hurt)
