"""Keep the peak of every hour of the last day, for the time when readings fail.

A ring of 25: the present hour and the 24 before it, so that this hour does not overwrite the same hour of yesterday.
Hours are counted from 1970 in UTC; "yesterday" is 24 hours ago, even when clocks change for summer.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LENGTH: Final = 25
UNKNOWN: Final = -1
_HOUR_S: Final = 3600.0
_DAY: Final = 24
_LARGEST: Final = 2**63 - 1
"""The largest value of a slot; a day's peak is always less."""


@dataclass(frozen=True, slots=True)
class Hours:
    """The ring. `newest`: the last hour written; an hour's slot is that hour modulo the length."""

    newest: int
    peaks: "array[int]"


def unknown() -> Hours:
    """Return a ring of unknown peaks."""
    return Hours(0, array("q", [UNKNOWN] * LENGTH))


def of(newest: int, peaks: Sequence[int]) -> Hours:
    """Return a ring of known peaks in the order of the slots, as a checkpoint holds them."""
    return Hours(newest, array("q", peaks))


def noted(hours: Hours, amount: int, now_s: float) -> Hours:
    """Return the ring with an amount (≥ 0) of now; skipped hours are unknown.

    A clock set back by hours writes into those hours. If it is set back by more than the ring holds, an empty ring
    starts.
    """
    hour = int(now_s // _HOUR_S)
    newest, peaks = hours.newest, array("q", hours.peaks)
    if abs(hour - newest) >= LENGTH:
        newest, peaks = hour, array("q", [UNKNOWN] * LENGTH)
    for skipped in range(newest + 1, hour + 1):
        peaks[skipped % LENGTH] = UNKNOWN
    peaks[hour % LENGTH] = max(peaks[hour % LENGTH], min(amount, _LARGEST))
    return Hours(max(newest, hour), peaks)


def yesterday(hours: Hours, now_s: float) -> int | None:
    """Return yesterday's peak of this hour and the next, whichever is higher; None if neither is known.

    The next hour counts too, because the capacity advertised now is still used in an hour.
    """
    hour = int(now_s // _HOUR_S)
    known = [_peak_of(hours, wanted) for wanted in (hour - _DAY, hour - _DAY + 1)]
    return max(known) if max(known) != UNKNOWN else None


def _peak_of(hours: Hours, hour: int) -> int:
    inside = hours.newest - LENGTH < hour <= hours.newest
    return hours.peaks[hour % LENGTH] if inside else UNKNOWN
