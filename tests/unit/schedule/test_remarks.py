"""schedule/remarks.py: windows that an operator probably did not mean."""

import pytest

from nri_coloc.core.settings import ScheduleTuning
from nri_coloc.schedule.remarks import remarks
from tests.unit.schedule.kit import NIGHT, window

CASES: list[tuple[str, ScheduleTuning, list[str]]] = [
    ("nothing odd", NIGHT, []),
    ("no windows", ScheduleTuning(outside=0), []),
    (
        "neighbours",
        ScheduleTuning(windows=(window("daily 20:00-22:00", 50), window("daily 22:00-06:00", 70))),
        [],
    ),
    (
        "an overlap",
        ScheduleTuning(windows=(window("daily 20:00-23:00", 50), window("daily 22:00-06:00", 70))),
        ["windows[0] and schedule.windows[1] overlap; the least wins, lend: 50"],
    ),
    (
        "an overlap across the end of the week",
        ScheduleTuning(windows=(window("sun 22:00-06:00", 50), window("mon-fri 05:00-08:00", 70))),
        ["windows[0] and schedule.windows[1] overlap; the least wins, lend: 50"],
    ),
    (
        "one that never decides",
        ScheduleTuning(windows=(window("sat 10:00-12:00", 50), window("daily 00:00-24:00", 20))),
        ["overlap", "windows[0] never decides"],
    ),
    (
        "the same twice",
        ScheduleTuning(windows=(window("sat 10:00-12:00", 50),) * 2),
        ["windows[1] never decides"],
    ),
    (
        "one that equals outside",
        ScheduleTuning(windows=(window("sat 10:00-12:00", 100),)),
        ["windows[0] changes nothing"],
    ),
    (
        "one as short as the grace",
        ScheduleTuning(windows=(window("daily 10:00-10:10"),), outside=0, grace_s=600),
        ["windows[0] admits no pod: it is not open for longer than grace (600 s)"],
    ),
    (
        "one a minute longer",
        ScheduleTuning(windows=(window("daily 10:00-10:11"),), outside=0, grace_s=600),
        [],
    ),
    (
        "one around midnight",
        ScheduleTuning(windows=(window("daily 23:55-00:06"),), outside=0, grace_s=600),
        [],
    ),
    (
        "one around the week's end",
        ScheduleTuning(windows=(window("sun 23:55-00:06"),), outside=0, grace_s=600),
        [],
    ),
    ("all the time", ScheduleTuning(windows=(window("daily 00:00-24:00"),), outside=0, grace_s=86400), []),
    ("a blackout as short as the grace", ScheduleTuning(windows=(window("daily 10:00-10:10", 0),)), []),
]


@pytest.mark.parametrize(("schedule", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_odd_windows_are_named(schedule, said):
    found = remarks(schedule)
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))
