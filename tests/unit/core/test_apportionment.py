"""Whole numbers are divided by weight."""

import pytest

from nri_coloc.core.apportionment import apportion


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (10, {"a": 1, "b": 1}, {"a": 5, "b": 5}),
        (10, {"a": 1, "b": 2}, {"a": 3, "b": 7}),
        (2, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 0}),
        (5, {"a": 0, "b": 3}, {"a": 0, "b": 5}),
        (5, {"b": 0, "a": 0}, {"a": 3, "b": 2}),
        (0, {"a": 7}, {"a": 0}),
        (7, {}, {}),
    ],
)
def test_parts_follow_the_weights(total, weights, parts):
    assert apportion(total, weights) == parts
