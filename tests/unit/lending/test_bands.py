"""lending/bands.py: tiers are sized by load, and CPUs flow between the highest and the lowest tier."""

import pytest

from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.core.state import Asked
from nri_coloc.core.workload import QoSClass
from nri_coloc.lending import bands
from nri_coloc.lending.bands import Allocatable, Idle, Memory, Tier

TUNING = ReclaimTuning(partition_dwell_s=10.0)
GOLD = Tier("gold", priority=10, band=(0.3, 0.5), minimum=2, asked=12)
SHARE = Tier("share", band=(0.4, 0.6), minimum=1, asked=8)
RECLAIM = Tier("reclaim")


class Day:
    """Sixteen CPUs, two tiers and the reclaim pool, second by second."""

    def __init__(self, *tiers: Tier, cpus: int = 16, sizes: dict[str, int] | None = None) -> None:
        self.tiers = tiers or (RECLAIM, SHARE, GOLD)
        self.cpus = cpus
        self.memory = Memory(sizes or {})
        self.now = 0.0
        self.step = cpus
        self.words = ""

    def tick(self, *, after: float = 1.0, **loads: float) -> dict[str, int]:
        self.now += after
        self.memory, sizes, self.words = bands.sizes(
            self.tiers, loads, Allocatable(self.cpus, self.step), self.memory, TUNING, self.now
        )
        return sizes


SETTLED = {"gold": 5, "share": 4, "reclaim": 7}


def settled() -> Day:
    """Return a day on which gold uses 2 of 5 CPUs and share 2 of 4."""
    return Day(sizes=SETTLED)


class TestFirst:
    def test_every_tier_begins_in_the_middle_of_its_band(self):
        assert Day().tick(gold=2.0, share=2.0) == SETTLED

    def test_an_unmeasured_tier_begins_with_its_requests(self):
        assert Day().tick(share=2.0) == {"gold": 12, "share": 4, "reclaim": 0}

    def test_a_tier_without_a_band_has_what_is_asked_for(self):
        assert Day(Tier("gold", asked=3), RECLAIM).tick(gold=99.0) == {"gold": 3, "reclaim": 13}

    def test_without_tiers_everything_is_the_lowests(self):
        assert Day(RECLAIM).tick() == Day(Tier("reclaim", maximum=2)).tick() == {"reclaim": 16}

    def test_the_lowest_need_not_be_named(self):
        assert Day(SHARE).tick(share=2.0) == {"share": 4, "reclaim": 12}


class TestWithinTheBand:
    @pytest.mark.parametrize("gold", [1.5, 2.0, 2.5], ids=["lower edge", "middle", "upper edge"])
    def test_nothing_changes(self, gold):
        day = settled()
        assert [day.tick(gold=gold, share=2.0, after=60.0) for _ in range(3)] == [SETTLED] * 3

    def test_a_tier_that_was_not_measured_keeps_what_it_has(self):
        assert settled().tick(share=2.0, after=600.0) == SETTLED


class TestGrowth:
    def test_it_is_at_once_and_to_the_middle_of_the_band(self):
        assert settled().tick(gold=2.6, share=2.0) == {"gold": 7, "share": 4, "reclaim": 5}

    def test_it_takes_from_the_lowest_first(self):
        assert settled().tick(gold=4.4, share=2.0) == {"gold": 11, "share": 4, "reclaim": 1}

    def test_then_what_others_have_beyond_their_need(self):
        burst = settled().tick(gold=6.0, share=2.0)
        assert burst == {"gold": 12, "share": 4, "reclaim": 0}
        crowded = Day(RECLAIM, SHARE, GOLD._replace(asked=16), sizes=SETTLED)
        assert crowded.tick(gold=6.0, share=1.6) == {"gold": 13, "share": 3, "reclaim": 0}

    def test_then_their_need_down_to_their_minimum(self):
        crowded = Day(RECLAIM, SHARE, GOLD._replace(asked=16), sizes=SETTLED)
        assert crowded.tick(gold=9.0, share=2.4) == {"gold": 15, "share": 1, "reclaim": 0}

    def test_a_lower_tier_takes_nothing_that_a_higher_one_needs(self):
        day = Day(RECLAIM, SHARE._replace(asked=16), GOLD, sizes={"gold": 10, "share": 4, "reclaim": 2})
        assert day.tick(gold=4.8, share=9.0) == {"gold": 10, "share": 6, "reclaim": 0}

    def test_it_ends_at_what_the_members_ask_for(self):
        assert settled().tick(gold=2.0, share=7.9) == {"gold": 5, "share": 8, "reclaim": 3}

    def test_it_ends_at_the_maximum(self):
        day = Day(RECLAIM, GOLD._replace(maximum=6), sizes={"gold": 5, "reclaim": 11})
        assert day.tick(gold=5.0) == {"gold": 6, "reclaim": 10}

    def test_the_lowest_keeps_its_minimum(self):
        day = Day(RECLAIM._replace(minimum=2), GOLD._replace(asked=16), sizes={"gold": 5, "reclaim": 11})
        assert day.tick(gold=5.0 + 4.0) == {"gold": 14, "reclaim": 2}


