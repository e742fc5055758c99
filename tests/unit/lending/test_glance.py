"""lending/fast_loop.py: readings that need no decision are skipped, and their values still count later."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from nri_coloc.core.lending import Binding, Change
from nri_coloc.core.readings import FastReadings, Look, Role, Sample
from nri_coloc.lending import fast_loop
from nri_coloc.lending.fast_loop import CLOSER_S, PASSES_S, Glance, Tick
from nri_coloc.lending.pool_size import Lent, Yielded, decide
from tests.unit.lending.fast_kit import Feed, Watcher, look_of
from tests.unit.lending.scene import CALM

ONLINE, BOX = 2_000, 500


class Glancer(Feed):
    """A feed that skips readings where it can; `decided` is the last decision."""

    def __init__(self) -> None:
        super().__init__()
        self.watcher = Watcher(self.tuning)
        self.decided: Tick | None = None
        self.usage[Role.ONLINE] = 0

    @property
    def lent(self) -> int:
        return self.watcher.memory.lent.milli

    def given(self, online: int = ONLINE, *, box: int = BOX, seconds: float = 0.02, **more: Any) -> bool:
        """Let time pass with this use, milli-CPU, and read; return whether the readings were skipped."""
        rates = {Role.PODS: online + box, Role.SYSTEM: 100, Role.BOX: box, Role.ONLINE: online}
        return self.take(self.read(seconds, rates, **more))

    def take(self, readings: FastReadings) -> bool:
        found = self.watcher.take(readings)
        self.decided = found or self.decided
        return found is None

    def stalled_for(self, share: float, seconds: float = 0.02) -> Sample:
        """Return the pressure sample of a pod that waits for this part of `seconds`."""
        self.stalled += round(share * seconds * 1e6)
        return Sample(
            key=99,
            role=Role.ONLINE,
            at=self.now + seconds,
            usage_us=None,
            stalled_us=self.stalled,
            throttled_us=0,
        )


def at_rest() -> Glancer:
    feed = Glancer()
    while feed.decided is None or feed.decided.target.binding is not Binding.DEAD_BAND:
        feed.given()
    while feed.given():
        pass
    assert feed.decided.target.change is Change.KEEP  # the last decision is new, and keeps the size
    assert feed.watcher.glance is not None
    return feed


@pytest.fixture
def feed() -> Glancer:
    return at_rest()


def test_a_steady_use_is_decided_about_once_a_second(feed):
    passed = 0
    while feed.given():
        passed += 1
    assert passed == pytest.approx(PASSES_S / 0.02, abs=2)


def test_a_burst_is_decided_at_once_by_its_interval(feed):
    for _ in range(10):
        assert feed.given()
    before = feed.watcher.memory.lent.cpus
    assert not feed.given(7_000)
    assert feed.decided is not None
    assert feed.decided.target.change is Change.SUPPRESS
    assert feed.decided.target.cpus < before
    assert feed.watcher.memory.rates.online >= 6_000, "not the mean of all that was passed over"


def test_a_burst_that_only_began_is_looked_at_again_soon(feed):
    feed.tuning = feed.watcher.tuning = replace(feed.tuning, average_s=1e-9)
    for _ in range(100):
        feed.given(ONLINE - 160)
    while feed.given(ONLINE - 160):
        pass
    usual, jump = feed.watcher.next_s, feed.tuning.dead_band_milli // 4
    assert feed.given(ONLINE - 160 + jump + 10)
    assert feed.watcher.next_s == CLOSER_S < usual
    assert feed.given(ONLINE - 160 + jump + 10)
    assert feed.watcher.next_s == usual


def test_what_was_passed_over_counts_among_the_peaks(feed):
    for _ in range(100):
        feed.given(ONLINE - 100)
    while feed.given(ONLINE - 100):
        pass
    peak = feed.watcher.memory.rates.peaks.peak
    assert peak == pytest.approx(ONLINE, abs=10), "with the system's 100"
    assert feed.given(ONLINE - 20)
    caught_up = fast_loop.caught_up(feed.watcher.glance, feed.watcher.memory)
    assert caught_up.rates.peaks.peak > peak
    assert caught_up.rates.online > ONLINE - 100
    assert caught_up.at == pytest.approx(feed.now, abs=0.001)


def test_where_nothing_was_passed_over_the_use_is_as_it_was(feed):
    memory = feed.watcher.memory
    assert fast_loop.caught_up(None, memory) is memory
    while feed.given():
        pass
    memory = feed.watcher.memory
    caught_up = fast_loop.caught_up(feed.watcher.glance, memory)
    assert caught_up.rates._replace(rated_at=0.0, oldest=0.0) == memory.rates._replace(
        rated_at=0.0, oldest=0.0
    )


def test_a_pod_that_waits_is_decided_about(feed):
    feed.given(samples=[feed.stalled_for(0.0)])
    feed.given(samples=[feed.stalled_for(0.0)])
    share = feed.tuning.stall
    assert feed.given(samples=[feed.stalled_for(share - 0.01)])
    assert not feed.given(samples=[feed.stalled_for(share + 0.02)])


def test_a_group_that_was_never_read_is_the_ticks(feed):
    assert not feed.given(samples=[feed.stalled_for(0.0)])


def test_a_group_that_can_be_read_no_more_is_the_ticks(feed):
    feed.given(samples=[feed.stalled_for(0.0)])
    assert feed.given(samples=[feed.stalled_for(0.0)])
    assert not feed.given(samples=[Sample(99, Role.ONLINE, feed.now + 0.02)])


@pytest.mark.parametrize("usage", [None, 0, 1 << 60])
@pytest.mark.parametrize("role", [Role.PODS, Role.BOX])
def test_a_counter_that_tells_no_rate_is_the_ticks(feed, role, usage):
    readings = feed.read(0.02, {})
    doubtful = [s._replace(usage_us=usage) if s.role is role else s for s in readings.samples]
    assert not feed.take(readings._replace(samples=tuple(doubtful)))


def test_a_counter_read_twice_in_a_moment_is_the_ticks(feed):
    assert not feed.given(seconds=0.001)


def test_a_late_look_is_the_ticks(feed):
    assert not feed.given(late_s=1.0)
    feed = at_rest()
    assert not feed.given(seconds=0.2)


def test_a_box_that_falls_asleep_or_wakes_up_is_the_ticks(feed):
    assert not feed.given(box=0)
    assert feed.given(box=0)
    assert feed.given(box=10)
    assert not feed.given(box=400)


def test_a_box_that_just_gave_way_is_not_at_rest(feed):
    assert feed.decided is not None
    target = feed.decided.target._replace(binding=Binding.ONLINE_USE)
    assert begin(feed, target=target) is None


@pytest.mark.parametrize("binding", [Binding.GROWTH_STEP, Binding.DWELL])
def test_while_growth_has_to_wait_nothing_is_decided(feed, binding):
    assert feed.decided is not None
    grown_at = feed.now + 0.1 - feed.tuning.step_s
    memory = feed.decided.memory._replace(lent=feed.decided.memory.lent._replace(grown_at=grown_at))
    found = begin(feed, target=feed.decided.target._replace(binding=binding), memory=memory)
    assert found is not None
    assert found.bounds.until == pytest.approx(grown_at + feed.tuning.step_s)


def test_nothing_is_decided_before_the_dwell_of_a_growth(feed):
    assert feed.decided is not None
    cut_at = feed.now + 0.1 - feed.tuning.dwell_s
    lent = feed.decided.memory.lent._replace(cut_at=cut_at, hold_s=0.0)
    memory = feed.decided.memory._replace(lent=lent)
    found = begin(feed, target=feed.decided.target._replace(binding=Binding.DWELL), memory=memory)
    assert found is not None
    assert found.bounds.until == pytest.approx(cut_at + feed.tuning.dwell_s)


def test_where_no_use_is_known_nothing_is_passed_over(feed):
    assert feed.decided is not None
    assert begin(feed, memory=feed.decided.memory._replace(meters={})) is None


def test_a_box_whose_core_more_goes_anyway_is_not_at_rest(feed):
    assert feed.decided is not None
    lent = feed.decided.memory.lent._replace(more=Yielded(cpus=1))
    assert begin(feed, memory=feed.decided.memory._replace(lent=lent)) is None


def test_readings_that_were_no_look_begin_none(feed):
    assert feed.decided is not None
    assert fast_loop.glance_after(feed.decided, feed.read(0.02), None, feed.tuning) is None


def test_so_much_headroom_that_the_box_may_grow_is_the_ticks(feed):
    before = feed.lent
    passed = sum(feed.given(ONLINE - 150) for _ in range(200))
    assert feed.lent == before, "within the dead band"
    assert passed > 150
    while feed.lent == before:
        feed.given(ONLINE - 1_000)
    assert feed.lent > before


def begin(feed: Glancer, **changed: Any) -> Glance | None:
    assert feed.decided is not None
    readings = feed.read(0.02)
    return fast_loop.glance_after(feed.decided._replace(**changed), readings, look_of(readings), feed.tuning)


def stalled(key: int, at: float) -> Sample:
    """Return a reading of an online group whose stall is known, and its use is not."""
    return Sample(key=key, role=Role.ONLINE, at=at, usage_us=None, stalled_us=1_000 * key, throttled_us=0)


def test_groups_read_round_robin_keep_their_last_reading():
    feed = Glancer()
    for turn in range(400):
        key = 100 + turn % 4
        feed.given(samples=[stalled(key, feed.now + 0.02)])
    before = feed.watcher.passed
    for turn in range(100):
        key = 100 + turn % 4
        feed.given(samples=[stalled(key, feed.now + 0.02)])
    assert feed.watcher.passed - before > 80


def test_what_a_growth_cost_is_noted_before_anything_is_passed_over():
    feed = Glancer()
    while feed.decided is None or feed.decided.target.change is not Change.GROW:
        feed.given(took_s=0.0001)
    assert not feed.given(took_s=0.02)
    assert feed.watcher.memory.lent.growth_took_s == 0.02


def test_after_a_jump_the_usual_pace_comes_back():
    feed = at_rest()
    usual = feed.tuning.tick_max_s
    for _ in range(100):
        feed.given(ONLINE - 160, seconds=usual, mean_took_s=0.001)
    while feed.given(ONLINE - 160, seconds=usual, mean_took_s=0.001):
        pass
    while feed.watcher.glance is not None and feed.watcher.glance.bounds.until > feed.now + usual:
        feed.given(ONLINE - 160, seconds=usual, mean_took_s=0.001)
    assert not feed.given(ONLINE, seconds=usual, mean_took_s=0.001), "a tick was due, and saw it"
    assert feed.watcher.next_s == CLOSER_S
    assert feed.given(ONLINE - 60, seconds=CLOSER_S, mean_took_s=0.001)
    assert feed.watcher.next_s == usual


class Yielding(Glancer):
    """Two CPUs; all tasks of the reclaim pool have the minimum weight."""

    def __init__(self) -> None:
        super().__init__()
        self.lendable = self.cpus = 2

    def given(self, online: int = 750, **more: Any) -> bool:
        return super().given(online, box=1_850 - online, yields=True, **more)

    def until_it_has(self, cpus: int) -> None:
        for _ in range(1000):
            if self.decided is not None and self.decided.target.cpus == cpus and self.given():
                return
            self.given()
        pytest.fail(f"it never had {cpus}: {self.decided}")


def test_a_rise_takes_the_core_more_away_before_the_headroom_does():
    feed = Yielding()
    feed.until_it_has(2)
    assert feed.watcher.memory.lent.more.cpus == 1
    while feed.given():
        pass
    assert feed.given()
    assert not feed.given(1_400)
    assert feed.watcher.memory.lent.more.cpus == 0


def test_the_core_more_comes_back_when_its_time_has_come():
    feed = Yielding()
    feed.until_it_has(2)
    while not feed.given(1_400):
        pass
    assert feed.watcher.memory.lent.box == 1
    feed.until_it_has(2)


class TestExtraCore:
    """Readings are skipped exactly as far as the decision would stay the same."""

    def bounds(self, lent: Lent, threads: int = 1) -> fast_loop.Bounds:
        feed = Yielding()
        feed.until_it_has(2)
        feed.lendable, feed.threads = 2 * threads, threads
        self.tuning = feed.tuning
        assert feed.decided is not None
        memory = feed.decided.memory._replace(lent=lent)
        target = feed.decided.target._replace(binding=Binding.DEAD_BAND)
        readings = feed.read(0.02, yields=True)
        found = fast_loop.glance_after(
            feed.decided._replace(memory=memory, target=target), readings, look_of(readings), self.tuning
        )
        assert found is not None
        return found.bounds

    def decided(self, lent: Lent, use: int, threads: int = 1) -> Lent:
        scene = CALM._replace(online=use, system=0, peak=2_000, yields=True)
        scene = scene._replace(lendable=2 * threads, threads=threads)
        return decide(lent, scene, self.tuning).lent

    @pytest.mark.parametrize("milli", [300, 1_000])
    def test_more_use_takes_headroom_or_the_core(self, milli):
        lent = Lent(milli, 1, more=Yielded(cpus=1))
        most = round(self.bounds(lent).most)
        kept = [
            self.decided(lent, use).box == 2 and self.decided(lent, use).milli == milli
            for use in (most, most + 1)
        ]
        assert kept == [True, False]

    def test_more_use_takes_a_core_of_two_threads(self):
        lent = Lent(500, 2, more=Yielded(cpus=2))
        most = round(self.bounds(lent, threads=2).most)
        assert [self.decided(lent, use, threads=2).box for use in (most, most + 1)] == [4, 2]

    def test_less_use_brings_the_core(self):
        least = round(self.bounds(Lent(0, 1)).least)
        assert [self.decided(Lent(0, 1), use).box for use in (least, least + 1)] == [2, 1]


class TestWaiting:
    """Groups that every reading covers need no samples."""

    SPAN_S = 0.02

    def over(self, feed: Glancer, before: tuple[int, ...], now: tuple[int, ...]) -> bool:
        """Return whether readings are skipped if the groups' waiting rises from `before` to `now`, µs."""
        known, look = feed.watcher.glance, look_of(feed.read(self.SPAN_S, {Role.PODS: 2_500, Role.BOX: BOX}))
        assert known is not None
        assert look is not None
        known = known._replace(look=known.look._replace(waited_us=before))
        return fast_loop.passed_over(known, look._replace(waited_us=now), 0.0) is not None

    @pytest.mark.parametrize("more_us", [-100, 100], ids=["less", "more"])
    def test_who_waits_for_longer_than_a_stall_is_decided_about(self, feed, more_us):
        most = round(feed.tuning.stall * self.SPAN_S * 1e6)
        assert self.over(feed, (70, 30), (70, 30 + most + more_us)) is (more_us < 0)

    @pytest.mark.parametrize("now", [(69,), (70, 0), ()], ids=["went-back", "one-more", "one-less"])
    def test_a_counter_that_cannot_be_compared_is_the_ticks(self, feed, now):
        assert not self.over(feed, (70,), now)


