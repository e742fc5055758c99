"""Headroom follows its formula, and is lent in whole cores."""

import pytest

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.pool_size import (
    at_most,
    dead_band_milli,
    floor_cpus,
    headroom_milli,
    step_milli,
    whole_cpus,
)

TUNING = ReclaimTuning(watermark=0.9, reserve_milli=300)


def test_headroom_is_the_watermark_less_use_and_reserve():
    assert headroom_milli(8, 2_500, TUNING) == 7_200 - 2_500 - 300


def test_headroom_is_honest_down_to_zero():
    assert headroom_milli(8, 9_000, TUNING) == 0


@pytest.mark.parametrize(("most_cpus", "milli"), [(0, 4_700), (5, 4_700), (3, 3_000)])
def test_an_operators_maximum_bounds_the_pool_and_none_does_not(most_cpus, milli):
    assert at_most(4_700, most_cpus) == milli


@pytest.mark.parametrize(("lendable", "step"), [(2, 1000), (10, 1000), (64, 6400)])
def test_large_machines_take_larger_steps(lendable, step):
    assert step_milli(lendable, TUNING) == step


@pytest.mark.parametrize(("lendable", "band"), [(1, 200), (8, 200), (32, 400), (128, 800)])
def test_the_dead_band_widens_as_the_noise_of_a_sum_does(lendable, band):
    assert dead_band_milli(lendable, TUNING) == band


@pytest.mark.parametrize(
    ("lendable", "threads", "cpus"), [(8, 2, 2), (8, 1, 1), (1, 2, 1), (0, 1, 1), (8, 4, 4)]
)
def test_the_floor_is_one_core(lendable, threads, cpus):
    assert floor_cpus(lendable, threads) == cpus


@pytest.mark.parametrize(
    ("milli", "threads", "part", "cpus"),
    [
        (0, 1, 0.1, 1),
        (3099, 1, 0.1, 3),
        (3100, 1, 0.1, 4),
        (3000, 1, 0.0, 3),
        (3001, 1, 0.0, 4),
        (3999, 1, 1.0, 3),
        (4000, 1, 1.0, 4),
        (99_000, 1, 0.1, 7),
        (4999, 2, 0.5, 4),
        (5000, 2, 0.5, 6),
        (6100, 2, 0.5, 6),
        (7000, 2, 0.5, 7),
        (-500, 1, 0.1, 1),
    ],
)
def test_lent_cpus_are_whole_cores(milli, threads, part, cpus):
    assert whole_cpus(milli, 7, threads, part) == cpus
