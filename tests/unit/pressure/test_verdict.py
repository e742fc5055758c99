"""pressure/verdict.py: one reading is judged by the baseline of its load, as far as its length allows."""

import pytest

from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.verdict import NO_BASELINE, Baseline, Resource, Strain, judge

USUAL = Strain(0.02, resolution=0.02, cpu=100.0)
"""Waits for 2 % of a second and computes for 10 %: a fifth of that, 2.4 %, is its margin."""


def learned() -> Baseline:
    known = NO_BASELINE
    for _ in range(20):
        known, _ = judge(known, Resource.CPU, USUAL, Tolerance.NORMAL)
    return known


@pytest.mark.parametrize(
    ("stall", "hurt"),
    [(0.04, False), (0.06, None), (0.09, None), (0.11, True)],
    ids=["calm", "small", "below-its-resolution", "large"],
)
def test_a_quarter_of_a_second_shows_only_large_hurts(*, stall: float, hurt: bool | None):
    short = USUAL._replace(stall=stall, resolution=0.08)
    assert judge(learned(), Resource.CPU, short, Tolerance.NORMAL)[1].hurt is hurt


def test_a_second_shows_small_hurts_too():
    assert judge(learned(), Resource.CPU, USUAL._replace(stall=0.06), Tolerance.NORMAL)[1].hurt


def test_nothing_is_learned_from_an_unclear_reading():
    known, unclear = learned(), USUAL._replace(stall=0.06, resolution=0.08)
    assert judge(known, Resource.CPU, unclear, Tolerance.NORMAL)[0] is known
