"""lending/gauges.py: the difference of counters rises as they do, and is unknown if a counter restarted."""

import pytest

from nri_coloc.core.readings import risen
from nri_coloc.lending.gauges import Remainder, remainder


def told(*readings: tuple[list[int | None], list[int | None]]) -> list[int | None]:
    """Return the remainder after each reading; None is unknown."""
    known: Remainder | None = None
    found = []
    for added, taken in readings:
        known, left = remainder(known, added, taken)
        found.append(left)
    return found


@pytest.mark.parametrize(
    ("before", "after", "rise"),
    [(3, 8, 5), (3, 3, 0), (3, 2, None), (None, 3, None), (3, None, None)],
    ids=["it rose", "it rested", "it began again", "unreadable before", "unreadable after"],
)
def test_a_counter_rose_by_what_it_is_more(before, after, rise):
    assert risen(before, after) == rise


def test_the_remainder_rises_by_the_surplus_of_one():
    assert told(([100, 10], [30]), ([150, 20], [40])) == [80, 130]


def test_it_never_falls():
    assert told(([100], [30]), ([100], [40]), ([105], [40])) == [70, 70, 70]


@pytest.mark.parametrize("reading", [([None], [40]), ([100], [None])], ids=["added", "taken off"])
def test_an_unreadable_counter_is_unknown_and_the_rest_is_unchanged(reading):
    assert told(([100], [30]), reading, ([150], [40])) == [70, None, 110]


@pytest.mark.parametrize(
    "anew",
    [([5], [40]), ([1_000], [0]), ([5], [0])],
    ids=["the node's", "the pods'", "both, of which more is left than before"],
)
def test_after_a_counter_reset_the_remainder_is_unknown_once(anew):
    (one,), (other,) = anew
    assert told(([100], [99]), anew, ([one + 50], [other + 20])) == [1, None, 31]


def test_one_that_began_anew_before_anybody_looked_is_not_waited_for():
    assert told(([5], [900]), ([55], [920]), ([105], [920])) == [0, 30, 80]
