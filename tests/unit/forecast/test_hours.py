"""A ring keeps the peak of each hour of the last day."""

import pytest

from nri_coloc.forecast import hours
from nri_coloc.forecast.hours import UNKNOWN, Hours

HOUR_S, DAY = 3600.0, 24
NOON = 12 * HOUR_S + 1000 * DAY * HOUR_S


def ring(*seen: tuple[int, int]) -> Hours:
    """Return a ring that saw these (hours after NOON, amount)."""
    made = hours.unknown()
    for hour, amount in seen:
        made = hours.noted(made, amount, NOON + hour * HOUR_S)
    return made


def yesterday(made: Hours, hour: int) -> int | None:
    return hours.yesterday(made, NOON + hour * HOUR_S)


def test_of_nothing_there_is_no_yesterday():
    assert yesterday(hours.unknown(), 0) is None


def test_yesterdays_hour_is_remembered_through_this_hour():
    made = ring((0, 700), *((n, 10) for n in range(1, 24)), (24, 5))
    assert yesterday(made, 24) == 700


def test_an_hour_has_its_peak():
    assert yesterday(ring((0, 5), (0, 9), (0, 7)), 24) == 9


def test_the_next_hour_of_yesterday_counts_too():
    assert yesterday(ring((0, 5), (1, 90)), 24) == 90
    assert yesterday(ring((1, 90)), 24) == 90


def test_the_hour_after_next_does_not():
    assert yesterday(ring((0, 5), (2, 90)), 24) == 5


def test_two_days_later_it_is_forgotten():
    assert yesterday(ring((0, 700), (48, 5)), 48) is None
    assert yesterday(ring((0, 700)), 49) is None


def test_hours_without_a_sample_are_unknown():
    made = ring((0, 700), (1, 800), (24, 5), (27, 6))
    assert yesterday(made, 49) is None


def test_a_clock_set_back_by_hours_writes_into_those():
    made = ring((5, 10), (3, 20))
    assert (made.newest, yesterday(made, 27)) == (ring((5, 1)).newest, 20)


@pytest.mark.parametrize("hour", [-100_000, 100_000])
def test_a_clock_that_jumps_by_days_begins_anew(hour):
    made = ring((0, 700), (hour, 3))
    assert yesterday(made, hour + 24) == 3
    assert list(made.peaks).count(UNKNOWN) == hours.LENGTH - 1


def test_an_amount_beyond_all_reason_still_fits():
    assert yesterday(ring((0, 10**30)), 24) == 2**63 - 1


def test_known_peaks_make_the_same_ring_again():
    made = ring((0, 700), (3, 9))
    assert hours.of(made.newest, list(made.peaks)) == made


def test_noting_leaves_the_former_value_as_it_was():
    before = ring((0, 700))
    hours.noted(before, 900, NOON)
    assert before == ring((0, 700))
