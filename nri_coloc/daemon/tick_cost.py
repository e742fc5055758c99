"""What the ticks of a loop cost: CPU time of the thread that runs it, with waking up and writing."""

import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Final, NamedTuple

COST_OF_LATE: Final = 16
"""Ticks that a mean is of: the pace keeps to a share of a core in the mean, so one that met a page fault or waited for
the interpreter must not make the loop slow when it has to be quick."""


class Cost(NamedTuple):
    """Seconds: what the ticks since this was last asked took each, and the mean of the last ones."""

    took_s: float
    mean_took_s: float


class TickCost:
    """Used by one thread: `begin` before the first tick, `taken` at those that decide.

    A look that decides nothing is not measured by itself: to ask for the time is a good part of what it costs.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._spent = 0.0
        self._late: deque[float] = deque(maxlen=COST_OF_LATE)

    def begin(self) -> None:
        """Count from now."""
        self._spent = self._clock()

    def taken(self, ticks: int) -> Cost:
        """Return the cost since this was asked last, shared out among so many ticks, one at least."""
        before, self._spent = self._spent, self._clock()
        took_s = (self._spent - before) / ticks
        self._late.extend(repeat(took_s, min(ticks, COST_OF_LATE)))
        return Cost(took_s, sum(self._late) / len(self._late))
