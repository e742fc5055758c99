"""The memory limits of the reclaim cgroups follow the headroom step by step."""

from dataclasses import replace

import pytest

from nri_coloc.core.lending import Binding, MemoryTarget, Part
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.memory import division
from nri_coloc.memory.division import Found, Member, MemoryControl, divide, resumed, split
from nri_coloc.memory.headroom import MemoryHeadroom, Room
from tests.unit.lending.kit import GIB, MIB

TUNING = ReclaimTuning(
    memory_step=256 * MIB,
    memory_growth=GIB,
    memory_dead_band=64 * MIB,
    memory_dwell_s=30.0,
    memory_floor=256 * MIB,
)


def may(amount: int, held: int = 0, unreclaimable: int = 0, **more: object) -> MemoryHeadroom:
    return MemoryHeadroom(amount, Binding.FREE_MEMORY, held, unreclaimable, **more)  # type: ignore[arg-type]  # keywords of the test


class Box:
    """The limits of the reclaim cgroups over time: each call is one slow tick."""

    def __init__(self, tuning: ReclaimTuning = TUNING) -> None:
        self.control, self.tuning = MemoryControl(), tuning

    def tick(self, now_s: float, headroom: MemoryHeadroom | None) -> MemoryTarget:
        self.control, found = division.target(self.control, headroom, now_s, self.tuning)
        return found


def test_the_first_target_is_what_may_be_held():
    found = Box().tick(0.0, may(8 * GIB, held=GIB))
    assert (found.high, found.limit, found.binding) == (8 * GIB, 8 * GIB + 256 * MIB, Binding.FREE_MEMORY)


def test_it_falls_at_once_however_much_has_to_be_reclaimed():
    box = Box()
    assert box.tick(0.0, may(300 * GIB, held=300 * GIB)).high == 300 * GIB
    assert box.tick(5.0, may(280 * GIB, held=300 * GIB, unreclaimable=GIB)).high == 280 * GIB


def test_it_stops_at_unreclaimable_memory_and_falls_with_it():
    box = Box()
    assert box.tick(0.0, may(GIB, held=8 * GIB, unreclaimable=5 * GIB)).high == 5 * GIB
    assert box.tick(1.0, may(GIB, held=5 * GIB, unreclaimable=3 * GIB)).high == 3 * GIB
    assert box.tick(2.0, may(GIB, held=3 * GIB, unreclaimable=0)).high == GIB


def test_it_does_not_follow_what_cannot_be_reclaimed_where_that_grows():
    box = Box()
    box.tick(0.0, may(GIB, held=5 * GIB, unreclaimable=5 * GIB))
    found = box.tick(1.0, may(GIB, held=6 * GIB, unreclaimable=6 * GIB))
    assert (found.high, found.limit) == (5 * GIB, 6 * GIB + 256 * MIB)


def test_what_it_could_have_more_must_be_borne_through_the_dwell():
    box = Box()
    box.tick(0.0, may(GIB))
    assert box.tick(1.0, may(3 * GIB)).binding is Binding.DWELL
    assert box.tick(20.0, may(GIB + 512 * MIB)).high == GIB
    found = box.tick(31.0, may(3 * GIB))
    assert (found.high, found.binding) == (GIB + 512 * MIB, Binding.FREE_MEMORY)


def test_it_rises_by_a_step_and_waits_again():
    box = Box()
    box.tick(0.0, may(GIB))
    box.tick(1.0, may(9 * GIB))
    found = box.tick(31.0, may(9 * GIB))
    assert (found.high, found.binding) == (2 * GIB, Binding.GROWTH_STEP)
    assert box.tick(32.0, may(9 * GIB)).high == 2 * GIB
    assert box.tick(62.0, may(9 * GIB)).high == 3 * GIB


def test_a_moment_with_less_begins_the_dwell_anew():
    box = Box()
    box.tick(0.0, may(GIB))
    box.tick(1.0, may(3 * GIB))
    box.tick(30.0, may(GIB))
    assert box.tick(31.5, may(3 * GIB)).binding is Binding.DWELL


def test_a_little_more_is_not_worth_a_write():
    box = Box()
    box.tick(0.0, may(GIB))
    found = [box.tick(now_s, may(GIB + 63 * MIB)) for now_s in (1.0, 90.0)]
    assert [(each.high, each.binding) for each in found] == [(GIB, Binding.DEAD_BAND)] * 2


