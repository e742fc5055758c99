"""schedule/windows.py: on which local days a window opens, and at which moments.

In 2026 Berlin's clock skips 02:00 to 03:00 on 29 March and repeats it on 25 October; New York's skips 02:00 to 03:00 on
8 March and repeats 01:00 to 02:00 on 1 November.
"""

from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from nri_coloc.core.settings import ScheduleTuning, WindowTuning
from nri_coloc.schedule.windows import moment, opening_on, timeline
from tests.unit.schedule.kit import BERLIN, NEW_YORK, at_utc, minute, window

SPRING_BERLIN, AUTUMN_BERLIN = date(2026, 3, 29), date(2026, 10, 25)
SPRING_NEW_YORK, AUTUMN_NEW_YORK = date(2026, 3, 8), date(2026, 11, 1)


def utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%d %H:%M")


MOMENTS: list[tuple[str, tzinfo, date, str, str]] = [
    ("winter", BERLIN, date(2026, 1, 15), "22:00", "15 21:00"),
    ("summer", BERLIN, date(2026, 7, 15), "22:00", "15 20:00"),
    ("midnight", BERLIN, date(2026, 7, 15), "00:00", "14 22:00"),
    ("24:00 is the next midnight", BERLIN, date(2026, 7, 15), "24:00", "15 22:00"),
    ("before the skipped hour", BERLIN, SPRING_BERLIN, "01:59", "29 00:59"),
    ("first skipped minute", BERLIN, SPRING_BERLIN, "02:00", "29 01:00"),
    ("in the skipped hour", BERLIN, SPRING_BERLIN, "02:30", "29 01:00"),
    ("last skipped minute", BERLIN, SPRING_BERLIN, "02:59", "29 01:00"),
    ("after the skipped hour", BERLIN, SPRING_BERLIN, "03:00", "29 01:00"),
    ("the skipped hour is over", BERLIN, SPRING_BERLIN, "03:01", "29 01:01"),
    ("before the repeated hour", BERLIN, AUTUMN_BERLIN, "01:59", "24 23:59"),
    ("in the repeated hour", BERLIN, AUTUMN_BERLIN, "02:30", "25 00:30"),
    ("after the repeated hour", BERLIN, AUTUMN_BERLIN, "03:00", "25 02:00"),
    ("New York, skipped", NEW_YORK, SPRING_NEW_YORK, "02:30", "08 07:00"),
    ("New York, after it", NEW_YORK, SPRING_NEW_YORK, "03:00", "08 07:00"),
    ("New York, repeated", NEW_YORK, AUTUMN_NEW_YORK, "01:30", "01 05:30"),
    ("New York, after that", NEW_YORK, AUTUMN_NEW_YORK, "02:00", "01 07:00"),
    ("half an hour is skipped", ZoneInfo("Australia/Lord_Howe"), date(2026, 10, 4), "02:15", "03 15:30"),
    ("midnight is skipped", ZoneInfo("Asia/Beirut"), date(2026, 3, 29), "00:00", "28 22:00"),
    ("a day is skipped", ZoneInfo("Pacific/Apia"), date(2011, 12, 30), "12:00", "30 10:00"),
]


@pytest.mark.parametrize(
    ("zone", "day", "text", "expected"), [m[1:] for m in MOMENTS], ids=[m[0] for m in MOMENTS]
)
def test_an_end_is_the_first_moment_shown(zone, day, text, expected):
    assert utc(moment(day, minute(text), zone)) == expected