class TestGivingBack:
    def test_after_the_dwell_it_lands_mid_band(self):
        day = settled()
        assert [day.tick(gold=0.8, share=2.0, after=5.0) for _ in range(2)] == [SETTLED] * 2
        assert day.tick(gold=0.8, share=2.0, after=5.0) == {"gold": 2, "share": 4, "reclaim": 10}

    def test_a_load_in_between_begins_the_dwell_anew(self):
        day = settled()
        for gold in (0.8, 0.8, 2.0, 0.8, 0.8):
            assert day.tick(gold=gold, share=2.0, after=5.0) == SETTLED

    def test_the_most_that_was_used_meanwhile_counts(self):
        day = settled()
        for gold in (0.4, 1.2, 0.4):
            sizes = day.tick(gold=gold, share=2.0, after=5.0)
        assert sizes["gold"] == 3

    def test_a_peak_of_long_ago_does_not(self):
        day = Day(sizes={"gold": 3, "share": 4, "reclaim": 9})
        for gold in (0.88, *[0.3] * 5):
            sizes = day.tick(gold=gold, share=2.0, after=6.0)
        assert sizes["gold"] == 2

    def test_a_reading_that_is_missing_neither_begins_nor_ends_the_dwell(self):
        day = settled()
        day.tick(share=2.0)
        assert day.memory.idle == {}
        day.tick(gold=0.8, share=2.0)
        day.tick(share=2.0)
        assert day.memory.idle == {"gold": Idle(2.0, 0.8)}

    def test_the_lowest_has_it(self):
        day = settled()
        for _ in range(3):
            sizes = day.tick(gold=0.1, share=0.1, after=6.0)
        assert sizes == {"gold": 2, "share": 1, "reclaim": 13}

    def test_fewer_members_give_back_at_once(self):
        day = Day(RECLAIM, SHARE, GOLD._replace(asked=3), sizes=SETTLED)
        assert day.tick(gold=1.0, share=2.0) == {"gold": 3, "share": 4, "reclaim": 9}
        assert day.tick(share=2.0)["gold"] == 3

    def test_what_the_lowest_may_not_have_is_the_last_online_tiers(self):
        day = Day(RECLAIM._replace(maximum=4), SHARE, GOLD, sizes=SETTLED)
        assert day.tick(gold=2.0, share=2.0) == {"gold": 5, "share": 7, "reclaim": 4}


class TestSteps:
    def test_the_lowest_grows_by_a_step_at_a_time(self):
        day = settled()
        day.step = 2
        found = [day.tick(gold=0.1, share=0.1, after=after)["reclaim"] for after in (1, 10, 1, 1, 1)]
        assert found == [7, 9, 11, 13, 13]

    def test_the_higher_tier_keeps_longer(self):
        day = settled()
        day.step = 2
        sizes = [day.tick(gold=0.1, share=0.1, after=after) for after in (1, 10, 1)]
        assert sizes[1:] == [
            {"gold": 5, "share": 2, "reclaim": 9},
            {"gold": 4, "share": 1, "reclaim": 11},
        ]

    def test_no_step_is_none(self):
        day = settled()
        day.step = 0
        assert [day.tick(gold=0.1, share=0.1, after=10.0) for _ in range(3)] == [SETTLED] * 3

    def test_what_comes_back_from_nobody_is_the_lowests_at_once(self):
        day = settled()
        day.step, day.cpus = 0, 20
        assert day.tick(gold=2.0, share=2.0) == {"gold": 5, "share": 4, "reclaim": 11}

    def test_fewer_members_give_back_without_steps(self):
        day = Day(RECLAIM, SHARE, GOLD._replace(asked=1, minimum=0), sizes=SETTLED)
        day.step = 1
        assert day.tick(gold=0.4, share=2.0) == {"gold": 1, "share": 4, "reclaim": 11}

    def test_a_little_more_load_ends_it_in_the_middle(self):
        day = Day(RECLAIM, GOLD, sizes={"gold": 10, "reclaim": 6})
        day.step = 1
        loads = (0.9, 0.9, 0.9, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7)
        found = [day.tick(gold=gold, after=5.0 if n < 3 else 1.0)["gold"] for n, gold in enumerate(loads)]
        assert found == [10, 10, 9, 8, 7, 6, 5, 5, 5]

    def test_a_load_in_the_band_ends_it_at_once(self):
        day = Day(RECLAIM, GOLD, sizes={"gold": 10, "reclaim": 6})
        day.step = 1
        loads = (0.9, 0.9, 0.9, 4.0, 4.0)
        assert [day.tick(gold=gold, after=5.0)["gold"] for gold in loads] == [10, 10, 9, 9, 9]
        assert day.memory.idle == {}

    def test_a_missing_reading_does_not_end_it(self):
        day = Day(RECLAIM, GOLD, sizes={"gold": 10, "reclaim": 6})
        day.step = 1
        for _ in range(3):
            day.tick(gold=0.9, after=5.0)
        assert day.tick() == {"gold": 9, "reclaim": 7}
        assert day.tick(gold=0.9) == {"gold": 8, "reclaim": 8}


