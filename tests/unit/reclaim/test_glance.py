"""reclaim/glance.py: which readings need no decision, and that what they said is not lost."""

from dataclasses import replace

import pytest

from nri_coloc.model.lending import Binding, Change
from nri_coloc.model.readings import FastReadings, Role, Sample
from nri_coloc.reclaim import glance
from nri_coloc.reclaim.glance import PASSES_S, Glance
from nri_coloc.reclaim.loop import Tick
from tests.unit.reclaim.fast_kit import KEYS, Feed

ONLINE, BOX = 2_000, 500


class Glancer(Feed):
    """A feed whose box is at rest; `given` passes over what it can, and `decided` is None then."""

    def __init__(self) -> None:
        super().__init__()
        self.glance: Glance | None = None
        self.decided: Tick | None = None
        self.usage[Role.ONLINE] = 0

    def given(self, online: int = ONLINE, *, box: int = BOX, seconds: float = 0.02, **more: object) -> bool:
        """Let time pass with that use, and read; whether it was passed over."""
        rates = {Role.PODS: online + box, Role.SYSTEM: 100, Role.BOX: box, Role.ONLINE: online}
        return self.take(self.read(seconds, rates, **more))

    def take(self, readings: FastReadings) -> bool:
        passed = glance.over(self.glance, self.memory, readings, self.tuning) if self.glance else None
        if passed is not None:
            self.glance, self.memory = passed
            return True
        self.decided = self.give(glance.caught_up(self.glance, readings))
        self.glance = glance.begin(self.decided, readings)
        return False

    def stalled_for(self, share: float, seconds: float = 0.02) -> Sample:
        """The pressure of a pod that is read by itself, after so much waiting."""
        self.stalled += round(share * seconds * 1e6)
        return Sample(99, Role.ONLINE, self.now + seconds, None, self.stalled, 0)


def at_rest() -> Glancer:
    feed = Glancer()
    while feed.glance is None or feed.decided is None or feed.decided.target.cpus < 5:
        feed.given()
    while not feed.given():
        pass
    while feed.given():
        pass
    assert feed.decided.target.change is Change.KEEP  # it has decided just now, and is at rest
    assert feed.glance is not None
    return feed


@pytest.fixture
def feed() -> Glancer:
    return at_rest()


def test_a_steady_use_is_passed_over_for_half_a_second_and_decided_about_then(feed):
    passed = 0
    while feed.given():
        passed += 1
    assert passed == pytest.approx(PASSES_S / 0.02, abs=2)


def test_a_burst_is_decided_about_at_once_and_by_its_own_interval(feed):
    for _ in range(10):
        assert feed.given()
    before = feed.memory.lent.cpus
    assert not feed.given(7_000)
    assert feed.decided is not None
    assert feed.decided.target.change is Change.SUPPRESS
    assert feed.decided.target.cpus < before
    assert feed.memory.rates.online >= 6_000, "not the mean of all that was passed over"


def test_what_was_passed_over_counts_among_the_peaks(feed):
    for _ in range(100):
        feed.given(ONLINE - 100)
    while feed.given(ONLINE - 100):
        pass
    peak = feed.memory.rates.peaks.peak
    assert peak == pytest.approx(ONLINE, abs=10), "with the system's 100"
    assert feed.given(ONLINE - 20)
    assert feed.memory.rates.peaks.peak > peak
    assert feed.memory.rates.online > ONLINE - 100


def test_a_pod_that_waits_is_decided_about(feed):
    feed.given(samples=[feed.stalled_for(0.0)])
    feed.given(samples=[feed.stalled_for(0.0)])
    share = feed.tuning.stall
    assert feed.given(samples=[feed.stalled_for(share - 0.01)])
    assert not feed.given(samples=[feed.stalled_for(share + 0.02)])


def test_a_group_that_was_never_read_is_the_ticks(feed):
    assert not feed.given(samples=[feed.stalled_for(0.0)])


def test_a_group_that_could_not_be_read_last_time_is_the_ticks(feed):
    unread = Sample(99, Role.ONLINE, feed.now + 0.02)
    assert feed.given(samples=[unread])
    assert not feed.given(samples=[feed.stalled_for(0.0)])


@pytest.mark.parametrize("usage", [None, 0, 1 << 60])
@pytest.mark.parametrize("role", [Role.PODS, Role.BOX])
def test_a_counter_that_tells_no_rate_is_the_ticks(feed, role, usage):
    readings = feed.read(0.02, {})
    doubtful = [s._replace(usage_us=usage) if s.role is role else s for s in readings.samples]
    assert not feed.take(readings._replace(samples=tuple(doubtful)))


