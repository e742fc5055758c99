"""A share of one core for work that strangers ask for: a token bucket of CPU time."""

import time
from collections.abc import Callable


class Allowance:
    """`share`: of a core, on average. `burst_s`: CPU seconds that may be used at once after a quiet time."""

    def __init__(self, share: float, burst_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock = clock
        self._left_s = burst_s
        self._at = clock()

    def pause_after(self, spent_s: float) -> float:
        """Return the seconds to wait after work that took so many CPU seconds; 0 while the burst lasts.

        At most one burst is owed: a caller that waits less than it should is not paused for ever.
        """
        now = self._clock()
        earned_s = (now - self._at) * self._share
        left_s = min(self._burst_s, self._left_s + earned_s) - spent_s
        self._left_s, self._at = max(-self._burst_s, left_s), now
        return max(0.0, -self._left_s / self._share)