class TestTooFewCPUs:
    def test_each_has_one_before_anybody_has_two(self):
        assert Day(RECLAIM, SHARE, GOLD, cpus=2).tick(gold=9.0, share=9.0) == {
            "gold": 1,
            "share": 1,
            "reclaim": 0,
        }

    def test_the_highest_has_the_only_one(self):
        assert Day(RECLAIM, SHARE, GOLD, cpus=1).tick(gold=0.1, share=9.0) == {
            "gold": 1,
            "share": 0,
            "reclaim": 0,
        }

    def test_none_is_none(self):
        assert Day(RECLAIM, SHARE, GOLD, cpus=0).tick(gold=1.0, share=1.0) == {
            "gold": 0,
            "share": 0,
            "reclaim": 0,
        }


class TestBegunCPUs:
    A = Tier("a", band=(0.4, 0.6), asked=2, begun=True)
    WEB = Tier("web", band=(0.4, 0.6), asked=12)

    def test_they_come_after_the_requests_of_equals(self):
        day = Day(*(self.A._replace(name=name) for name in "abcd"), self.WEB)
        full = day.tick(a=1.2, b=1.2, c=1.2, d=1.2, web=12.0)
        assert full == {"a": 1, "b": 1, "c": 1, "d": 1, "web": 12, "reclaim": 0}

    def test_a_higher_priority_gets_its_own_first(self):
        day = Day(self.A._replace(priority=1), self.WEB._replace(asked=16))
        assert day.tick(a=1.2, web=16.0) == {"a": 2, "web": 14, "reclaim": 0}


class TestWords:
    def test_they_hold_the_figures_of_who_moved(self):
        day = settled()
        day.tick(gold=2.6, share=2.0)
        assert day.words == "gold uses 2.60 of 5 CPUs, above 50%: 7 CPUs; 5 of 16 CPUs are left for reclaim"

    def test_they_say_who_made_room_and_who_got_too_little(self):
        crowded = Day(RECLAIM, SHARE, GOLD._replace(asked=16), sizes=SETTLED)
        crowded.tick(gold=6.0, share=1.6)
        assert crowded.words == (
            "gold uses 6.00 of 5 CPUs, above 50%: 13 CPUs of 15 wanted; "
            "share makes room: 3 CPUs of 4 wanted; 0 of 16 CPUs are left for reclaim"
        )

    def test_they_name_the_peak_behind_a_smaller_size(self):
        day = settled()
        for gold in (0.4, 1.2, 0.4):
            day.tick(gold=gold, share=2.0, after=5.0)
        assert day.words == (
            "gold used 1.20 of 5 CPUs at most in 10 s, below 30%: 3 CPUs; 9 of 16 CPUs are left for reclaim"
        )

    def test_a_quiet_tick_says_only_what_is_left(self):
        day = settled()
        day.tick(gold=2.0, share=2.0)
        assert day.words == "7 of 16 CPUs are left for reclaim"

    def test_a_busy_tier_that_has_its_maximum_is_not_named(self):
        day = Day(RECLAIM, GOLD._replace(maximum=6), sizes={"gold": 6, "reclaim": 10})
        day.tick(gold=5.0)
        assert day.words == "10 of 16 CPUs are left for reclaim"

    def test_words_name_the_requests_that_bound_a_load(self):
        day = settled()
        day.tick(gold=5.0, share=2.0)
        assert day.words == (
            "gold uses 5.00 of 5 CPUs, above 50%, and may have 12 as its members ask for 12: 12 CPUs; "
            "0 of 16 CPUs are left for reclaim"
        )

    def test_they_say_who_has_what_is_asked_for(self):
        day = Day(RECLAIM, SHARE, GOLD._replace(asked=3), sizes=SETTLED)
        day.tick(gold=1.0, share=2.0)
        assert day.words == "gold has the requested CPUs: 3 CPUs; 9 of 16 CPUs are left for reclaim"


