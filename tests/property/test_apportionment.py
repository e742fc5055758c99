"""Invariants of every division of an amount among any number of parts."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.apportionment import apportion

WEIGHTS = st.dictionaries(st.integers(0, 50), st.one_of(st.just(0), st.integers(0, 1 << 40)), min_size=1)
TOTALS = st.integers(0, 1 << 45)


@given(TOTALS, WEIGHTS)
def test_the_parts_sum_to_the_whole_and_none_is_negative(total, weights):
    parts = apportion(total, weights)
    assert sum(parts.values()) == total
    assert min(parts.values()) >= 0
    assert parts.keys() == weights.keys()


@given(TOTALS, WEIGHTS)
def test_nobody_is_more_than_one_off_the_exact_part(total, weights):
    weight = sum(weights.values())
    if weight:
        parts = apportion(total, weights)
        assert all(abs(parts[key] * weight - total * own) < weight for key, own in weights.items())


@given(TOTALS, WEIGHTS)
def test_the_order_in_which_they_are_named_means_nothing(total, weights):
    assert apportion(total, weights) == apportion(total, dict(reversed(weights.items())))