def test_a_new_cgroup_with_use_of_its_own_is_the_ticks(feed):
    new = Sample(77, Role.BOX, feed.now + 0.02, 5_000)
    assert not feed.given(samples=[new])


def test_one_that_is_missing_is_the_ticks(feed):
    readings = feed.read(0.02, {})
    assert not feed.take(
        readings._replace(samples=tuple(s for s in readings.samples if s.role is not Role.SYSTEM))
    )


def test_without_the_pods_use_nothing_is_passed_over(feed):
    meters = {k: m for k, m in feed.memory.meters.items() if k != KEYS[Role.PODS]}
    readings = feed.read(0.02, {Role.BOX: 10})
    samples = tuple(s for s in readings.samples if s.role is not Role.PODS)
    memory = feed.memory._replace(meters=meters)
    assert glance.over(feed.glance, memory, readings._replace(samples=samples), feed.tuning) is None


def test_a_counter_read_twice_in_a_moment_is_the_ticks(feed):
    assert not feed.given(seconds=0.001)


def test_a_late_look_is_the_ticks(feed):
    assert not feed.given(late_s=1.0)
    feed = at_rest()
    assert not feed.given(seconds=0.2)


def test_a_box_that_falls_asleep_or_wakes_up_is_the_ticks(feed):
    assert not feed.given(box=0)
    assert feed.given(box=0)
    assert not feed.given(box=400)


def test_other_lendable_cpus_are_the_ticks(feed):
    readings = feed.read(0.02, {Role.PODS: ONLINE + BOX})
    assert not feed.take(readings._replace(lendable=7))


def test_a_box_that_grows_is_not_at_rest(feed):
    assert feed.decided is not None
    target = feed.decided.target._replace(binding=Binding.GROWTH_STEP)
    readings = feed.read(0.02)
    assert glance.begin(feed.decided._replace(target=target), readings) is None


def test_where_no_use_is_known_nothing_is_passed_over(feed):
    assert feed.decided is not None
    memory = feed.decided.memory._replace(meters={})
    assert glance.begin(feed.decided._replace(memory=memory), feed.read(0.02)) is None


def test_what_was_passed_over_comes_before_what_was_read_now(feed):
    assert feed.given()
    readings = feed.read(0.02)
    caught_up = glance.caught_up(feed.glance, readings)
    assert caught_up.samples[-len(readings.samples) :] == readings.samples
    assert [s.at for s in caught_up.samples] == sorted(s.at for s in caught_up.samples)
    assert len(caught_up.samples) == 2 * len(readings.samples)


def test_without_anything_passed_over_readings_are_as_they_were(feed):
    readings = feed.read(0.02)
    assert glance.caught_up(None, readings) is readings
    assert glance.caught_up(feed.glance, readings) is readings


def test_so_much_headroom_that_the_box_may_grow_is_the_ticks(feed):
    before = feed.memory.lent.milli
    passed = sum(feed.given(ONLINE - 150) for _ in range(200))
    assert feed.memory.lent.milli == before, "within the dead band"
    assert passed > 150
    while feed.memory.lent.milli == before:
        assert not feed.given(ONLINE - 1_000) or feed.memory.rates.peaks.peak > ONLINE - 200


def test_less_headroom_than_is_lent_is_the_ticks(feed):
    feed.tuning = replace(feed.tuning, reserve_milli=4_000)
    assert not feed.given()


def yielding() -> Glancer:
    """As at rest, with a core beyond the headroom."""
    feed = at_rest()
    while feed.memory.lent.more.cpus == 0:
        feed.given(yields=True)
    while feed.given(yields=True):
        pass
    return feed


def test_a_box_with_a_core_beyond_its_headroom_rests_too():
    feed = yielding()
    assert all(feed.given(yields=True) for _ in range(10))
    assert feed.memory.lent.box == feed.memory.lent.cpus + 1


def test_a_rise_beyond_a_ripple_is_decided_about():
    feed = yielding()
    assert not feed.given(ONLINE + 2_000, yields=True)
    assert feed.memory.lent.more.cpus == 0


def test_a_box_whose_tasks_do_not_yield_any_more_is_decided_about():
    feed = yielding()
    assert not feed.given()
    assert feed.memory.lent.more.cpus == 0


def test_waiting_behind_tasks_that_yield_is_looked_at_from_half_a_stall_on():
    feed = yielding()
    assert not feed.given(yields=True, samples=[feed.stalled_for(0.0)])
    assert feed.given(yields=True, samples=[feed.stalled_for(0.04)])
    assert not feed.given(yields=True, samples=[feed.stalled_for(0.06)])
