"""lending/partition.py: counters become loads, and doubtful ones lend less. (Sizes over time: tests/scenario.)"""

from dataclasses import replace

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import partition
from nri_coloc.lending.bands import Tier
from nri_coloc.lending.partition import PartitionMemory, PartitionTick

TUNING = ReclaimTuning(partition=True)
GOLD = Tier("gold", priority=10, band=(0.3, 0.5), minimum=2, asked=12)
SHARE = Tier("share", band=(0.4, 0.6), minimum=1, asked=6)
BOX = Tier("reclaim", minimum=1)


class Feed:
    """Sixteen CPUs; the use of containers by name, CPUs, exactly counted."""

    def __init__(self, *tiers: Tier) -> None:
        self.tiers = tiers or (GOLD, SHARE, BOX)
        self.now = 100.0
        self.memory = PartitionMemory()
        self.usage: dict[str, float] = {}
        self.silent: list[Sample] = []

    def tick(self, seconds: float = 0.02, **uses: float) -> PartitionTick:
        self.now += seconds
        samples = [one._replace(at=self.now) for one in self.silent]
        for name, cpus in uses.items():
            self.usage[name] = self.usage.get(name, 0.0) + cpus * seconds
            tier, key = name.partition("_")[0], sum(map(ord, name))
            samples.append(Sample(key, Role.TIER, self.now, round(self.usage[name] * 1e6), tier=tier))
        return self.give(FastReadings(self.now, tuple(samples), lendable=16, cpus=16))

    def unread(self, name: str, *, gone: bool, seconds: float, **uses: float) -> PartitionTick:
        """Go on for `seconds` while one more container cannot be read."""
        self.silent = [Sample(sum(map(ord, name)), Role.TIER, self.now, tier="gold", gone=gone)]
        return self.ticks(round(seconds / 0.02), **uses)

    def bounded(self, most: int) -> PartitionTick:
        """Tick while an operator limits the reclaim pool to `most` CPUs."""
        self.now += 0.02
        return self.give(FastReadings(self.now, lendable=16, cpus=16, most=most))

    def give(self, readings: FastReadings) -> PartitionTick:
        tick = partition.tick(self.memory, readings, self.tiers, TUNING, self.now)
        self.memory = tick.memory
        return tick

    def ticks(self, count: int, **uses: float) -> PartitionTick:
        for _ in range(count - 1):
            self.tick(**uses)
        return self.tick(**uses)

    def settled(self) -> PartitionTick:
        """Go on until gold has 4 CPUs and share has 2."""
        return self.ticks(700, gold_a=1.0, gold_b=0.5, share_c=1.0)