HOURS: list[tuple[str, tzinfo, date, str, float]] = [
    ("an ordinary night", BERLIN, date(2026, 7, 18), "22:00-06:00", 8),
    ("Berlin's short night", BERLIN, SPRING_BERLIN - timedelta(days=1), "22:00-06:00", 7),
    ("Berlin's long night", BERLIN, AUTUMN_BERLIN - timedelta(days=1), "22:00-06:00", 9),
    ("New York's short night", NEW_YORK, SPRING_NEW_YORK - timedelta(days=1), "22:00-06:00", 7),
    ("New York's long night", NEW_YORK, AUTUMN_NEW_YORK - timedelta(days=1), "22:00-06:00", 9),
    ("it opens in the skipped hour", BERLIN, SPRING_BERLIN, "02:30-04:00", 1),
    ("it closes in the skipped hour", BERLIN, SPRING_BERLIN, "01:00-02:30", 1),
    ("it opens in the repeated hour", BERLIN, AUTUMN_BERLIN, "02:30-04:00", 2.5),
    ("it closes in the repeated hour", BERLIN, AUTUMN_BERLIN, "01:00-02:30", 1.5),
    ("it lies in the repeated hour", BERLIN, AUTUMN_BERLIN, "02:15-02:45", 0.5),
    ("a whole short day", BERLIN, SPRING_BERLIN, "00:00-24:00", 23),
    ("a whole long day", BERLIN, AUTUMN_BERLIN, "00:00-24:00", 25),
    ("from noon to noon", BERLIN, AUTUMN_BERLIN - timedelta(days=1), "12:00-12:00", 25),
]


@pytest.mark.parametrize(("zone", "day", "span", "hours"), [h[1:] for h in HOURS], ids=[h[0] for h in HOURS])
def test_a_window_keeps_its_wall_clock_ends(zone, day, span, hours):
    opening = opening_on(day, 0, window(f"daily {span}"), zone)
    assert opening is not None
    assert (opening.closes_s - opening.opens_s) / 3600 == hours


def test_a_window_in_the_skipped_hour_stays_closed():
    assert opening_on(SPRING_BERLIN, 0, window("daily 02:15-02:45"), BERLIN) is None


def test_a_window_opens_on_its_days_only():
    saturday = date(2026, 11, 28)
    assert opening_on(saturday, 0, window("mon-fri 22:00-06:00"), BERLIN) is None
    assert opening_on(saturday, 0, window("sat,sun 22:00-06:00"), BERLIN) is not None


def lent(windows: tuple[WindowTuning, ...], text: str, outside: int = 0) -> int:
    """Return the percentage that is lent at a UTC time."""
    now_s = at_utc(text).timestamp()
    return timeline(ScheduleTuning(UTC, windows, outside), now_s, now_s).at(now_s).lend


FRIDAY = "2026-11-27T"
CASES = [
    ("before it opens", ("mon-fri 22:00-06:00",), "2026-11-27T21:59:59", 0),
    ("when it opens", ("mon-fri 22:00-06:00",), "2026-11-27T22:00", 1),
    ("after midnight, on a day without the window", ("mon-fri 22:00-06:00",), "2026-11-28T05:59:59", 1),
    ("when it closes", ("mon-fri 22:00-06:00",), "2026-11-28T06:00", 0),
    ("after midnight of a day without the window", ("mon-fri 22:00-06:00",), "2026-11-30T05:00", 0),
    ("the whole weekend, at its seam", ("sat,sun 00:00-24:00",), "2026-11-29T00:00", 1),
    ("the weekend's end", ("sat,sun 00:00-24:00",), "2026-11-30T00:00", 0),
]


@pytest.mark.parametrize(("windows", "text", "lend"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_ends_belong_to_the_time_after_them(windows, text, lend):
    assert lent(tuple(window(each, 1) for each in windows), text) == lend


@pytest.mark.parametrize("turned", [False, True], ids=["as written", "turned round"])
def test_of_overlapping_windows_the_least_wins(turned):
    both = (window("daily 08:00-20:00", 60), window("daily 12:00-14:00", 20))
    both = both[::-1] if turned else both
    at_hours = [lent(both, f"{FRIDAY}{hour}:00", 100) for hour in ("07", "08", "12", "14", "20")]
    assert at_hours == [100, 60, 20, 60, 100]


def test_a_window_may_lend_less_than_outside():
    assert lent((window("daily 09:00-18:00", 0),), f"{FRIDAY}10:00", outside=100) == 0


def test_the_same_window_twice_is_one():
    twice = (window("daily 09:00-18:00", 50), window("daily 09:00-18:00", 50))
    assert [lent(twice, f"{FRIDAY}{hour}") for hour in ("10:00", "18:00")] == [50, 0]
