"""The extra core is lent while reclaimed tasks have the minimum weight, and soon taken back."""

import pytest

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.pool_size import Ground, Yielded, decide_extra_core, relieved

NOW = 100.0
TUNING = ReclaimTuning()
CALM = Ground(now=NOW, cpus=1, lendable=8, core=1, milli=1_000, rise=0, doubtful=False)
"""The dead band of eight CPUs is 200m."""
NOTHING, LENT = Yielded(), Yielded(cpus=1)


def test_a_core_of_which_half_is_left_is_lent_as_well():
    assert decide_extra_core(NOTHING, CALM, TUNING).cpus == 1


@pytest.mark.parametrize(("milli", "cpus"), [(699, 0), (700, 1)])
def test_it_comes_with_the_dead_band_above_its_half(milli, cpus):
    assert decide_extra_core(NOTHING, CALM._replace(milli=milli), TUNING).cpus == cpus


@pytest.mark.parametrize(("milli", "cpus"), [(499, 0), (500, 1)])
def test_it_stays_as_long_as_half_of_it_is_left(milli, cpus):
    assert decide_extra_core(LENT, CALM._replace(milli=milli), TUNING).cpus == cpus


def test_a_core_of_two_threads_is_lent_whole():
    both = CALM._replace(core=2)
    assert decide_extra_core(NOTHING, both._replace(milli=1_199), TUNING).cpus == 0
    assert decide_extra_core(NOTHING, both._replace(milli=1_200), TUNING).cpus == 2


def test_a_box_that_has_all_has_nothing_more():
    assert decide_extra_core(LENT, CALM._replace(cpus=8), TUNING).cpus == 0


def test_on_doubtful_readings_it_does_not_come_but_stays():
    assert decide_extra_core(NOTHING, CALM._replace(doubtful=True), TUNING).cpus == 0
    assert decide_extra_core(LENT, CALM._replace(doubtful=True), TUNING).cpus == 1


def test_a_steep_rise_takes_it_at_once_for_the_dwell():
    gone = decide_extra_core(LENT, CALM._replace(rise=201), TUNING)
    assert (gone.cpus, gone.back_at) == (0, NOW + TUNING.dwell_s)
    assert decide_extra_core(gone, CALM._replace(now=NOW + 0.99), TUNING).cpus == 0
    assert decide_extra_core(gone, CALM._replace(now=NOW + 1.0), TUNING).cpus == 1


def test_a_costly_change_outlasts_a_steep_rise():
    dear = CALM._replace(rise=201, step_s=5.2)
    gone = decide_extra_core(LENT, dear, TUNING)
    assert (gone.cpus, gone.back_at) == (0, NOW + 5.2)
    assert decide_extra_core(gone, dear._replace(now=NOW + 2), TUNING).back_at == NOW + 5.2
    assert decide_extra_core(gone, dear._replace(now=NOW + 5), TUNING).back_at == NOW + 5 + TUNING.dwell_s


def test_a_ripple_takes_nothing():
    assert decide_extra_core(LENT, CALM._replace(rise=200), TUNING).cpus == 1


def test_a_stall_takes_it_for_a_moment():
    assert relieved(LENT, NOW, TUNING) == Yielded(0, NOW + 0.1, 0.1)


def test_stalls_soon_after_one_another_take_it_for_longer_and_longer():
    lent, now = LENT, NOW
    for relief_s in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0):
        lent = relieved(lent, now, TUNING)
        assert lent.relief_s == pytest.approx(relief_s)
        now = lent.back_at + 0.5


def test_a_stall_long_after_the_last_one_is_the_first_again():
    assert relieved(Yielded(1, NOW - 1.0, 3.2), NOW, TUNING).relief_s == 0.1


def test_too_little_headroom_takes_it_for_a_moment_too():
    assert decide_extra_core(LENT, CALM._replace(milli=100), TUNING) == Yielded(0, NOW + 0.1, 0.1)
