"""Invariants of a histogram for every history of samples."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.forecast import histogram
from nri_coloc.forecast.histogram import CPU_MILLI, Histogram

AMOUNTS = st.integers(0, 1_000_000)
TIMES = st.one_of(st.floats(-1e12, 1e12), st.integers(0, 10_000_000).map(float))
SAMPLES = st.lists(st.tuples(AMOUNTS, TIMES), min_size=1, max_size=60)
PARTS = st.floats(0.0, 1.0)


def filled(samples: list[tuple[int, float]]) -> Histogram:
    made = histogram.empty(CPU_MILLI)
    for amount, at in samples:
        made = histogram.added(made, CPU_MILLI.bucket(amount), at, 43_200.0)
    return made


def percentile(samples: list[tuple[int, float]], part: float) -> int:
    found = histogram.percentile(filled(samples), CPU_MILLI, part)
    assert found is not None
    return found


@given(SAMPLES, PARTS, PARTS)
def test_a_higher_percentile_is_no_lower_amount(samples, one, other):
    assert percentile(samples, min(one, other)) <= percentile(samples, max(one, other))


@given(SAMPLES, PARTS)
def test_an_answer_lies_within_its_samples_buckets(samples, part):
    found = percentile(samples, part)
    assert min(amount for amount, _ in samples) <= found
    assert found <= max(amount for amount, _ in samples) * 1.05 + 26


@given(SAMPLES, AMOUNTS, PARTS)
def test_a_sample_above_all_others_never_lowers_a_percentile(samples, more, part):
    highest = max(amount for amount, _ in samples) + more
    assert percentile([*samples, (highest, samples[-1][1])], part) >= percentile(samples, part)


@given(SAMPLES)
def test_the_whole_weight_stays_finite_and_positive(samples):
    assert 0.0 < filled(samples).total < 2.0**40
