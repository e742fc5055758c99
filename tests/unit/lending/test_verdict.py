"""Each decision shrinks, keeps or grows the reclaim pool, for one reason at a time."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.pool_size import Lent, Verdict, Yielded, decide
from nri_coloc.lending.usage import Stall
from tests.unit.lending.scene import CALM, FULL, NOW

TUNING = ReclaimTuning(watermark=1.0)
THREE = Lent(milli=3_000, cpus=3, cut_at=0.0, grown_at=0.0, hold_s=1.0)


def verdict(lent: Lent, **scene: Any) -> Verdict:
    return decide(lent, CALM._replace(**scene), TUNING)


def lent(before: Lent, **scene: Any) -> tuple[int, int]:
    after = verdict(before, **scene).lent
    return after.milli, after.cpus


def test_the_box_grows_by_a_step():
    # with the dead band above it: 4000m less 200m is more than a tenth of the fourth CPU
    assert lent(THREE) == (4_000, 4)
    assert verdict(THREE).binding is Binding.GROWTH_STEP


@pytest.mark.parametrize("milli", [4_000, 4_500])
def test_last_step_stops_at_the_peak_of_use(milli):
    found = verdict(THREE._replace(milli=milli, cpus=4))
    assert (found.lent.milli, found.lent.cpus, found.binding) == (5_000, 5, Binding.ONLINE_USE)


def test_no_growth_within_the_dead_band():
    found = verdict(FULL, peak=2_850)
    assert (found.lent, found.binding) == (FULL, Binding.DEAD_BAND)


def test_fitting_core_is_lent_after_a_small_rise():
    assert lent(FULL._replace(cpus=4), peak=2_900) == (5_100, 5)


def test_less_headroom_shrinks_the_box_at_once():
    found = verdict(FULL, online=6_000)
    assert (found.lent.milli, found.lent.cpus, found.binding) == (1_500, 2, Binding.ONLINE_USE)
    assert found.lent.cut_at == NOW


def test_kept_pool_lowers_only_its_base_of_growth():
    assert verdict(FULL, online=2_700).lent == FULL._replace(milli=4_800)


def test_a_stall_beside_one_core_leaves_nothing_lent():
    assert lent(THREE._replace(milli=1_000, cpus=1), stall=Stall(blamed=1.0)) == (0, 1)


def test_no_headroom_leaves_the_floor_of_one_core():
    assert lent(FULL, online=9_000) == (0, 1)
    assert lent(FULL, online=9_000, threads=2) == (0, 2)


def test_floor_of_a_whole_core_is_lent():
    assert lent(Lent(milli=900, cpus=1), threads=2, peak=7_000) == (900, 2)


def test_fewer_lendable_cpus_shrink_the_box_at_once():
    assert lent(FULL, lendable=4, online=0, system=0, peak=0) == (4_000, 4)
    assert lent(FULL._replace(milli=900), lendable=4, online=0, system=0, peak=0) == (900, 1)


def test_a_stall_leaves_half_of_the_box():
    found = verdict(FULL, stall=Stall(blamed=0.11))
    assert (found.lent.milli, found.lent.cpus, found.binding) == (2_000, 2, Binding.STALL)


@pytest.mark.parametrize(
    ("cpus", "threads", "left"), [(2, 1, 1), (3, 1, 1), (1, 1, 1), (6, 2, 2), (4, 2, 2), (7, 2, 2)]
)
def test_stall_takes_at_least_one_whole_core(cpus, threads, left):
    before = Lent(milli=1_000 * cpus, cpus=cpus)
    assert verdict(before, stall=Stall(blamed=0.5), threads=threads).lent.cpus == left


@pytest.mark.parametrize("cut", [0.99, 1.0])
def test_a_gentle_cut_still_takes_a_core(cut):
    found = decide(THREE, CALM._replace(stall=Stall(0.5)), replace(TUNING, cut=cut))
    assert found.lent.cpus == 2


def test_a_stall_at_the_floor_puts_growth_off():
    found = verdict(Lent(milli=800, cpus=1, cut_at=0.0), stall=Stall(blamed=0.2))
    assert (found.lent.cpus, found.lent.cut_at, found.binding) == (1, NOW, Binding.STALL)


def test_stall_of_another_cause_changes_nothing():
    assert verdict(THREE, stall=Stall(blamed=0.1, own=0.9)) == verdict(THREE)


def test_floor_is_lent_without_a_rate():
    found = verdict(FULL, known_since=float("-inf"))
    assert (found.lent.milli, found.lent.cpus, found.binding) == (0, 1, Binding.LEARNING)


@pytest.mark.parametrize(
    ("found", "lendable", "cpus"),
    [(5, 8, 5), (5, 4, 4), (1, 8, 2)],
    ids=["as it is", "no more than is lendable", "a core at least"],
)
def test_found_pool_is_kept_without_a_rate(found, lendable, cpus):
    before = Lent(1_000 * found, found)
    kept = verdict(before, known_since=float("-inf"), learns_until=NOW + 0.1, lendable=lendable, threads=2)
    assert (kept.lent, kept.binding) == (before._replace(cpus=cpus), Binding.LEARNING)


def test_but_not_for_ever():
    found = verdict(FULL, known_since=float("-inf"), learns_until=NOW)
    assert (found.lent.cpus, found.binding) == (1, Binding.LEARNING)


def test_stale_readings_lend_the_floor():
    found = verdict(FULL, age_s=1.01)
    assert (found.lent.milli, found.lent.cpus, found.binding) == (0, 1, Binding.STALE)


def test_tick_after_stale_readings_lends_the_floor():
    found = verdict(FULL, late_s=1.01)
    assert (found.lent.milli, found.lent.cpus, found.binding) == (0, 1, Binding.LATE)


@pytest.mark.parametrize("age", [{"age_s": 1.0}, {"late_s": 1.0}])
def test_readings_just_within_the_limit_keep_the_pool(age):
    assert lent(FULL, **age) == (5_000, 5)


def test_late_tick_does_not_grow_the_pool():
    found = verdict(THREE, late_s=0.04)
    assert (found.lent, found.binding) == (THREE, Binding.LATE)
    assert verdict(THREE, late_s=0.039).lent.cpus == 4


def test_a_late_tick_still_shrinks_the_box():
    assert lent(FULL, online=6_000, late_s=0.5) == (1_500, 2)


def test_no_growth_without_a_new_rate():
    found = verdict(THREE, measured=False, age_s=0.5)
    assert (found.lent, found.binding) == (THREE, Binding.STALE)


def test_doubtful_readings_are_named_without_any_gain():
    assert verdict(FULL, measured=False).binding is Binding.STALE


@pytest.mark.parametrize("missing", [{"known_since": NOW - 0.9}, {"dwell_s": 101.0}], ids=["known", "uncut"])
def test_growth_waits_for_the_dwell(missing):
    found = verdict(THREE, **missing)
    assert (found.lent, found.binding) == (THREE, Binding.DWELL)


def test_growth_waits_for_the_dwell_after_a_cut():
    assert verdict(THREE._replace(cut_at=NOW - 0.9)).binding is Binding.DWELL
    assert lent(THREE._replace(cut_at=NOW - 1.0)) == (4_000, 4)


def test_between_two_steps_lies_some_time():
    assert verdict(THREE._replace(grown_at=NOW - 0.2)).binding is Binding.GROWTH_STEP
    assert lent(THREE._replace(grown_at=NOW - 0.2)) == (3_000, 3)
    assert lent(THREE._replace(grown_at=NOW - 0.25)) == (4_000, 4)


@pytest.mark.parametrize(("ago_s", "grows"), [(3.9, False), (4.1, True)])
def test_growth_with_costly_writes_is_rarer(ago_s, grows):
    # 10 ms for it and 10 ms for the cut that may follow are half a percent of 4 s
    before = THREE._replace(grown_at=NOW - ago_s, growth_took_s=0.01)
    assert (verdict(before).lent.cpus > before.cpus) is grows


def test_cost_of_growth_delays_no_cut():
    assert lent(THREE._replace(grown_at=NOW - 0.01, growth_took_s=10.0), online=6_000) == (1_500, 2)


def test_a_box_with_all_cpus_says_so():
    everything = Lent(milli=8_000, cpus=8)
    assert verdict(everything, online=0, system=0, peak=0).binding is Binding.ALL_LENT


def test_floor_without_headroom_is_reported():
    assert verdict(Lent(milli=900, cpus=1), peak=7_100).binding is Binding.FLOOR
    assert verdict(Lent(milli=900, cpus=1), peak=7_000).binding is Binding.DEAD_BAND


def test_growth_taken_back_soon_doubles_the_dwell():
    soon = FULL._replace(grown_at=NOW - 1.5)
    assert verdict(soon, online=6_000).lent.hold_s == 2.0
    assert verdict(soon._replace(hold_s=4.0), online=6_000).lent.hold_s == 8.0
    assert verdict(soon._replace(hold_s=4.0, grown_at=NOW - 7), online=6_000).lent.hold_s == 8.0
    assert verdict(soon._replace(hold_s=8.0), online=6_000).lent.hold_s == 8.0


def test_several_cuts_of_a_burst_double_dwell_once():
    again = FULL._replace(grown_at=NOW - 1, cut_at=NOW - 0.02, hold_s=2.0)
    assert verdict(again, online=6_000).lent.hold_s == 2.0


def test_growth_and_cut_at_once_keep_the_dwell():
    same = FULL._replace(grown_at=NOW - 1, cut_at=NOW - 1, hold_s=2.0)
    assert verdict(same, online=6_000).lent.hold_s == 2.0


def test_late_cut_resets_the_dwell():
    assert (
        verdict(FULL._replace(hold_s=8.0, grown_at=NOW - 17, cut_at=NOW - 20), online=6_000).lent.hold_s
        == 1.0
    )


def test_a_dwell_longer_than_the_longest_is_kept():
    found = decide(
        FULL._replace(grown_at=NOW - 1), CALM._replace(online=6_000), replace(TUNING, dwell_s=20.0)
    )
    assert found.lent.hold_s == 20.0


def test_long_dwell_ends_after_four_quiet_dwells():
    held = Lent(cut_at=NOW, hold_s=4.0)
    assert held.dwell_s(NOW + 16, TUNING) == 4.0
    assert held.dwell_s(NOW + 16.1, TUNING) == TUNING.dwell_s


def test_first_dwell_is_the_configured_one():
    assert Lent().dwell_s(NOW, TUNING) == TUNING.dwell_s


YIELDING = Lent(milli=5_000, cpus=5, cut_at=0.0, grown_at=0.0, hold_s=1.0, more=Yielded(cpus=1))
"""5 CPUs of headroom are lent, and the extra core."""
LASTING = Stall(blamed=0.06, lasting=0.051)


def test_yielding_tasks_get_the_extra_core():
    after = verdict(FULL, yields=True).lent
    assert (after.cpus, after.box) == (5, 6)


def test_extra_core_ends_when_tasks_stop_yielding():
    assert verdict(YIELDING).lent.box == 5


def test_extra_core_needs_use_over_the_dwell():
    assert verdict(FULL, yields=True, known_since=NOW - 0.9).lent.box == 5
    assert verdict(FULL, yields=True, known_since=NOW - 1.0).lent.box == 6


def test_late_tick_lends_no_extra_core():
    assert verdict(FULL, yields=True, late_s=0.04).lent.box == 5


def test_at_most_the_whole_node_is_lent():
    assert verdict(Lent(milli=8_000, cpus=8), yields=True, online=0, system=0, peak=0).lent.box == 8


def test_burst_takes_extra_core_and_lost_headroom():
    after = verdict(YIELDING, yields=True, online=6_000, rise=3_500).lent
    assert (after.cpus, after.box) == (2, 2)


def test_extra_core_ends_at_the_cost_of_both():
    dear = YIELDING._replace(growth_took_s=0.013)
    found = verdict(dear, yields=True, rise=3_000).lent
    assert found.more == Yielded(0, NOW + 2 * 0.013 / TUNING.cost_share)


def test_a_stall_takes_the_core_more_first():
    found = verdict(YIELDING, yields=True, stall=LASTING)
    assert (found.lent.cpus, found.lent.box, found.binding) == (5, 5, Binding.STALL)
    assert found.lent.cut_at == YIELDING.cut_at


def test_stall_takes_only_extra_core_from_just_enough_headroom():
    exact = YIELDING._replace(milli=5_500)
    assert verdict(exact, yields=True, stall=LASTING).lent.cpus == 5


def test_stall_cuts_the_pool_and_delays_extra_core():
    found = verdict(FULL, yields=True, stall=LASTING).lent
    assert (found.box, found.more.back_at) == (2, NOW + 0.1)


def test_short_wait_behind_yielding_tasks_is_no_stall():
    assert verdict(YIELDING, yields=True, stall=Stall(blamed=0.5, lasting=0.05)).lent.box == 6


def test_stall_at_the_floor_delays_no_extra_core():
    found = verdict(Lent(milli=800, cpus=1, cut_at=0.0), yields=True, stall=LASTING).lent
    assert (found.box, found.more) == (1, Yielded())


def test_stall_during_a_rise_cuts_the_pool():
    found = verdict(YIELDING, yields=True, online=3_500, stall=LASTING).lent
    assert found.box == 2


def test_the_floor_of_stale_readings_has_nothing_more():
    assert verdict(YIELDING, yields=True, age_s=1.01).lent.box == 1


PAUSED = replace(TUNING, paused="lending is paused until noon")


@pytest.mark.parametrize("before", [Lent(), THREE, FULL], ids=["nothing yet", "three", "full"])
def test_pool_has_its_floor_during_a_pause(before):
    found = decide(before, CALM, PAUSED)
    assert (found.lent.milli, found.lent.cpus, found.binding) == (0, 1, Binding.PAUSED)


def test_growth_waits_for_the_dwell_after_a_pause():
    paused = decide(FULL, CALM, PAUSED).lent
    soon = decide(paused, CALM._replace(now=NOW + 0.5), TUNING)
    assert (soon.lent.cpus, soon.binding) == (1, Binding.DWELL)
    assert decide(paused, CALM._replace(now=NOW + 1.5), TUNING).lent.milli > 0