class TestEdges:
    """A value exactly at its bound keeps the size, and a time exactly at its bound is due."""

    def over(self, feed: Glancer, late_s: float = 0.0, **bounds: Any) -> Glance | None:
        """Return the state after one more quick reading under these bounds; None if a full tick has to decide."""
        known, look = self.next(feed)
        return fast_loop.passed_over(known._replace(bounds=known.bounds._replace(**bounds)), look, late_s)

    def next(self, feed: Glancer) -> tuple[Glance, Look]:
        known = feed.watcher.glance
        look = look_of(feed.read(0.02, {Role.PODS: ONLINE + BOX, Role.SYSTEM: 100, Role.BOX: BOX}))
        assert known is not None
        assert look is not None
        return known, look

    def test_a_full_tick_is_due_at_its_time(self, feed):
        known, look = self.next(feed)
        assert (
            fast_loop.passed_over(known._replace(bounds=known.bounds._replace(until=look.at)), look, 0.0)
            is None
        )

    def test_a_reading_late_by_a_period_is_the_ticks(self, feed):
        assert self.over(feed, late_s=0.02, period_s=0.02) is None

    def test_readings_two_periods_apart_are_the_ticks(self, feed):
        known, look = self.next(feed)
        bounds = known.bounds._replace(period_s=(look.at - known.look.at) / 2)
        assert fast_loop.passed_over(known._replace(bounds=bounds), look, 0.0) is None

    @pytest.mark.parametrize("less", [0, 1])
    def test_use_above_the_bound_shrinks_the_pool(self, feed, less):
        found = self.over(feed)
        assert found is not None
        feed = at_rest()
        assert (self.over(feed, most=found.mean - less) is None) is bool(less)

    @pytest.mark.parametrize("more", [-1, 0])
    def test_a_peak_down_to_the_bound_lets_the_pool_grow(self, feed, more):
        found = self.over(feed)
        assert found is not None
        feed = at_rest()
        assert (self.over(feed, calm=found.peaks.peak + more) is None) is not bool(more)

    @pytest.mark.parametrize("more", [-1, 0])
    def test_use_down_to_the_bound_brings_the_extra_core(self, feed, more):
        found = self.over(feed)
        assert found is not None
        feed = at_rest()
        assert (self.over(feed, least=found.mean + more, back_at=0.0) is None) is not bool(more)

    def test_the_extra_core_comes_no_sooner_than_allowed(self, feed):
        known, look = self.next(feed)
        soon, due = (known.bounds._replace(least=1e9, back_at=look.at + late_s) for late_s in (0.01, 0.0))
        assert fast_loop.passed_over(known._replace(bounds=soon), look, 0.0) is not None
        assert fast_loop.passed_over(known._replace(bounds=due), look, 0.0) is None

    def test_counters_may_fall_by_their_lag_on_every_cpu(self, feed):
        known, look = self.next(feed)
        bounds = known.bounds._replace(calm=-inf, counters_s=0.01, cpus=8)
        fallen = look._replace(left_us=known.look.left_us - 70_000, system_us=known.look.system_us)
        assert fast_loop.passed_over(known._replace(bounds=bounds), fallen, 0.0) is not None
        fallen = fallen._replace(left_us=known.look.left_us - 90_000)
        assert fast_loop.passed_over(known._replace(bounds=bounds), fallen, 0.0) is None

    def test_behind_yielding_tasks_half_a_stall_is_decided_about(self, feed):
        assert feed.decided is not None
        readings = feed.read(0.02, yields=True)
        found = fast_loop.glance_after(feed.decided, readings, look_of(readings), feed.tuning)
        assert found is not None
        assert found.bounds.stall == feed.tuning.stall / 2
