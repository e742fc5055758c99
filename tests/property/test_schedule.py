"""schedule: the result is a function of time alone, `until_s` is exact, and the least of the open windows wins."""

from datetime import UTC, datetime
from itertools import pairwise
from math import nextafter
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from nri_coloc.core.settings import ScheduleTuning, WindowTuning
from nri_coloc.schedule.lending import Lending, State, at
from nri_coloc.schedule.switch import ON, Clocks, Switch, parsed, switched_off, text_of
from tests.rig import examples

ZONES = [
    UTC,
    *map(
        ZoneInfo,
        ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Asia/Kathmandu"),
    ),
]
LENDS = st.sampled_from((0, 30, 50, 100))
WINDOWS = st.builds(
    WindowTuning,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    opens=st.one_of(st.integers(0, 1439), st.sampled_from((0, 90, 120, 150, 1320))),
    closes=st.one_of(st.integers(1, 1440), st.sampled_from((90, 120, 150, 360, 1440))),
    lend=LENDS,
)
SCHEDULES = st.builds(
    ScheduleTuning,
    zone=st.sampled_from(ZONES),
    windows=st.lists(WINDOWS, max_size=4).map(tuple),
    outside=LENDS,
    grace_s=st.sampled_from((0.0, 600.0, 3600.0, 86400.0)),
)
CHANGES = (
    datetime(2026, 3, 8, 7, tzinfo=UTC).timestamp(),
    datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp(),
    datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp(),
    datetime(2026, 11, 1, 6, tzinfo=UTC).timestamp(),
)
TIMES = st.one_of(
    st.integers(1_770_000_000, 1_805_000_000).map(float),
    st.builds(lambda change, shift: change + shift, st.sampled_from(CHANGES), st.integers(-7200, 7200)),
)
SWITCHES = st.one_of(
    st.just(ON),
    st.lists(
        st.tuples(TIMES, st.sampled_from((0.0, 600.0, 86400.0)), st.booleans()), min_size=1, max_size=3
    ).map(lambda orders: after(sorted(orders))),
)


def after(orders: list[tuple[float, float, bool]]) -> Switch:
    """Return the switch after some orders to end lending: time, grace and drain of each."""
    switch = ON
    for now_s, grace_s, drain in orders:
        switch = switched_off(switch, now_s, grace_s, drain=drain)
    return switch


def effect(found: Lending) -> tuple[object, ...]:
    return found.state, found.factor, found.offer, found.drains, found.ordered


@settings(max_examples=examples.times(0.6))
@given(SCHEDULES, TIMES, SWITCHES, st.floats(0, 1, exclude_max=True))
def test_until_is_exact(schedule, now_s, switch, part):
    now_s = max(now_s, switch.at_s)  # no order is of the future
    found = at(schedule, now_s, switch)
    if found.until_s is None:
        assert effect(at(schedule, now_s + 40 * 86400 * part, switch)) == effect(found)
        return
    assert found.until_s > now_s
    between = min(now_s + (found.until_s - now_s) * part, nextafter(found.until_s, now_s))
    assert effect(at(schedule, between, switch)) == effect(found)
    assert effect(at(schedule, found.until_s, switch)) != effect(found)


@settings(max_examples=examples.times(0.6))
@given(SCHEDULES, TIMES, SWITCHES)
def test_the_parts_agree_with_the_state(schedule, now_s, switch):
    found = at(schedule, now_s, switch)
    assert 0 <= found.offer <= found.factor <= 1
    assert (found.state is State.ONLINE) == (found.factor == 0)
    assert (found.state is State.OFFLINE_TO_ONLINE) == (found.offer < found.factor)
    assert not (found.drains and found.factor)
    assert len(found.because) <= 160


@settings(max_examples=examples.times(0.6))
@given(SCHEDULES, TIMES, SWITCHES, st.sampled_from((0.0, 600.0, 86400.0)), st.booleans())
def test_an_order_to_end_never_lends_more(schedule, now_s, before, grace_s, drain):
    if not before.off or now_s >= before.at_s:
        now = switched_off(before, now_s, grace_s, drain=drain)
        assert at(schedule, now_s, now).factor <= at(schedule, now_s, before).factor
        assert at(schedule, now_s, now).offer == 0


@settings(max_examples=examples.times(0.6))
@given(SWITCHES, st.floats(0, 1e6), st.floats(-1e6, 1e6), st.sampled_from(("", "one", "two")))
def test_no_restart_extends_an_order(before, since_s, set_by_s, boot):
    written = Clocks("one", before.at_s, before.at_s + 1e6)
    now = Clocks(boot, before.at_s + since_s, before.at_s + 1e6 + since_s + set_by_s)
    found = parsed(text_of(before, written), now)
    assert found.at_s <= now.boot_s
    assert found.ends_s <= found.drains_s
    assert (found.off, found.grace_s, found.drain) == (before.off, before.grace_s, before.drain)
    if boot == "one":
        assert found == before


def week_minute(now_s: float) -> int:
    now = datetime.fromtimestamp(now_s, UTC)
    return now.weekday() * 1440 + now.hour * 60 + now.minute


def minutes_of(window: WindowTuning) -> set[int]:
    length = (window.closes - window.opens) % 1440 or 1440
    return {(day * 1440 + window.opens + more) % 10080 for day in window.days for more in range(length)}


@settings(max_examples=examples.times(0.6))
@given(SCHEDULES, TIMES)
def test_the_least_open_window_wins(schedule, now_s):
    in_utc = ScheduleTuning(UTC, schedule.windows, schedule.outside, schedule.grace_s)
    are_open = [each.lend for each in schedule.windows if week_minute(now_s) in minutes_of(each)]
    assert at(in_utc, now_s).factor == min(are_open, default=schedule.outside) / 100


@settings(max_examples=examples.times(0.3))
@given(SCHEDULES, TIMES)
def test_no_fall_comes_without_its_grace(schedule, now_s):
    steps = [at(schedule, now_s)]
    while len(steps) < 6 and steps[-1].until_s is not None:
        steps.append(at(schedule, steps[-1].until_s))
    for before, after in pairwise(steps):
        if after.factor < before.factor and schedule.grace_s:
            assert before.state is State.OFFLINE_TO_ONLINE
