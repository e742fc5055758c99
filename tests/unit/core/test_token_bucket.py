"""A rate allows a burst, and then one use after each period."""

from nri_coloc.core.token_bucket import Bucket, Rate, take

RATE = Rate(burst=3, every_s=2.0)


def used_up(now_s: float) -> Bucket:
    bucket: Bucket | None = Bucket()
    for _ in range(RATE.burst):
        assert bucket is not None
        bucket = take(bucket, RATE, now_s)
    assert bucket is not None
    return bucket


def test_a_burst_is_allowed():
    assert used_up(50.0) == Bucket(used=3, at_s=50.0)


def test_one_more_is_refused():
    assert take(used_up(50.0), RATE, 51.9) is None


def test_a_period_later_one_is_allowed():
    later = take(used_up(50.0), RATE, 52.0)
    assert later == Bucket(used=3, at_s=52.0)


def test_the_wait_ends_with_the_period():
    assert used_up(50.0).at(50.5, RATE).wait_s(RATE) == 1.5


def test_a_quiet_time_restores_the_burst_alone():
    assert used_up(50.0).at(5000.0, RATE) == Bucket(used=0, at_s=5000.0)


def test_a_clock_that_went_back_grants_nothing():
    assert take(used_up(50.0), RATE, 0.0) is None