def test_the_dead_band_itself_is_worth_a_write():
    box = Box()
    box.tick(0.0, may(GIB))
    box.tick(1.0, may(GIB + 64 * MIB))
    assert box.tick(31.0, may(GIB + 64 * MIB)).high == GIB + 64 * MIB


def test_headroom_of_the_floor_itself_is_no_lack():
    assert Box().tick(0.0, may(256 * MIB)).binding is Binding.FREE_MEMORY


def test_a_clock_set_back_begins_the_dwell_anew():
    box = Box()
    box.tick(100.0, may(GIB))
    box.tick(101.0, may(3 * GIB))
    assert box.tick(5.0, may(3 * GIB)).binding is Binding.DWELL
    assert box.tick(35.0, may(3 * GIB)).high == 2 * GIB


def test_at_no_headroom_a_floor_stays():
    found = Box().tick(0.0, may(0))
    assert (found.high, found.binding) == (256 * MIB, Binding.FLOOR)


def test_the_wall_stands_above_what_cannot_be_reclaimed():
    found = Box().tick(0.0, may(GIB, held=5 * GIB, unreclaimable=5 * GIB))
    assert (found.high, found.limit) == (5 * GIB, 5 * GIB + 256 * MIB)


def test_targets_are_whole_pages():
    box = Box()
    found = [box.tick(0.0, may(GIB + 1)), box.tick(1.0, may(GIB // 2 + 77, held=GIB + 5))]
    assert all(value is not None and value % 4096 == 0 for each in found for value in (each.high, each.limit))


def test_switched_off_there_is_no_target():
    found = Box(ReclaimTuning(enabled=False)).tick(0.0, may(GIB))
    assert (found.high, found.limit, found.binding) == (None, None, Binding.DISABLED)


# --- pods and host groups --------------------------------------------------------------------------------


def beside(amount: int, pods: int) -> MemoryHeadroom:
    """Return the headroom of reclaim cgroups with host groups, and of the reclaimed pods alone, bytes."""
    return may(amount, pods=Room(pods))


def test_what_bounds_the_pods_alone_takes_nothing_from_the_host_groups():
    found = Box().tick(0.0, beside(8 * GIB, GIB))
    assert (found.high, found.binding) == (8 * GIB, Binding.FREE_MEMORY)
    assert found.pods == (GIB, GIB + 256 * MIB)
    assert (found.inputs["pods_high_bytes"], found.inputs["pods_binding"]) == (GIB, "kubepods_limit")
    assert found.inputs["pods_amount_bytes"] == GIB


def test_the_pods_part_falls_at_once_and_rises_slowly():
    box = Box()
    box.tick(0.0, beside(8 * GIB, 4 * GIB))
    found = [box.tick(now_s, beside(8 * GIB, gib * GIB)) for now_s, gib in ((1.0, 1), (2.0, 4), (32.0, 4))]
    assert [each.pods.high for each in found if each.pods is not None] == [GIB, GIB, 2 * GIB]
    assert found[1].inputs["pods_binding"] == "dwell"
    assert [each.high for each in found] == [8 * GIB] * 3


def test_pods_beside_new_host_groups_keep_the_bound():
    box = Box()
    box.tick(0.0, may(GIB))
    found = box.tick(1.0, beside(8 * GIB, 4 * GIB))
    assert (found.high, found.pods) == (GIB, (GIB, GIB + 256 * MIB))


def test_pods_that_are_alone_again_are_bounded_with_the_box():
    box = Box()
    box.tick(0.0, beside(8 * GIB, GIB))
    found = box.tick(1.0, may(GIB))
    assert (found.high, found.pods) == (GIB, None)


def test_without_readings_the_pods_part_stays_and_its_dwell_begins_anew():
    box = Box()
    box.tick(0.0, beside(8 * GIB, GIB))
    box.tick(1.0, beside(8 * GIB, 4 * GIB))
    assert [box.tick(now_s, None).pods for now_s in (20.0, 70.0)] == [(GIB, GIB + 256 * MIB)] * 2
    found = box.tick(71.0, beside(8 * GIB, 4 * GIB))
    assert found.pods == (GIB, GIB + 256 * MIB)


# --- without readings ------------------------------------------------------------------------------------


def test_before_the_first_reading_there_is_no_target():
    found = Box().tick(0.0, None)
    assert (found.high, found.limit, found.binding) == (None, None, Binding.NOT_MEASURED)


def test_for_a_while_without_readings_nothing_changes():
    box = Box()
    first = box.tick(0.0, may(8 * GIB))
    found = box.tick(60.0, None)
    assert (found.high, found.limit, found.binding) == (first.high, first.limit, Binding.STALE)


def test_then_it_sinks_to_the_floor_and_the_wall_stays():
    box = Box()
    first = box.tick(0.0, may(600 * MIB))
    found = [box.tick(61.0 + n, None) for n in range(3)]
    assert [each.high for each in found] == [344 * MIB, 256 * MIB, 256 * MIB]
    assert [each.binding for each in found] == [Binding.STALE, Binding.FLOOR, Binding.FLOOR]
    assert found[-1].limit == first.limit


def test_a_clock_set_back_without_readings_is_no_reason_to_wait():
    box = Box()
    box.tick(100.0, may(8 * GIB))
    assert box.tick(5.0, None).high == 8 * GIB - 256 * MIB


def test_what_was_borne_before_readings_failed_is_forgotten():
    box = Box()
    box.tick(0.0, may(GIB))
    box.tick(1.0, may(3 * GIB))
    box.tick(20.0, None)
    assert box.tick(31.5, may(3 * GIB)).binding is Binding.DWELL


# --- after a restart -------------------------------------------------------------------------------------

BOXED = {"a": Member(2 * GIB), "b": Member(GIB), "yarn": Member(3 * GIB, beside=True)}


@pytest.mark.parametrize(
    ("story", "found", "high", "of_pods"),
    [
        ("no member had a limit", {}, None, None),
        ("the limited member is gone", {"z": Found(GIB, GIB)}, None, None),
        (
            "all of them",
            {"a": Found(4 * GIB, 9 * GIB), "b": Found(GIB, 9 * GIB), "yarn": Found(2 * GIB, 9 * GIB)},
            7 * GIB,
            5 * GIB,
        ),
        ("an unlimited member has its use", {"a": Found(4 * GIB, 9 * GIB)}, 8 * GIB, 5 * GIB),
        (
            "a member whose limit was removed has its use",
            {"a": Found(), "b": Found(2 * GIB)},
            7 * GIB,
            4 * GIB,
        ),
        ("only a host group", {"yarn": Found(5 * GIB, 9 * GIB)}, 8 * GIB, 3 * GIB),
        (
            "by hard limits alone, the smallest remainder of each",
            {"a": Found(None, 4 * GIB + 256 * MIB), "b": Found(None, 4 * GIB + 256 * MIB)},
            8 * GIB,
            5 * GIB,
        ),
        ("a wall below the use gives the use", {"a": Found(None, GIB)}, 6 * GIB, 3 * GIB),
    ],
)
def test_what_members_have_of_a_former_life_is_begun_with(story, found, high, of_pods):
    control = resumed(found, BOXED, TUNING)
    assert (control.high, control.pods.high) == (high, of_pods)


def test_it_rises_by_steps_and_falls_at_once():
    box = Box()
    box.control = resumed({"a": Found(4 * GIB)}, {"a": Member(GIB)}, TUNING)
    assert [box.tick(now_s, may(8 * GIB)).high for now_s in (0.0, 31.0)] == [4 * GIB, 5 * GIB]
    box.control = resumed({"a": Found(4 * GIB)}, {"a": Member(GIB)}, TUNING)
    assert box.tick(0.0, may(2 * GIB)).high == 2 * GIB


def test_the_pods_alone_rise_from_what_they_had_too():
    box = Box()
    box.control = resumed({"a": Found(GIB), "yarn": Found(2 * GIB)}, BOXED, TUNING)
    found = box.tick(0.0, beside(8 * GIB, 8 * GIB))
    assert (found.high, found.pods) == (4 * GIB, (2 * GIB, 2 * GIB + 256 * MIB))


# --- the members -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "total", "members", "parts"),
    [
        ("what is over goes by request", 100, {"a": Member(10, 60), "b": Member(30, 30)}, {"a": 50, "b": 50}),
        ("by use, where nothing was requested", 80, {"a": Member(10), "b": Member(30)}, {"a": 20, "b": 60}),
        ("equally, where nothing is used either", 80, {"a": Member(0), "b": Member(0)}, {"a": 40, "b": 40}),
        (
            "a member above its request gives first",
            60,
            {"a": Member(50, 20), "b": Member(40, 40)},
            {"a": 20, "b": 40},
        ),
        ("in proportion to the excess", 70, {"a": Member(50, 20), "b": Member(40, 30)}, {"a": 35, "b": 35}),
        (
            "then all of them, requests up to an equal part",
            30,
            {"a": Member(50, 20), "b": Member(40, 40)},
            {"a": 15, "b": 15},
        ),
        ("without requests in proportion to use", 40, {"a": Member(60), "b": Member(20)}, {"a": 30, "b": 10}),
        (
            "unreclaimable memory stays while other members have page cache",
            60,
            {"a": Member(50, 0, 45), "b": Member(50, 50)},
            {"a": 45, "b": 15},
        ),
        (
            "of page cache, a member above its request gives first",
            90,
            {"a": Member(50, 20, 30), "b": Member(50, 50, 10)},
            {"a": 40, "b": 50},
        ),
        (
            "also without any page cache",
            80,
            {"a": Member(60, 20, 60), "b": Member(40, 40, 40)},
            {"a": 40, "b": 40},
        ),
        ("nobody, nothing", 40, {}, {}),
    ],
)
def test_a_total_is_split(story, total, members, parts):
    assert split(total, members) == parts


def test_a_large_request_takes_no_memory_from_smaller_ones():
    greedy = {"greedy": Member(10 * GIB, 1 << 60), "a": Member(4 * GIB, 4 * GIB)}
    assert split(10 * GIB, greedy) == {"greedy": 6 * GIB, "a": 4 * GIB}


def test_a_large_request_leaves_others_room_to_grow():
    parts = split(10 * GIB, {"greedy": Member(GIB, 1 << 60), "a": Member(GIB, 4 * GIB)})
    assert parts["a"] >= 4 * GIB


def test_each_member_gets_a_part_of_both_limits():
    found = divide(MemoryTarget(100, 140), {"a": Member(10, 60), "b": Member(30, 30)})
    assert found == {"a": Part(50, 110), "b": Part(50, 130)}, "all that the other leaves of 140"


def test_a_box_in_want_walls_each_in_above_its_own_part():
    found = divide(MemoryTarget(60, 68), {"a": Member(100, 60), "b": Member(30, 30)})
    assert found == {"a": Part(30, 38), "b": Part(30, 34)}


def test_no_member_is_walled_in_below_what_it_cannot_give_back():
    found = divide(MemoryTarget(100, 140), {"a": Member(300, 0, 290), "b": Member(100, 100, 90)})
    assert found == {"a": Part(10, 290), "b": Part(90, 90)}


@pytest.mark.parametrize("goal", [MemoryTarget(), MemoryTarget(high=1), MemoryTarget(limit=1)])
def test_without_a_target_nobody_gets_a_limit(goal):
    assert divide(goal, {"a": Member(1)}) == {}


YARN = Member(40, beside=True)


@pytest.mark.parametrize(
    ("story", "pods", "members", "parts"),
    [
        (
            "memory beyond a member's own limit goes to the other members",
            Part(20, 26),
            {"a": Member(30, 30), "yarn": YARN},
            {"a": Part(20, 26), "yarn": Part(80, 86)},
        ),
        (
            "the smaller limit of all reclaim cgroups holds",
            Part(60, 66),
            {"a": Member(40, 40), "yarn": Member(120, beside=True)},
            {"a": Part(40, 40), "yarn": Part(60, 66)},
        ),
        ("no cgroup beside it", Part(20, 26), {"a": Member(10)}, {"a": Part(20, 26)}),
        ("only one cgroup beside it", Part(20, 26), {"yarn": YARN}, {"yarn": Part(100, 106)}),
    ],
)
def test_pods_get_no_more_than_they_may_have_by_themselves(story, pods, members, parts):
    assert divide(MemoryTarget(100, 106, pods=pods), members) == parts


def test_an_empty_box_needs_none():
    assert divide(MemoryTarget(1, 2), {}) == {}


def test_while_lending_is_paused_it_falls_as_ever_and_never_rises():
    box = Box()
    box.tick(0.0, may(4 * GIB))
    box.tuning = replace(TUNING, paused="lending is paused until noon")
    found = box.tick(1.0, may(8 * GIB, held=GIB))
    assert (found.high, found.binding) == (4 * GIB, Binding.PAUSED)
    assert box.tick(100.0, may(8 * GIB, held=GIB)).high == 4 * GIB
    assert box.tick(101.0, may(3 * GIB, held=GIB)).high == 3 * GIB


def test_after_a_pause_it_rises_after_the_dwell():
    box = Box(replace(TUNING, paused="lending is paused until noon"))
    box.tick(0.0, may(4 * GIB))
    box.tick(100.0, may(8 * GIB))
    box.tuning = TUNING
    assert box.tick(101.0, may(8 * GIB)).high == 4 * GIB
    assert box.tick(131.0, may(8 * GIB)).high == 5 * GIB
