"""A histogram counts amounts in buckets, fades, and gives percentiles."""

import pytest

from nri_coloc.forecast import histogram
from nri_coloc.forecast.histogram import CPU_MILLI, MEMORY_BYTES, Histogram, exponential

HALF_LIFE_S = 1000.0
SCALE = exponential(10, 2.0, 100)


def filled(*samples: tuple[int, float]) -> Histogram:
    made = histogram.empty(SCALE)
    for amount, at in samples:
        made = histogram.added(made, SCALE.bucket(amount), at, HALF_LIFE_S)
    return made


def test_buckets_widen_by_their_ratio():
    assert SCALE.edges == (0, 10, 30, 70, 150)


@pytest.mark.parametrize(
    ("amount", "bucket"), [(-5, 0), (0, 0), (9, 0), (10, 1), (29, 1), (149, 3), (150, 4), (10**9, 4)]
)
def test_an_amount_is_in_the_bucket_below_it(amount, bucket):
    assert SCALE.bucket(amount) == bucket


def test_the_last_bucket_has_no_upper_end():
    assert [SCALE.most_of(n) for n in (0, 3, 4)] == [10, 150, 150]


def test_the_scales_reach_as_far_as_machines_do():
    assert CPU_MILLI.edges[:3] == (0, 25, 51)
    assert MEMORY_BYTES.edges[1] == 5 << 20
    assert CPU_MILLI.edges[-1] >= 1_024_000
    assert MEMORY_BYTES.edges[-1] >= 2 << 40
    assert len(CPU_MILLI.edges) < len(MEMORY_BYTES.edges) < 256


def test_of_nothing_there_is_no_percentile():
    assert histogram.percentile(histogram.empty(SCALE), SCALE, 0.95) is None
    assert histogram.empty(SCALE).total == 0.0


@pytest.mark.parametrize(
    ("part", "amount"), [(0.0, 10), (0.5, 10), (0.9, 10), (0.91, 150), (1.0, 150), (7.0, 150)]
)
def test_a_percentile_is_the_end_of_its_bucket(part, amount):
    nine_low_one_high = filled(*((5, 0.0),) * 9, (100, 0.0))
    assert histogram.percentile(nine_low_one_high, SCALE, part) == amount


def test_a_sample_of_a_half_life_ago_weighs_half():
    found = filled((5, 0.0), (100, HALF_LIFE_S))
    assert histogram.percentile(found, SCALE, 0.33) == 10
    assert histogram.percentile(found, SCALE, 0.34) == 150


def test_a_gap_counts_for_two_half_lives():
    jumped = filled((5, 0.0), (100, 1e12))
    assert jumped.age == 2.0
    assert histogram.percentile(jumped, SCALE, 0.2) == 10


def test_a_clock_set_back_ages_nothing():
    back = filled((5, 1e9), (100, 5.0))
    assert (back.age, back.last_s) == (0.0, 5.0)
    assert histogram.percentile(back, SCALE, 0.5) == 10


def test_weights_stay_small_and_faded_samples_go():
    made = filled((100, 0.0))
    for step in range(1, 60):
        made = histogram.added(made, SCALE.bucket(5), step * HALF_LIFE_S, HALF_LIFE_S)
    assert made.total < 2.0**26
    assert histogram.percentile(made, SCALE, 1.0) == 10


def test_adding_leaves_the_former_value_as_it_was():
    before = filled((5, 0.0))
    histogram.added(before, 1, 1.0, HALF_LIFE_S)
    assert before == filled((5, 0.0))


def test_known_weights_make_the_same_histogram_again():
    found = filled((5, 0.0), (100, 0.0), (100, 0.0))
    again = histogram.of(SCALE, [(0, 1.0), (3, 2.0)], 0.0)
    assert again == found
