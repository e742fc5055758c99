"""The highest use of the last while: growth is allowed only by what would have borne all of it."""

from typing import NamedTuple

BUCKETS = 8
"""The window moves on by an eighth of itself; it covers at least the whole, and about a quarter more at most."""


class Peaks(NamedTuple):
    """Closed buckets as (end, peak), the highest of them, and the open bucket; milli-CPU, seconds."""

    closed: tuple[tuple[float, int], ...] = ()
    highest: int = 0
    opened_at: float = 0.0
    open: int = 0

    @property
    def peak(self) -> int:
        """The highest value of the window."""
        return max(self.highest, self.open)


def begin(value: int, now: float) -> Peaks:
    """Return a window that knows this one value."""
    return Peaks(opened_at=now, open=value)


def push(peaks: Peaks, value: int, now: float, window_s: float) -> Peaks:
    """Return the window with one more value; what ended before it began is forgotten."""
    if now - peaks.opened_at < window_s / BUCKETS:
        return peaks if value <= peaks.open else peaks._replace(open=value)
    horizon = now - window_s
    closed = tuple(bucket for bucket in (*peaks.closed, (now, peaks.open)) if bucket[0] > horizon)
    return Peaks(closed, max((peak for _, peak in closed), default=0), now, value)