class TestLoads:
    def test_it_is_the_sum_of_what_the_members_use(self):
        assert Feed().ticks(20, gold_a=1.0, gold_b=0.5, share_c=0.7).loads == {"gold": 1.5, "share": 0.7}

    def test_without_a_rate_of_every_member_nothing_is_known(self):
        feed = Feed()
        assert feed.tick(gold_a=1.0).loads == {}
        assert feed.tick(gold_a=1.0, gold_b=0.5).loads == {}

    def test_a_new_member_hides_no_burst_of_the_others(self):
        feed = Feed()
        feed.settled()
        assert feed.tick(gold_a=6.0, gold_b=0.5, gold_new=1.0, share_c=1.0).loads["gold"] > 3

    def test_a_new_member_makes_no_tier_look_idle(self):
        feed = Feed()
        feed.settled()
        assert "gold" not in feed.tick(gold_a=1.0, gold_b=0.4, gold_new=1.0, share_c=1.0).loads

    def test_a_member_that_cannot_be_read_makes_no_tier_look_idle(self):
        feed = Feed()
        before = feed.settled()
        assert feed.unread("gold_b", gone=False, seconds=TUNING.stale_s / 2, gold_a=1.0).sizes == before.sizes
        assert feed.unread("gold_b", gone=False, seconds=TUNING.stale_s, gold_a=1.0).sizes["gold"] > 4

    def test_one_that_can_be_read_again_is_no_burst(self):
        feed = Feed()
        before = feed.settled()
        feed.unread("gold_b", gone=False, seconds=0.08, gold_a=1.0, share_c=1.0)
        feed.silent, feed.usage["gold_b"] = [], feed.usage["gold_b"] + 0.04
        assert feed.ticks(10, gold_a=1.0, gold_b=0.5, share_c=1.0).sizes == before.sizes

    def test_one_that_never_could_be_read_does_neither(self):
        feed = Feed()
        assert feed.unread("gold_b", gone=False, seconds=0.4, gold_a=1.0).loads == {}

    def test_one_that_is_gone_uses_nothing(self):
        feed = Feed()
        feed.settled()
        found = feed.unread("gold_b", gone=True, seconds=5.0, gold_a=1.0, share_c=1.0)
        assert found.loads["gold"] == pytest.approx(1.0, abs=0.1)

    def test_what_the_counters_coarseness_can_feign_is_no_burst(self):
        feed = Feed()
        feed.settled()
        # one more tick of the scheduler on one of the CPUs is a fifth of a CPU over 20 ms
        assert feed.tick(gold_a=1.2, gold_b=0.5, share_c=1.0).loads["gold"] < 1.6

    def test_a_burst_on_one_cpu_counts_at_once(self):
        feed = Feed(SHARE._replace(asked=2), BOX)
        assert feed.ticks(600, share_c=0.1).sizes["share"] == 1
        # 0.9 of a CPU, less one tick of the scheduler in 20 ms
        assert feed.tick(share_c=0.9).loads["share"] == pytest.approx(0.7)

    def test_other_samples_are_nobodys(self):
        feed = Feed()
        feed.tick()
        for usage in (0, 80_000):
            feed.now += 0.02
            tick = feed.give(FastReadings(feed.now, (Sample(1, Role.BOX, feed.now, usage),), lendable=16))
        assert tick.loads == {}

    def test_who_is_in_no_tier_any_more_is_forgotten(self):
        feed = Feed()
        feed.settled()
        feed.tiers = (SHARE, BOX)
        assert feed.tick(share_c=1.0).memory.loads.keys() == {"share"}


class TestSizes:
    def test_the_box_begins_with_what_nobody_asks_for(self):
        assert Feed().tick().sizes == {"gold": 12, "share": 3, "reclaim": 1}

    def test_a_burst_counts_in_the_tick_that_shows_it(self):
        feed = Feed()
        assert feed.settled().sizes == {"gold": 4, "share": 2, "reclaim": 10}
        burst = feed.tick(gold_a=3.5, gold_b=0.5, share_c=1.0)
        assert burst.sizes["gold"] >= 8
        assert burst.because.startswith("pools resized: gold uses 3.")

    def test_what_is_lent_is_the_headroom(self):
        feed = Feed()
        tick = feed.settled()
        headroom = tick.headroom
        assert (headroom.cpu_milli, headroom.online_cpu_milli, headroom.binding) == (
            10_000,
            2500,
            Binding.TIERS,
        )
        assert tick.sizes["reclaim"] == 10

    def test_steps_are_whole_cores(self):
        feed = Feed()
        feed.memory = feed.memory._replace(period_s=10.0)
        readings = FastReadings(100.0, lendable=40, threads_per_core=4)
        assert partition._step(feed.memory, readings, 0.0, TUNING, 100.0) == 4
        assert partition._step(feed.memory, readings._replace(lendable=96), 0.0, TUNING, 100.0) == 8
        assert partition._step(feed.memory, readings._replace(lendable=2), 0.0, TUNING, 100.0) == 4

    def test_step_of_a_large_machine_is_a_tenth(self):
        readings = FastReadings(100.0, lendable=60)
        assert partition._step(PartitionMemory(), readings, 0.0, TUNING, 100.0) == 6

    def test_tick_late_by_two_periods_grows_nothing(self):
        memory, readings = PartitionMemory(period_s=0.02), FastReadings(100.0, lendable=60)
        assert partition._step(memory, readings, 0.04, TUNING, 100.0) == 0


