"""Place windows of the week on the time axis: `timeline` returns the lent percentage over some days.

A window keeps its wall-clock ends. An end is the first moment at which the local clock shows its time or a later one:

- In the hour that daylight saving skips, an end lies at the jump. A window that lies in this hour does not open.
- In the hour that it repeats, an end lies in the first pass. A window opens and closes once.

If windows overlap, the least percentage wins.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import groupby
from typing import Final, NamedTuple

from nri_coloc.core.settings import ScheduleTuning, WindowTuning

DAY_S: Final = 86400
DAY_MINUTES: Final = 1440


class Opening(NamedTuple):
    """One opening of a window; seconds since 1970.

    window: its index in the schedule.
    lend: percent.
    """

    opens_s: float
    closes_s: float
    lend: int
    window: int


class Stretch(NamedTuple):
    """A time in which the lent percentage is the same.

    begins_s: seconds since 1970; -inf for the first one.
    window: the window that decides, None for `outside`.
    """

    begins_s: float
    lend: int
    window: int | None


class Timeline:
    """The lent percentage over time, as stretches without a gap. Before and after the known days it is not valid."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        self.stretches = tuple(stretches)
        self._begins = [stretch.begins_s for stretch in self.stretches]

    def at(self, now_s: float) -> Stretch:
        """Return the stretch of a time."""
        return self.stretches[bisect_right(self._begins, now_s) - 1]

    def between(self, from_s: float, to_s: float) -> tuple[Stretch, ...]:
        """Return the stretches of a span, both ends included."""
        first = bisect_right(self._begins, from_s) - 1
        return self.stretches[first : bisect_right(self._begins, to_s)]


def timeline(schedule: ScheduleTuning, from_s: float, to_s: float) -> Timeline:
    """Return the lent percentage from `from_s` to `to_s`; seconds since 1970."""
    openings = [
        opening
        for day in _days(from_s, to_s, schedule.zone)
        for index, window in enumerate(schedule.windows)
        if (opening := opening_on(day, index, window, schedule.zone)) is not None
    ]
    return Timeline(_of_some_length(_swept(openings, schedule.outside)))


def opening_on(day: date, index: int, window: WindowTuning, zone: tzinfo) -> Opening | None:
    """Return a window's opening on a local day; None if it does not open then."""
    if day.weekday() not in window.days:
        return None
    closes = window.closes if window.closes > window.opens else window.closes + DAY_MINUTES
    opens_s, closes_s = moment(day, window.opens, zone), moment(day, closes, zone)
    return Opening(opens_s, closes_s, window.lend, index) if opens_s < closes_s else None


def moment(day: date, minute: int, zone: tzinfo) -> float:
    """Return the first time at which the local clock shows a minute of a day, or a later one; seconds since 1970."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minute)
    before_jump, after_jump = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if _shown(before_jump, zone) == wall:
        return before_jump  # in a repeated hour this is the first pass (PEP 495)
    # The clock skips this time. PEP 495: fold 0 takes the offset before the jump, and lies after it; fold 1 before it.
    low, high = int(after_jump), int(before_jump)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _shown(middle, zone) >= wall else (middle, high)
    return float(high)


def _shown(now_s: float, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(now_s, zone).replace(tzinfo=None)


def _days(from_s: float, to_s: float, zone: tzinfo) -> Iterator[date]:
    """Return the local days on which a window may open that is open in the span."""
    day, last = (_shown(at_s, zone).date() for at_s in (from_s - 2 * DAY_S, to_s))
    while day <= last:
        yield day
        day += timedelta(days=1)


def _swept(openings: Iterable[Opening], outside: int) -> Iterator[Stretch]:
    """Return the least percentage of the open windows after each end of one."""
    ends = [(o.opens_s, 1, (o.lend, o.window)) for o in openings]
    ends += [(o.closes_s, 0, (o.lend, o.window)) for o in openings]
    are_open: list[tuple[int, int]] = []
    yield Stretch(float("-inf"), outside, None)
    for at_s, opens, window in sorted(ends):
        if opens:
            are_open.append(window)
        else:
            are_open.remove(window)
        yield Stretch(at_s, *min(are_open)) if are_open else Stretch(at_s, outside, None)


def _of_some_length(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Return the last stretch of those that begin at the same time."""
    return (last for _, same in groupby(stretches, lambda each: each.begins_s) for *_, last in [same])