class TestTiers:
    PLAN = (
        PoolTuning("gold", minimum=2, maximum=8, priority=1, band=(0.3, 0.5)),
        PoolTuning("etl", group_by="namespace", minimum=1),
        PoolTuning("banded", band=(0.4, 0.6)),
        PoolTuning("name"),
        PoolTuning("agents", qos=QoSClass.SYSTEM),
        PoolTuning("mon", qos=QoSClass.SYSTEM, minimum=1),
        PoolTuning("share", minimum=3, band=(0.5, 0.7)),
        PoolTuning("reclaim", minimum=2, maximum=6),
    )

    def tiers(self, plan: tuple[PoolTuning, ...] = PLAN, **milli: int) -> dict[str, Tier]:
        asked = {name.replace("_", "/"): Asked(each, 1) for name, each in milli.items()}
        return {tier.name: tier for tier in bands.tiers(plan, asked)}

    def test_without_members_minimum_pools_and_both_constant_ones_exist(self):
        assert self.tiers() == {
            "gold": Tier(name="gold", priority=1, band=(0.3, 0.5), minimum=2, maximum=8, asked=0),
            "mon": Tier("mon", minimum=1),
            "share": Tier(name="share", priority=0, band=(0.5, 0.7), minimum=3, maximum=0, asked=0),
            "reclaim": Tier(name="reclaim", priority=0, band=None, minimum=2, maximum=6, asked=0),
        }

    def test_without_pools_there_are_those_two(self):
        assert self.tiers((), share=2500) == {
            "share": Tier("share", asked=3, begun=True),
            "reclaim": Tier("reclaim"),
        }

    def test_each_group_is_a_tier(self):
        found = self.tiers(etl_a=1500, etl_b=0)
        assert (found["etl/a"], found["etl/b"]) == (
            Tier("etl/a", minimum=1, asked=2, begun=True),
            Tier("etl/b", minimum=1, asked=1, begun=True),
        )
        assert "etl" not in found

    def test_a_small_group_is_part_of_share(self):
        plan = (PoolTuning("team", group_by="pod", minimum=2, band=(0.3, 0.5)),)
        found = self.tiers(plan, share=1000, team_a=900, team_b=1000)
        assert (found["share"].asked, found["team/b"].minimum) == (2, 1)
        assert "team/a" not in found

    def test_a_pool_with_a_band_alone_is_a_tier(self):
        assert self.tiers(banded=1000)["banded"] == Tier("banded", band=(0.4, 0.6), asked=1)

    def test_requests_of_a_name_count_for_the_named_pool(self):
        found = self.tiers(share=1000, name=2000, agents=4000, mon=500, gone=100)
        assert (found["share"].asked, found["mon"].asked) == (4, 1)
        assert not found.keys() & {"name", "agents", "gone"}

    def test_the_box_always_has_a_core(self):
        plan = (PoolTuning("reclaim", maximum=1),)
        assert bands.tiers(plan, {}, core=2)[-1] == Tier("reclaim", minimum=2, maximum=2)
        assert bands.tiers((), {}, core=2)[-1] == Tier("reclaim", minimum=2)

    @pytest.mark.parametrize(
        ("pool", "tier"),
        [
            ("gold", "gold"),
            ("etl/a", "etl/a"),
            ("name", "share"),
            ("share", "share"),
            ("nobody's", "share"),
            ("mon", "mon"),
            ("agents", ""),
            ("system", ""),
            ("dedicated", ""),
            ("reclaim", ""),
        ],
    )
    def test_a_pools_containers_are_in_its_tier(self, pool, tier):
        assert bands.tier_of(pool, self.PLAN, {}) == tier

    @pytest.mark.parametrize(("milli", "tier"), [(999, "share"), (1000, "team/a")])
    def test_a_small_groups_containers_are_in_shares_tier(self, milli, tier):
        plan = (PoolTuning("team", group_by="label:team", band=(0.3, 0.5)),)
        assert bands.tier_of("team/a", plan, {"team/a": Asked(milli, 1)}) == tier
