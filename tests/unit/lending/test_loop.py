"""A tick turns counters into a size of the reclaim pool."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nri_coloc.core.lending import Binding, Change
from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.fast_loop import LoopMemory, Tick, resumed, tick
from nri_coloc.lending.pool_size import Lent, Yielded
from tests.unit.lending.fast_kit import Feed


def grown(lendable: int = 8, online: int = 2_000) -> Feed:
    """Return a loop that has lent as much as it can."""
    feed = Feed(lendable)
    feed.ticks(300, online)
    return feed


def test_the_first_tick_lends_the_floor():
    found = Feed().tick()
    assert (found.target.cpus, found.target.change) == (1, Change.SUPPRESS)
    assert (found.target.binding, found.headroom.cpu_milli) == (Binding.LEARNING, 0)


def test_two_readings_end_the_learning():
    feed = Feed()
    feed.tick()
    assert feed.tick().target.binding is Binding.DWELL


def test_pool_grows_beside_the_peak_of_use():
    found = grown().tick(2_000)
    # 8 x 950 - 2000 - 100
    assert (found.headroom.cpu_milli, found.headroom.online_cpu_milli, found.target.cpus) == (5_500, 2_000, 6)


def test_the_headroom_keeps_to_the_pools_maximum():
    bounded = grown().tick(2_000, most=3).headroom
    assert (bounded.cpu_milli, bounded.unused_milli) == (3_000, 5_500)
    free = grown().tick(2_000).headroom
    assert (free.cpu_milli, free.unused_milli) == (5_500, 5_500)


def test_growth_comes_in_steps():
    feed = Feed()
    sizes = [feed.tick(2_000).target.cpus for _ in range(200)]
    assert sizes == sorted(sizes)
    assert all(b - a <= 1 for a, b in pairwise(sizes))


def test_no_growth_without_new_readings():
    feed = Feed()
    feed.ticks(45, 2_000)
    for _ in range(40):
        feed.now += 0.02
        assert feed.give(FastReadings(feed.now, lendable=8)).target.cpus == 1


def test_a_burst_on_one_lendable_cpu_counts_at_once():
    feed = Feed(lendable=1)
    feed.ticks(20, 0)
    # 1000m, less one tick of the scheduler in 20 ms
    feed.tick(900, box=0)
    assert feed.memory.rates.online + feed.memory.rates.system == 800


def test_cost_of_growth_comes_with_the_next_reading():
    feed = Feed()
    assert any(feed.tick(2_000).target.change is Change.GROW for _ in range(200))
    feed.tick(2_000, took_s=0.01)
    feed.tick(2_000, took_s=0.0002)
    assert feed.memory.lent.growth_took_s == 0.01


def test_one_costly_tick_does_not_slow_the_loop():
    feed = Feed()
    feed.ticks(3, 2_000)
    assert feed.tick(2_000, took_s=0.01, mean_took_s=0.0001).next_s == feed.tuning.tick_s
    assert feed.tick(2_000, took_s=0.0001, mean_took_s=0.01).next_s == feed.tuning.tick_max_s


def test_burst_takes_cpus_back_at_once():
    feed = grown()
    found = feed.tick(7_500, box=100)
    assert (found.target.cpus, found.target.change) == (1, Change.SUPPRESS)


def test_short_peak_within_the_dwell_prevents_growth():
    feed = grown()
    feed.tick(7_500, box=100)
    sizes = {feed.tick(2_000).target.cpus for _ in range(45)}
    assert sizes == {1}


def test_a_stall_halves_the_box():
    feed = grown()
    feed.tick(2_000, samples=[feed.waited(0)])
    found = feed.tick(2_000, samples=[feed.waited(1.0)])
    assert (found.target.cpus, found.target.binding) == (3, Binding.STALL)
    assert found.stall.blamed > 0.1


def test_after_a_cut_only_new_waiting_counts():
    feed = grown()
    feed.tick(2_000, samples=[feed.waited(0)])
    feed.tick(2_000, samples=[feed.waited(1.0)])
    assert feed.tick(2_000, samples=[feed.waited(0)]).target.change is Change.KEEP


def test_waiting_for_the_own_quota_is_recorded_only():
    feed = grown()
    feed.tick(2_000, samples=[feed.waited(0)])
    found = feed.tick(2_000, samples=[feed.waited(0.8, throttled=0.8)])
    assert found.target.change is Change.KEEP
    assert found.stall.own > 0.1


def test_an_idle_box_is_not_blamed():
    feed = grown()
    feed.tick(2_000, box=0, samples=[feed.waited(0)])
    found = feed.tick(2_000, box=0, samples=[feed.waited(1.0)])
    assert found.target.change is Change.KEEP


def test_unreadable_counters_keep_the_pool_until_stale():
    feed = grown()
    lost = [Sample(1, Role.PODS, feed.now, None)]
    kept, floor = [], None
    for _ in range(60):
        feed.now += 0.02
        floor = feed.give(FastReadings(feed.now, tuple(lost), lendable=8))
        kept.append(floor.target.cpus)
    assert kept[:49] == [6] * 49
    assert floor is not None
    assert (kept[-1], floor.target.binding) == (1, Binding.STALE)


def test_after_a_gap_the_dwell_begins_anew():
    feed = grown()
    found = feed.tick(2_000, seconds=5)
    assert (found.target.cpus, found.target.binding) == (1, Binding.LATE)
    sizes = [feed.tick(2_000).target.cpus for _ in range(200)]
    assert set(sizes[:50]) == {1}
    assert sizes[-1] == 6


def test_tick_is_late_by_the_advised_period():
    feed = grown()
    feed.tick(6_000)
    feed.ticks(100, 2_000)
    assert {feed.tick(2_000, seconds=0.07).target.binding for _ in range(50)} == {Binding.LATE}


def test_unread_pods_lend_the_floor():
    feed = grown()
    feed.now += 20
    found = feed.give(FastReadings(feed.now, (Sample(50, Role.ONLINE, feed.now, 0),), lendable=8))
    assert (found.target.cpus, found.target.binding) == (1, Binding.STALE)


def test_readings_judged_late_count_as_late():
    feed = grown(online=5_000)
    for _ in range(100):
        readings = feed.read(0.02, {Role.PODS: 2_500, Role.SYSTEM: 100, Role.BOX: 500})
        found = tick(feed.memory, readings, feed.tuning, feed.now + 0.3)
        feed.memory = found.memory._replace(at=feed.now)
    assert (found.target.cpus, found.target.binding) == (3, Binding.LATE)


def test_clock_set_back_lends_the_floor():
    feed = grown()
    feed.now -= 50
    found = feed.tick(2_000)
    assert (found.target.cpus, found.target.change) == (1, Change.SUPPRESS)
    assert found.target.binding is Binding.LEARNING


def test_clock_set_back_ends_the_extra_core():
    lent = Lent(cpus=1, milli=1_000, more=Yielded(cpus=1))
    found = tick(LoopMemory(at=100.0, lent=lent), FastReadings(50.0, lendable=8), ReclaimTuning(), 50.0)
    assert (found.target.cpus, found.target.change) == (1, Change.SUPPRESS)


def test_the_same_input_gives_the_same_result():
    feed = grown()
    readings = feed.read(0.02, {Role.PODS: 6_000, Role.SYSTEM: 100, Role.BOX: 500})
    assert tick(feed.memory, readings, feed.tuning, feed.now) == tick(
        feed.memory, readings, feed.tuning, feed.now
    )


def test_tick_does_not_change_its_input():
    feed = grown()
    before = feed.memory
    copied = (dict(before.meters), dict(before.gauges))
    feed.tick(7_000, samples=[feed.waited(1.0)])
    assert (before.meters, before.gauges) == copied


def test_without_lendable_cpus_one_is_named():
    feed = Feed(lendable=0)
    assert feed.ticks(100).target.cpus == 1


def test_pool_without_lending_has_all_of_share():
    feed = grown()
    feed.tuning = ReclaimTuning(enabled=False)
    found = feed.tick()
    assert (found.target.cpus, found.target.binding) == (8, Binding.DISABLED)
    assert (found.headroom.cpu_milli, found.next_s) == (0, feed.tuning.idle_tick_s)


def test_without_lending_one_cpu_stays_one():
    feed = Feed(lendable=1, tuning=ReclaimTuning(enabled=False))
    assert feed.tick().target.cpus == 1


def test_lending_begins_with_the_floor():
    feed = Feed(tuning=ReclaimTuning(enabled=False))
    feed.tick()
    feed.tuning = replace(feed.tuning, enabled=True)
    found = feed.tick()
    assert (found.target.cpus, found.target.change) == (1, Change.SUPPRESS)


def test_result_holds_the_next_period():
    found = grown().tick(2_000)
    assert found.next_s == found.memory.period_s == ReclaimTuning().tick_s


def test_empty_memory_cannot_be_changed():
    assert LoopMemory().meters is LoopMemory().meters
    assert not hasattr(LoopMemory().meters, "__setitem__")


class TestABoxThatWasFound:
    """The reclaim pool has 6 of 8 CPUs and uses 5; the number of its pods and groups is known."""

    @pytest.fixture
    def feed(self) -> Feed:
        feed = Feed()
        feed.memory = resumed(6, feed.now, feed.tuning)
        return feed

    def tick(self, feed: Feed, online: int = 2_000, **more: Any) -> Tick:
        return feed.tick(online, box=5_000, members=1, **more)

    def test_keeps_its_cpus_without_readings_or_promises(self, feed):
        found = self.tick(feed)
        assert (found.target.cpus, found.target.change) == (6, Change.KEEP)
        assert (found.headroom.cpu_milli, found.headroom.unused_milli) == (0, 0)
        assert found.headroom.binding is Binding.LEARNING

    def test_keeps_them_when_there_is_room_for_them(self, feed):
        sizes = [self.tick(feed).target.cpus for _ in range(100)]
        assert set(sizes) == {6}
        assert self.tick(feed).headroom.cpu_milli > 5_000

    def test_shrinks_to_the_headroom_with_the_second_reading(self, feed):
        sizes = [self.tick(feed, 5_000).target.cpus for _ in range(3)]
        assert sizes == [6, 3, 3]

    def test_waits_for_the_rates_of_its_members(self, feed):
        # use without a rate counts as online use: 4000m of the second member, 1000m of online pods
        sizes = [feed.tick(5_000, box=1_000, members=2).target.cpus for _ in range(40)]
        assert set(sizes) == {6}

    def test_is_judged_without_late_rates(self, feed):
        for _ in range(60):
            found = feed.tick(3_000, box=5_000, members=2)
        assert (found.target.cpus, found.headroom.cpu_milli) == (5, 4_500)

    def test_has_its_floor_without_any_measurement(self, feed):
        blind = [feed.give(FastReadings(feed.now + at, lendable=8, cpus=8, members=1)) for at in (0.02, 0.9)]
        assert [tick.target.cpus for tick in blind] == [6, 6]
        feed.now += 1.1
        found = feed.give(FastReadings(feed.now, lendable=8, cpus=8, members=1))
        assert (found.target.cpus, found.target.binding) == (1, Binding.LEARNING)
