"""The part of the headroom that the schedule lends: in the formula, in the pool's size, in words, and in tiers."""

from dataclasses import replace
from math import inf

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import bands
from nri_coloc.lending.bands import Allocatable, Memory, Tier
from nri_coloc.lending.pool_size import (
    Grounds,
    Lent,
    Scene,
    Verdict,
    decide,
    extra_core,
    headroom_milli,
    unused_milli,
    use_leaving,
)
from nri_coloc.lending.records import because, inputs
from tests.unit.lending.scene import CALM, FULL

ALL = ReclaimTuning(watermark=1.0)
HALF, NONE = replace(ALL, lend=0.5), replace(ALL, lend=0.0)


@pytest.mark.parametrize(("tuning", "milli"), [(ALL, 5_500), (HALF, 2_750), (NONE, 0)])
def test_headroom_is_the_lent_part(tuning, milli):
    assert headroom_milli(8, 2_500, tuning) == milli


def test_unused_cpu_is_the_same_for_every_part():
    assert {unused_milli(8, 2_500, tuning) for tuning in (ALL, HALF, NONE)} == {5_500}


@pytest.mark.parametrize("part", [1.0, 0.7, 0.5, 0.3, 0.01])
@pytest.mark.parametrize("milli", [1, 50, 700, 2_500])
def test_the_largest_use_with_some_headroom(part, milli):
    tuning = replace(ALL, lend=part)
    use = use_leaving(milli, 8, tuning)
    assert use < 0 or headroom_milli(8, int(use), tuning) >= milli
    assert headroom_milli(8, max(0, round(use + 1 / part) + 1), tuning) <= milli


def test_no_use_leaves_headroom_if_nothing_is_lent():
    assert use_leaving(1, 8, NONE) == -inf


@pytest.mark.parametrize(("tuning", "cpus"), [(ALL, 2), (HALF, 0), (NONE, 0)])
def test_an_extra_core_needs_the_whole_headroom(tuning, cpus):
    assert extra_core(8, 4, 2, tuning) == cpus


# --- the pool's size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tuning", "milli", "cpus"), [(HALF, 2_750, 3), (NONE, 0, 1)], ids=["half", "nothing: the floor"]
)
def test_a_part_that_fell_shrinks_the_pool_at_once(tuning, milli, cpus):
    found = decide(FULL, CALM, tuning)
    assert (found.lent.milli, found.lent.cpus, found.binding) == (milli, cpus, Binding.SCHEDULE)


def test_online_use_is_the_cause_once_the_part_is_followed():
    followed = decide(FULL, CALM, HALF).lent
    assert decide(followed, CALM._replace(online=5_000), HALF).binding is Binding.ONLINE_USE


def test_a_part_that_rose_is_followed_by_a_step():
    low = Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.0)
    found = decide(low, CALM, ALL)
    assert (found.lent.milli, found.lent.lend, found.binding) == (1_000, 0.0, Binding.GROWTH_STEP)


def test_a_part_is_followed_when_growth_has_ended():
    found = decide(FULL._replace(lend=0.0), CALM, ALL)
    assert (found.lent.lend, found.binding) == (1.0, Binding.DEAD_BAND)


def test_quota_bursts_may_use_the_cpu_that_is_not_lent():
    assert decide(FULL, CALM, NONE).unused_milli == 5_000


def test_without_a_schedule_quota_bursts_stay_within_the_lent_headroom():
    low = Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0)
    assert decide(low, CALM, ALL).unused_milli == 1_000


@pytest.mark.parametrize("scene", [{"age_s": 2.0}, {"late_s": 2.0}, {"known_since": -inf}])
def test_doubtful_readings_leave_nothing_unused(scene):
    assert decide(FULL, CALM._replace(**scene), NONE).unused_milli == 0


# --- words -----------------------------------------------------------------------------------------------


def grounds(before: Lent, tuning: ReclaimTuning, scene: Scene = CALM) -> Grounds:
    found: Verdict = decide(before, scene, tuning)
    return Grounds(before, found, scene, tuning)


WORDS = [
    (FULL, HALF, "resize: the lent part fell (online=2 cores, lendable=8, lend=0.5, cpus 5 → 3)"),
    (FULL, NONE, "resize: the lent part fell (online=2 cores, lendable=8, lend=0, cpus 5 → 1)"),
    (
        Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.0),
        ALL,
        "resize: the lent part rose, one step (online=2 cores, lendable=8, step=1 core, cpus 1 → 1)",
    ),
    (
        Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.0),
        NONE,
        "resize: the lent part leaves only the floor (online=2 cores, lendable=8, lend=0, cpus 1 → 1)",
    ),
]


@pytest.mark.parametrize(("before", "tuning", "words"), WORDS, ids=["half", "nothing", "rises", "floor"])
def test_the_lent_part_is_named_as_the_cause(before, tuning, words):
    assert because(grounds(before, tuning)) == words


def test_a_part_that_rises_to_the_online_use_names_no_step():
    low = Lent(milli=4_000, cpus=4, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.5)
    told = because(grounds(low, ALL, CALM._replace(online=3_200, peak=3_200)))
    assert told.startswith("resize: the lent part rose (")


def test_online_use_is_named_if_it_leaves_only_the_floor():
    low = Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.5)
    full = CALM._replace(online=7_500, peak=8_000)
    assert because(grounds(low, HALF, full)).startswith("resize: online use leaves only the floor (")


@pytest.mark.parametrize(("peak", "cause"), [(7_000, "the lent part"), (7_001, "online use")])
def test_a_whole_unused_core_is_kept_by_the_part(peak, cause):
    low = Lent(milli=0, cpus=1, cut_at=0.0, grown_at=0.0, hold_s=1.0, lend=0.0)
    found = because(grounds(low, NONE, CALM._replace(peak=peak)))
    assert found.startswith(f"resize: {cause} leaves only the floor (")


def test_the_headroom_can_be_derived_from_inputs():
    found = inputs(grounds(FULL, HALF))
    assert (found["lend"], found["lend_before"], found["left_milli"]) == (0.5, 1.0, (8_000 - 2_500) * 0.5)


# --- tiers -----------------------------------------------------------------------------------------------

TIERS = (Tier("share", band=(0.4, 0.6), minimum=1, asked=16), Tier("reclaim", minimum=1))


@pytest.mark.parametrize(("part", "cpus"), [(1.0, 12), (0.5, 6), (0.0, 1)])
def test_tiers_keep_the_cpus_that_are_not_lent(part, cpus):
    tuning = replace(ALL, lend=part)
    _, sizes, _ = bands.sizes(TIERS, {"share": 2.0}, Allocatable(16, 16), Memory(), tuning, 0.0)
    assert sizes == {"share": 16 - cpus, "reclaim": cpus}


def test_without_online_tiers_all_cpus_are_lent():
    only = (Tier("reclaim", minimum=1),)
    _, sizes, _ = bands.sizes(only, {}, Allocatable(16, 16), Memory(), replace(ALL, lend=0.5), 0.0)
    assert sizes == {"reclaim": 16}


def test_a_part_takes_no_cpus_from_tiers_that_need_them():
    tuning = replace(ALL, lend=0.5)
    _, sizes, _ = bands.sizes(TIERS, {"share": 8.0}, Allocatable(16, 16), Memory(), tuning, 0.0)
    assert sizes == {"share": 15, "reclaim": 1}
