"""The window keeps every peak of its time, and no older one."""

from itertools import pairwise

from nri_coloc.lending.usage import BUCKETS, Peaks, first_peak, with_peak


def fed(values: list[int], step_s: float = 0.02, window_s: float = 1.0) -> Peaks:
    peaks = first_peak(values[0], 0.0)
    for number, value in enumerate(values[1:], 1):
        peaks = with_peak(peaks, value, number * step_s, window_s)
    return peaks


def test_one_value_is_its_own_peak():
    assert first_peak(7, 3.0).peak == 7


def test_the_highest_of_the_window_is_the_peak():
    assert fed([1, 9, 3]).peak == 9


def test_a_peak_is_kept_for_the_whole_window():
    assert fed([9] + [1] * 49).peak == 9


def test_a_peak_is_forgotten_soon_after_the_window():
    assert fed([9] + [1] * 63).peak == 1


def test_a_lower_value_changes_nothing_within_a_bucket():
    peaks = first_peak(5, 0.0)
    assert with_peak(peaks, 4, 0.01, 1.0) is peaks


def test_slow_values_do_not_lengthen_the_window():
    assert fed([9, 1, 1, 1, 1], step_s=0.5).peak == 1


def test_a_longer_window_keeps_what_a_shorter_one_still_knew():
    peaks = fed([9] + [1] * 40)
    for number in range(41, 100):
        peaks = with_peak(peaks, 1, number * 0.02, 4.0)
    assert peaks.peak == 9


def test_the_number_of_buckets_is_bounded():
    peaks = fed(list(range(1000)))
    assert len(peaks.closed) <= BUCKETS
    assert all(a[0] < b[0] for a, b in pairwise(peaks.closed))
