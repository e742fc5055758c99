"""schedule/lending.py: the state at a time, the part that is lent and offered, and the next change."""

from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from nri_coloc.core.settings import ScheduleTuning
from nri_coloc.schedule.lending import Cause, State, at
from nri_coloc.schedule.switch import ON, Switch, switched_off, switched_on
from tests.unit.schedule.kit import BERLIN, NEW_YORK, NIGHT, in_berlin, in_new_york, window

ONLINE, RISING, OFFLINE, FALLING = (
    State.ONLINE,
    State.ONLINE_TO_OFFLINE,
    State.OFFLINE,
    State.OFFLINE_TO_ONLINE,
)

LEVELS = ScheduleTuning(
    BERLIN,
    (window("daily 20:00-22:00", 50), window("daily 22:00-06:00", 100), window("daily 06:00-08:00", 50)),
    outside=20,
    grace_s=1800,
)
EARLY = ScheduleTuning(NEW_YORK, (window("daily 00:30-02:30"),), outside=0, grace_s=0)


class Case(NamedTuple):
    """`until`: the local time of the next change, with the offset of the zone."""

    story: str
    schedule: ScheduleTuning
    now: datetime
    state: State
    factor: float
    offer: float
    until: str | None


CASES = [
    Case("by day", NIGHT, in_berlin("2026-11-26T12:00"), ONLINE, 0, offer=0, until="26T22:00+01:00"),
    Case("it opens", NIGHT, in_berlin("2026-11-26T22:00"), RISING, 1, offer=1, until="26T22:01+01:00"),
    Case("a minute later", NIGHT, in_berlin("2026-11-26T22:01"), OFFLINE, 1, offer=1, until="27T05:50+01:00"),
    Case("past midnight", NIGHT, in_berlin("2026-11-27T00:00"), OFFLINE, 1, offer=1, until="27T05:50+01:00"),
    Case("the grace begins", NIGHT, in_berlin("2026-11-27T05:50"), FALLING, 1, offer=0, until="27T06:00+01:00"),
    Case("it closes", NIGHT, in_berlin("2026-11-27T06:00"), ONLINE, 0, offer=0, until="27T22:00+01:00"),
    Case("over a weekend", NIGHT, in_berlin("2026-11-28T06:00"), ONLINE, 0, offer=0, until="30T22:00+01:00"),
    Case("spring, before", NIGHT, in_berlin("2026-03-27T23:00"), OFFLINE, 1, offer=1, until="28T05:50+01:00"),
    Case("summer begins", NIGHT, in_berlin("2026-03-28T12:00"), ONLINE, 0, offer=0, until="30T22:00+02:00"),
    Case("no grace, open", EARLY, in_new_york("2026-07-01T01:00"), OFFLINE, 1, offer=1, until="01T02:30-04:00"),
    Case("skipped end", EARLY, in_new_york("2026-03-08T01:00"), OFFLINE, 1, offer=1, until="08T03:00-04:00"),
    Case("repeated hour, first", EARLY, in_new_york("2026-11-01T01:10"), OFFLINE, 1, offer=1, until="01T02:30-05:00"),
    Case(
        "repeated hour, second", EARLY, in_new_york("2026-11-01T01:10", 1), OFFLINE, 1, offer=1, until="01T02:30-05:00",
    ),
    Case("a lower level", LEVELS, in_berlin("2026-11-26T12:00"), OFFLINE, 0.2, offer=0.2, until="26T20:00+01:00"),
    Case("up a level", LEVELS, in_berlin("2026-11-26T20:00"), RISING, 0.5, offer=0.5, until="26T20:01+01:00"),
    Case("down a level", LEVELS, in_berlin("2026-11-27T05:40"), FALLING, 1, offer=0.5, until="27T06:00+01:00"),
    Case("after it", LEVELS, in_berlin("2026-11-27T06:00"), OFFLINE, 0.5, offer=0.5, until="27T07:30+01:00"),
    Case("no windows", ScheduleTuning(), in_berlin("2026-11-26T12:00"), OFFLINE, 1, offer=1, until=None),
    Case("never", ScheduleTuning(outside=0), in_berlin("2026-11-26T12:00"), ONLINE, 0, offer=0, until=None),
    Case(
        "no effect",
        ScheduleTuning(BERLIN, (window("daily 08:00-09:00"),)),
        in_berlin("2026-11-26T12:00"),
        OFFLINE,
        1,
        offer=1,
        until=None,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.story for case in CASES])
def test_the_state_at_a_time(case: Case):
    found = at(case.schedule, case.now)
    until = found.until_s and datetime.fromtimestamp(found.until_s, case.now.tzinfo).isoformat(
        timespec="minutes"
    )
    assert (found.state, found.factor, found.offer) == (case.state, case.factor, case.offer)
    assert (until and until.partition("-")[2].partition("-")[2]) == case.until


def test_a_whole_week_is_always_open():
    found = at(
        ScheduleTuning(BERLIN, (window("daily 00:00-24:00"),), outside=0), in_berlin("2026-11-26T00:00")
    )
    assert (found.state, found.until_s) == (OFFLINE, None)


def test_the_hour_that_is_skipped_opens_a_week_later():
    # the window opens on Sundays only; on 29 March 2026 the clock skips it
    weekly = ScheduleTuning(BERLIN, (window("sun 02:15-02:45"),), outside=0)
    found = at(weekly, in_berlin("2026-03-23T12:00"))
    assert found.until_s == in_berlin("2026-04-05T02:15").timestamp()


