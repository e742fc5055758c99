"""pressure/verdict.py: one reading is judged by the baseline of its load, as far as its length allows."""

import pytest

from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.verdict import (
    LOADS,
    NO_BASELINE,
    REMEMBERED,
    Baseline,
    Level,
    Resource,
    Strain,
    judge,
)

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


SCATTERED: Baseline = {LOADS - 1: Level(REMEMBERED, mean=0.05, spread=0.02)}
"""A bound of 12.5 % with 2.5 spreads, of 13.5 % with three; the margins are smaller."""


@pytest.mark.parametrize(
    ("resource", "hurt"), [(Resource.CPU, True), (Resource.MEMORY, True), (Resource.IO, False)]
)
def test_waits_for_a_disk_may_scatter_more(*, resource: Resource, hurt: bool):
    operations = 1.0 if resource is Resource.IO else 0.0
    strain = USUAL._replace(stall=0.13, operations=operations)
    assert judge(SCATTERED, resource, strain, Tolerance.NORMAL)[1].hurt is hurt


def level_after(stalls: list[float]) -> Level:
    """Return the baseline after these stalls, from `learned` on."""
    known = learned()
    for stall in stalls:
        known, _ = judge(known, Resource.CPU, USUAL._replace(stall=stall), Tolerance.NORMAL)
    (level,) = known.values()
    return level


def test_a_baseline_is_the_mean_of_its_readings():
    assert level_after([0.03] * 20).mean == pytest.approx(0.025)


def test_older_readings_fade_after_128():
    assert level_after([0.02] * 200 + [0.03]).mean == pytest.approx(0.02 + 0.01 / 128)


def test_a_hurt_reading_is_hardly_learned():
    assert level_after([0.5]).mean == pytest.approx(0.02 + 0.48 * 0.0005)