class TestDoubt:
    def test_unread_for_long_a_tier_has_what_is_asked_for(self):
        feed = Feed()
        feed.settled()
        for _ in range(20):
            kept = feed.tick(share_c=1.0)
        assert kept.sizes["gold"] == 4
        for _ in range(90):
            feed.tick(share_c=1.0)
        assert feed.tick(share_c=1.0).sizes == {"gold": 12, "share": 2, "reclaim": 2}

    def test_unread_tier_does_not_delay_another_ones_dwell(self):
        feed = Feed()
        feed.ticks(400, gold_a=1.0, share_c=0.1)
        assert feed.ticks(200, share_c=0.1).sizes["share"] == 1

    def test_nothing_grows_on_a_late_tick(self):
        feed = Feed()
        uses = {"gold_a": 1.5, "share_c": 1.0}
        feed.ticks(195, **uses)
        while feed.memory.bands.sizes["reclaim"] == 1:
            before = feed.memory.bands.sizes
            feed.tick(0.12, **uses)
            if feed.now > 125:
                break
        assert feed.memory.bands.sizes == before
        assert feed.tick(**uses).sizes["reclaim"] > 1

    def test_a_tick_that_is_far_too_late_gives_back_everything(self):
        feed = Feed()
        feed.settled()
        tick = feed.tick(2.0, gold_a=1.0, gold_b=0.5, share_c=1.0)
        assert tick.sizes == {"gold": 12, "share": 3, "reclaim": 1}

    def test_old_readings_are_late_ones(self):
        feed = Feed()
        feed.settled()
        tick = feed.give(FastReadings(feed.now - 1.5, (), lendable=16))
        assert tick.sizes["reclaim"] == 1

    def test_a_clock_that_went_back_begins_anew(self):
        feed = Feed()
        feed.settled()
        feed.now -= 50
        assert feed.tick().sizes["gold"] == 12

    def test_a_machine_without_cpus_for_anybody_is_one_of_one(self):
        feed = Feed()
        sizes = feed.give(FastReadings(feed.now)).sizes
        assert sum(sizes.values()) == 1


class TestPace:
    @pytest.mark.parametrize(
        ("gold", "took_s", "next_s"),
        [
            (1.5, 0.0, 0.02),
            (1.5, 0.0002, 0.04),
            (1.5, 0.01, 0.05),
            (1.5, 0.04, 0.2),
            (0.9, 0.0, 0.05),
            (0.9, 0.01, 0.1),
            (0.9, 0.2, 1.0),
        ],
        ids=[
            "near its edge",
            "as dear as it is",
            "very dear",
            "too dear",
            "at rest",
            "idle and costly",
            "slow",
        ],
    )
    def test_it_is_quick_while_a_tier_may_soon_need_more(self, gold, took_s, next_s):
        loads = {"gold": gold}
        sizes = {"gold": 4, "reclaim": 12}
        assert partition._next_period((GOLD, BOX), sizes, loads, TUNING, took_s) == pytest.approx(next_s)

    def test_one_expensive_tick_does_not_slow_cheap_ones(self):
        feed = Feed()
        feed.settled()
        readings = FastReadings(feed.now + 0.02, lendable=16, took_s=0.01, mean_took_s=0.0001)
        tick = partition.tick(feed.memory, readings, feed.tiers, TUNING, readings.at)
        assert tick.next_s == TUNING.tick_s

    def test_one_loaded_tier_of_two_makes_it_quick(self):
        loads, sizes = {"gold": 1.5, "share": 0.1}, {"gold": 4, "share": 2, "reclaim": 10}
        assert partition._next_period((GOLD, SHARE, BOX), sizes, loads, TUNING, 0.0) == TUNING.tick_s

    def test_a_tier_at_its_most_is_read_slowly(self):
        sizes = {"gold": GOLD.most, "reclaim": 4}
        found = partition._next_period((GOLD, BOX), sizes, {"gold": GOLD.most}, TUNING, 0.0)
        assert found == TUNING.quiet_tick_s

    def test_where_nobody_may_grow_it_is_slow(self):
        full = Feed(GOLD._replace(band=None), BOX)
        assert full.tick(gold_a=1.0).next_s == TUNING.quiet_tick_s


def test_during_a_pause_tiers_have_their_requests():
    feed = Feed()
    assert feed.settled().sizes == {"gold": 4, "share": 2, "reclaim": 10}
    paused = replace(TUNING, paused="lending is paused until noon")
    readings = FastReadings(feed.now + 0.02, (), lendable=16, cpus=16)
    found = partition.tick(feed.memory, readings, feed.tiers, paused, feed.now + 0.02)
    assert found.sizes == {"gold": 12, "share": 3, "reclaim": 1}


def test_the_operators_maximum_bounds_the_headroom():
    feed = Feed(BOX)
    feed.ticks(3)
    headroom = feed.bounded(3).headroom
    assert (headroom.cpu_milli, headroom.unused_milli) == (3_000, 16_000)
