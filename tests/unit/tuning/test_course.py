"""A new figure counts only after it has lasted for long enough."""

import pytest

from nri_coloc.tuning.lent_amounts import Course, follow

DWELL_S = 300.0
SETTLED = Course(10_000)


def after(course: Course, *seen: tuple[float, int]) -> Course:
    """Return the course after these (seconds, value)."""
    for now_s, value in seen:
        course = follow(course, value, now_s, dead_band=0.1, dwell_s=DWELL_S)
    return course


@pytest.mark.parametrize("value", [9000, 10_000, 11_000])
def test_a_difference_within_the_dead_band_is_none(value):
    assert after(SETTLED, (0.0, value)) == SETTLED


def test_another_value_has_to_last():
    assert after(SETTLED, (0.0, 5000), (299.0, 5000)).settled == 10_000
    assert after(SETTLED, (0.0, 5000), (300.0, 5000)) == Course(5000)


def test_a_fall_is_settled_at_the_highest_that_it_showed():
    assert after(SETTLED, (0.0, 5000), (100.0, 8000), (300.0, 2000)) == Course(8000)


def test_a_rise_is_settled_at_the_lowest_that_it_showed():
    assert after(SETTLED, (0.0, 20_000), (100.0, 12_000), (300.0, 30_000)) == Course(12_000)


def test_a_dip_after_a_rise_begins_anew():
    assert after(SETTLED, (0.0, 20_000), (299.0, 20_000), (300.0, 2000)) == Course(10_000, 300.0, 2000)


def test_a_value_that_comes_back_begins_anew():
    assert after(SETTLED, (0.0, 5000), (299.0, 10_000), (300.0, 5000)) == Course(10_000, 300.0, 5000)


def test_a_clock_that_was_set_back_begins_anew():
    assert after(SETTLED, (1000.0, 5000), (5.0, 5000)) == Course(10_000, 5.0, 5000)


def test_the_first_value_is_the_highest_of_its_dwell():
    assert after(Course(), (0.0, 1000), (100.0, 4000)).settled is None
    assert after(Course(), (0.0, 1000), (100.0, 4000), (300.0, 0)) == Course(4000)


def test_from_nothing_any_rise_counts():
    assert after(Course(0), (0.0, 500), (300.0, 700)) == Course(500)