def test_new_pods_come_only_while_lending_lasts():
    hours = ("21:59", "22:00", "22:01", "05:49", "05:50", "06:00")
    days = ("26", "26", "26", "27", "27", "27")
    found = [
        at(NIGHT, in_berlin(f"2026-11-{day}T{hour}")).is_open for day, hour in zip(days, hours, strict=True)
    ]
    assert found == [False, True, True, True, False, False]


def test_a_window_within_its_grace_admits_no_pod():
    short = ScheduleTuning(BERLIN, (window("daily 22:00-22:05"),), outside=0, grace_s=600)
    found = at(short, in_berlin("2026-11-26T22:01"))
    assert (found.state, found.factor, found.is_open) == (FALLING, 1, False)


def test_a_fall_behind_a_rise_counts_within_the_grace():
    peak = ScheduleTuning(BERLIN, (window("daily 22:00-22:05"), window("daily 20:00-22:00", 50)), 0, 600)
    found = at(peak, in_berlin("2026-11-26T21:55"))
    assert (found.state, found.factor, found.offer) == (FALLING, 0.5, 0)
    assert found.until_s == in_berlin("2026-11-26T22:00").timestamp()


def test_pods_that_run_beyond_a_window_are_drained():
    assert at(NIGHT, in_berlin("2026-11-27T06:00")).drains
    assert not at(NIGHT, in_berlin("2026-11-27T05:59")).drains


def test_the_cause_names_the_window():
    found = at(NIGHT, in_berlin("2026-11-26T23:00"))
    assert (found.reason, found.because) == (Cause.WINDOW, "schedule.windows[0] is open (lend=100 %)")


@pytest.mark.parametrize(
    ("schedule", "cause", "because"),
    [
        (NIGHT, Cause.OUTSIDE, "no window of the schedule is open (lend=0 %)"),
        (ScheduleTuning(outside=30), Cause.NO_WINDOWS, "the schedule has no windows (lend=30 %)"),
    ],
    ids=["outside", "no windows"],
)
def test_a_closed_schedule_names_its_cause(schedule, cause, because):
    found = at(schedule, in_berlin("2026-11-26T12:00"))
    assert (found.reason, found.because) == (cause, because)


def test_the_grace_names_its_end():
    found = at(NIGHT, in_berlin("2026-11-27T05:55"))
    assert found.reason is Cause.GRACE
    assert "at 2026-11-27T06:00+01:00" in found.because


@pytest.mark.parametrize("case", CASES, ids=[case.story for case in CASES])
def test_a_cause_is_short_enough_for_the_audit(case: Case):
    assert len(at(case.schedule, case.now).because) <= 160


def test_a_time_may_be_seconds_since_1970():
    now = in_berlin("2026-11-26T23:00")
    assert at(NIGHT, now.timestamp()) == at(NIGHT, now)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="has no time zone"):
        at(NIGHT, datetime(2026, 11, 26))  # noqa: DTZ001 - that is the mistake


# --- the operator's switch -------------------------------------------------------------------------------

NIGHTLY = in_berlin("2026-11-26T23:00")


def off(grace_s: float = 0, *, drain: bool = False) -> Switch:
    return switched_off(ON, NIGHTLY.timestamp(), grace_s, drain=drain)


def test_off_ends_lending_at_once():
    found = at(NIGHT, NIGHTLY, off(drain=True))
    assert (found.state, found.factor, found.offer, found.until_s) == (ONLINE, 0, 0, None)


def test_off_with_a_grace_lets_pods_finish():
    found = at(NIGHT, NIGHTLY, off(300))
    assert (found.state, found.factor, found.offer, found.is_open) == (FALLING, 1, 0, False)
    assert found.until_s == (NIGHTLY + timedelta(minutes=5)).timestamp()


def test_the_switch_beats_a_window_that_opens():
    assert at(NIGHT, in_berlin("2026-11-27T23:00"), off(300)).state is ONLINE


def test_a_window_that_closes_beats_the_grace():
    found = at(NIGHT, in_berlin("2026-11-27T06:00"), off(86400))
    assert (found.state, found.factor) == (ONLINE, 0)


@pytest.mark.parametrize("drain", [False, True])
def test_only_a_drain_evicts(drain):
    assert at(ScheduleTuning(), NIGHTLY, off(drain=drain)).drains is drain
    assert not at(ScheduleTuning(), NIGHTLY, off(300, drain=drain)).drains


def test_off_holds_if_the_clock_is_set_back():
    earlier = at(NIGHT, NIGHTLY - timedelta(minutes=30), off(300))
    assert (earlier.state, earlier.offer) == (FALLING, 0)


def test_on_rises_for_a_minute():
    begins_s = NIGHTLY.timestamp()
    order = switched_on(off(), begins_s)
    found = at(NIGHT, NIGHTLY, order)
    assert (found.state, found.factor, found.until_s) == (RISING, 1, begins_s + 60)
    assert at(NIGHT, begins_s + 60, order).state is OFFLINE


def test_on_within_the_grace_raises_nothing():
    order = switched_on(off(300), NIGHTLY.timestamp() + 10)
    assert at(NIGHT, NIGHTLY + timedelta(seconds=10), order).state is OFFLINE


def test_on_outside_a_window_lends_nothing():
    noon = in_berlin("2026-11-26T12:00")
    assert at(NIGHT, noon, switched_on(off(), noon.timestamp())).state is ONLINE


def test_on_without_off_stays_as_it_is():
    order = switched_on(off(), NIGHTLY.timestamp())
    assert switched_on(order, NIGHTLY.timestamp() + 30) is order


def test_on_is_the_schedule_alone():
    assert at(NIGHT, NIGHTLY, Switch()) == at(NIGHT, NIGHTLY)
