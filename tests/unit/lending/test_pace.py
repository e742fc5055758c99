"""The time until the next tick follows use, size and the cost of a tick."""

from typing import Any

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.fast_loop import CLOSER_S, QUIET_MILLI, closer, jump, usual_period
from nri_coloc.lending.pool_size import Lent, Verdict
from nri_coloc.lending.usage import Use
from tests.unit.lending.scene import CALM

TUNING = ReclaimTuning()
SCENE = CALM._replace(now=0.0, system=0, peak=2_000)
BUSY = Use(online=2_000, system=0, box=3_000, members=2, rated_at=0.0, span_s=0.02, oldest=0.0)


def period(use: Use | None = BUSY, cpus: int = 4, mean_took_s: float = 0.0, **more: Any) -> float:
    lent = Lent(milli=1_000 * cpus, cpus=cpus)
    verdict = Verdict(lent, Binding.DEAD_BAND, more.pop("now_milli", 5_000))
    return usual_period(verdict, SCENE._replace(**more), use, TUNING, mean_took_s)


def test_while_something_is_lent_and_used_the_loop_is_quick():
    assert period() == TUNING.tick_s


def test_without_reclaimed_pods_it_is_slow():
    assert period(BUSY._replace(members=0, box=0)) == TUNING.idle_tick_s


@pytest.mark.parametrize(
    ("box", "expected"), [(QUIET_MILLI - 1, TUNING.rest_tick_s), (QUIET_MILLI, TUNING.tick_s)]
)
def test_a_box_that_uses_nothing_is_watched_less(box, expected):
    assert period(BUSY._replace(box=box)) == expected


def test_a_box_at_its_floor_that_cannot_grow_is_watched_less():
    assert period(cpus=1, now_milli=1_199) == TUNING.quiet_tick_s
    assert period(cpus=2, threads=2, now_milli=2_100) == TUNING.quiet_tick_s


def test_a_box_at_its_floor_that_could_grow_is_watched_closely():
    assert period(cpus=1, now_milli=1_200) == TUNING.tick_s


def test_before_the_first_rate_it_is_quick():
    assert period(None) == TUNING.tick_s


def test_a_dear_tick_comes_less_often_within_what_still_protects():
    assert period(mean_took_s=0.0001) == TUNING.tick_s
    assert period(mean_took_s=0.0002) == pytest.approx(0.04)
    assert period(mean_took_s=0.001) == TUNING.tick_max_s


@pytest.mark.parametrize(
    "calm",
    [{}, {"cpus": 1, "now_milli": 1_199}, {"use": BUSY._replace(box=0)}],
    ids=["busy", "floor", "unused"],
)
def test_ticks_of_a_slow_machine_take_a_fifth_of_a_cpu(calm):
    assert period(mean_took_s=0.06, **calm) == pytest.approx(0.3)
    assert closer(TUNING.rest_tick_s, TUNING, 0.02) == pytest.approx(0.1)


def test_a_jump_is_a_quarter_of_the_dead_band():
    assert jump(8, TUNING) == TUNING.dead_band_milli / 4
    assert jump(32, TUNING) == TUNING.dead_band_milli / 2


def test_use_that_jumps_is_looked_at_again_soon():
    assert closer(TUNING.tick_max_s, TUNING, 0.0) == CLOSER_S
    assert closer(TUNING.rest_tick_s, TUNING, 0.0) == CLOSER_S


def test_it_never_takes_longer_for_that():
    assert closer(CLOSER_S / 2, TUNING, 0.0) == CLOSER_S / 2


def test_a_jump_that_can_take_nothing_is_not():
    assert closer(TUNING.quiet_tick_s, TUNING, 0.0) == TUNING.quiet_tick_s
