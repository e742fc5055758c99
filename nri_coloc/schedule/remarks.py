"""Find windows that overlap or have no effect, so that an operator reads of them when the file is checked.

Windows are compared on a week of 10,080 minutes of the local clock, one bit a minute. Daylight saving is not
considered: it may keep a window of less than an hour from opening on one day of the year.
"""

from itertools import combinations
from typing import Final

from nri_coloc.core.settings import ScheduleTuning, WindowTuning
from nri_coloc.schedule.windows import DAY_MINUTES

WEEK_MINUTES: Final = 7 * DAY_MINUTES
_WEEK: Final = (1 << WEEK_MINUTES) - 1


def remarks(schedule: ScheduleTuning) -> tuple[str, ...]:
    """Return one sentence for each window that overlaps another, never decides, changes nothing, or admits no pod."""
    minutes = [_minutes(window) for window in schedule.windows]
    return (
        *_overlaps(schedule, minutes),
        *(text for index in range(len(minutes)) if (text := _without_effect(schedule, minutes, index))),
    )


def _minutes(window: WindowTuning) -> int:
    """Return the minutes of the week in which a window is open, one bit each; Monday 00:00 is bit 0."""
    length = (window.closes - window.opens) % DAY_MINUTES or DAY_MINUTES
    found = 0
    for day in window.days:
        found |= ((1 << length) - 1) << (day * DAY_MINUTES + window.opens)
    return found & _WEEK | found >> WEEK_MINUTES


def _overlaps(schedule: ScheduleTuning, minutes: list[int]) -> list[str]:
    return [
        f"{_name(one)} and {_name(other)} overlap; the least wins, lend: "
        f"{min(schedule.windows[one].lend, schedule.windows[other].lend)}"
        for one, other in combinations(range(len(minutes)), 2)
        if minutes[one] & minutes[other] and schedule.windows[one].lend != schedule.windows[other].lend
    ]


def _without_effect(schedule: ScheduleTuning, minutes: list[int], index: int) -> str:
    window = schedule.windows[index]
    left = minutes[index]
    for other, lent in enumerate(schedule.windows):
        if lent.lend < window.lend or (lent.lend == window.lend and other < index):
            left &= ~minutes[other]
    if not left:
        return f"{_name(index)} never decides: windows that lend less or as much cover all of it; remove it"
    if window.lend == schedule.outside:
        return f"{_name(index)} changes nothing where no other window is open: lend equals outside ({window.lend})"
    if schedule.outside < window.lend and not _has_run(left, int(schedule.grace_s) // 60 + 1):
        return f"{_name(index)} admits no pod: it is not open for longer than grace ({schedule.grace_s:g} s)"
    return ""


def _has_run(minutes: int, length: int) -> bool:
    """Return whether so many minutes lie in a row; the week repeats."""
    found, known = minutes | minutes << WEEK_MINUTES, 1
    while known < length:  # a bit of `found` ends a run of `known` minutes
        more = min(known, length - known)
        found &= found << more
        known += more
    return found != 0


def _name(index: int) -> str:
    return f"schedule.windows[{index}]"
