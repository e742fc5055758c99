"""Invariant 5 of DESIGN 3 for the fast loop, for all readings.

The readings are hostile: counters that jump and fall, files that cannot be read, clocks that run backwards, late ticks,
and a node whose lendable CPUs change.
"""

from dataclasses import dataclass
from math import inf
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.lending import Change
from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.fast_loop import CLOSER_S, LoopMemory, Tick, tick
from nri_coloc.lending.pool_size import floor_cpus, headroom_milli, step_milli, whole_cpus
from tests.unit.lending.fast_kit import Watcher

ROLES = tuple(Role)


def counter(draw: Random) -> int | None:
    return draw.choice((None, 0, 2**63, draw.randrange(10**8)))


def samples(draw: Random, now: float) -> tuple[Sample, ...]:
    """Draw plausible rates of each role since time 0, and now and then any value."""
    found = []
    for key, role in enumerate(ROLES):
        if draw.random() < 0.1:
            continue
        at = now + draw.choice((0.0, 0.0, 0.0, 0.0, 0.0, -0.03, -60.0))
        usage = counter(draw) if draw.random() < 0.1 else int(draw.randrange(4_000) * now * 10)
        found.append(
            Sample(
                key=key,
                role=role,
                at=at,
                usage_us=usage,
                stalled_us=counter(draw),
                throttled_us=counter(draw),
                shares_box=draw.random() < 0.5,
            )
        )
    return tuple(found)


def hostile(seed: int) -> list[FastReadings]:
    """Up to forty ticks on one machine, drawn from a seed: hypothesis' own choices would cost a second each."""
    draw = Random(seed)
    now, found = 1_000.0, []
    threads, yields = draw.choice((1, 2)), draw.random() < 0.5
    for _ in range(draw.randrange(1, 40)):
        now += draw.choice((0.02, 0.02, 0.02, 0.02, 0.02, 0.3, 0.0, 1.5, -2.0))
        found.append(
            FastReadings(
                at=now,
                samples=samples(draw, now),
                late_s=draw.choice((0.0, 0.0, 0.0, 0.004, 0.05, 3.0)),
                lendable=draw.choice((8, 8, 8, 8, 7, 2, 0)),
                threads_per_core=threads,
                cpus=draw.choice((0, 8)),
                took_s=draw.choice((0.0, 0.0001, 0.01)),
                mean_took_s=draw.choice((0.0, 0.0001, 0.01)),
                yields=yields,
            )
        )
    return found


def calm(seed: int) -> list[FastReadings]:
    """Draw sixty ticks of a node whose pods use more or less, with exact counters: so the reclaim pool really grows."""
    draw = Random(seed)
    now, used, found = 1_000.0, dict.fromkeys(ROLES, 0), []
    threads, yields = draw.choice((1, 2)), draw.random() < 0.5
    reserved = draw.randrange(400)  # read once a second only, so that snapshots and ticks know the same value
    for _ in range(60):
        now += 0.02
        most = {Role.PODS: 4_000, Role.SYSTEM: 300, Role.BOX: 900, Role.DEDICATED: 1_500}
        for role, milli in most.items():
            used[role] += draw.randrange(milli) * 20
        used[Role.RESERVED] += reserved * 20
        read = tuple(Sample(key, role, now, used[role]) for key, role in enumerate(ROLES))
        found.append(
            FastReadings(
                at=now,
                samples=read,
                late_s=draw.choice((0.0, 0.004)),
                lendable=8,
                threads_per_core=threads,
                cpus=8,
                yields=yields,
            )
        )
    return found


seeds = st.integers(0, 2**32)


def ticks() -> st.SearchStrategy[list[FastReadings]]:
    return st.one_of(seeds.map(hostile), seeds.map(calm))


tunings = st.builds(
    ReclaimTuning,
    watermark=st.sampled_from((0.5, 0.95, 1.3)),
    reserve_milli=st.sampled_from((0, 500)),
    dead_band_milli=st.sampled_from((0, 200)),
    dwell_s=st.sampled_from((0.0, 0.02, 1.0)),
    step_s=st.sampled_from((0.0, 0.25)),
    cut=st.sampled_from((0.0, 0.5, 1.0)),
    whole_core_from=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    paused=st.sampled_from(("", "", "", "paused until noon")),
)


@dataclass
class Step:
    """Hold one tick with the memory before it and its readings."""

    before: LoopMemory
    readings: FastReadings
    after: Tick
    tuning: ReclaimTuning


def steps(readings: list[FastReadings], tuning: ReclaimTuning) -> list[Step]:
    memory, found = LoopMemory(), []
    for one in readings:
        result = tick(memory, one, tuning, one.at)
        found.append(Step(memory, one, result, tuning))
        memory = result.memory
    return found


def lendable(step: Step) -> int:
    return max(1, step.readings.lendable)


def beyond(step: Step) -> int:
    """Return the cores that the reclaim pool may have beyond its headroom: the extra core."""
    return step.readings.threads_per_core if step.readings.yields else 0


@given(ticks(), tunings)
def test_the_box_lies_between_one_core_and_all_that_is_lendable(readings, tuning):
    for step in steps(readings, tuning):
        cpus = step.after.target.cpus
        assert floor_cpus(lendable(step), step.readings.threads_per_core) <= cpus <= lendable(step)


@given(ticks(), tunings)
def test_headroom_grows_by_a_step_at_most(readings, tuning):
    for step in steps(readings, tuning):
        grown = step.after.headroom.cpu_milli - step.before.lent.milli
        assert grown <= step_milli(lendable(step), tuning)


@given(ticks(), tunings)
def test_the_box_grows_by_a_step_of_whole_cores_at_most(readings, tuning):
    for step in steps(readings, tuning):
        threads = step.readings.threads_per_core
        most = step.before.lent.milli + step_milli(lendable(step), tuning)
        bound = whole_cpus(most, lendable(step), threads, tuning.whole_core_from)
        assert step.after.target.cpus <= max(step.before.lent.cpus, bound) + beyond(step)


@given(ticks(), tunings)
def test_headroom_never_exceeds_what_present_use_leaves(readings, tuning):
    for step in steps(readings, tuning):
        rates = step.after.memory.rates
        left = headroom_milli(lendable(step), rates.online + rates.system, tuning)
        assert 0 <= step.after.headroom.cpu_milli <= left


@given(ticks(), tunings)
def test_the_box_shrinks_at_once_to_whole_cores_of_the_headroom(readings, tuning):
    for step in steps(readings, tuning):
        threads, headroom = step.readings.threads_per_core, step.after.headroom.cpu_milli
        bound = whole_cpus(headroom, lendable(step), threads, tuning.whole_core_from)
        assert step.after.target.cpus <= bound + beyond(step)


@given(ticks(), tunings)
def test_without_a_new_rate_of_the_pods_nothing_grows(readings, tuning):
    for step in steps(readings, tuning):
        fresh = any(
            s.role is Role.PODS and s.usage_us is not None and step.after.memory.rates.rated_at == s.at
            for s in step.readings.samples
        )
        has_measured = step.before.rates.known_since != -inf
        if not fresh and has_measured:
            floor = floor_cpus(lendable(step), step.readings.threads_per_core)
            assert step.after.headroom.cpu_milli <= step.before.lent.milli
            assert step.after.target.cpus <= max(step.before.lent.box, floor)


@given(ticks(), tunings)
def test_a_tick_two_periods_late_grows_nothing(readings, tuning):
    for step in steps(readings, tuning):
        if step.readings.late_s >= 2 * step.before.period_s:
            assert (
                step.after.target.change is not Change.GROW
                or step.before.lent.box < step.readings.threads_per_core
            )
            assert step.after.headroom.cpu_milli <= step.before.lent.milli


@given(ticks(), tunings)
def test_after_the_bound_the_floor_is_lent(readings, tuning):
    for step in steps(readings, tuning):
        late = step.readings.late_s > tuning.stale_s
        stale = step.readings.at - step.after.memory.rates.oldest > tuning.stale_s
        if late or stale:
            assert step.after.headroom.cpu_milli == 0
            assert step.after.target.cpus == floor_cpus(lendable(step), step.readings.threads_per_core)


@given(ticks(), tunings)
def test_rates_are_never_negative(readings, tuning):
    for step in steps(readings, tuning):
        rates = step.after.memory.rates
        assert min(rates.online, rates.system, rates.peaks.peak) >= 0
        assert min(step.after.stall.blamed, step.after.stall.own) >= 0
        assert max(step.after.stall.blamed, step.after.stall.own) <= 1


@given(ticks(), tunings)
def test_the_same_readings_give_the_same_targets(readings, tuning):
    assert [s.after for s in steps(readings, tuning)] == [s.after for s in steps(readings, tuning)]


@given(ticks(), tunings)
def test_the_change_says_what_happened_to_the_box(readings, tuning):
    for step in steps(readings, tuning):
        before, after = step.before.lent.box, step.after.target.cpus
        expected = Change.KEEP if before == after else Change.GROW if 0 < before < after else Change.SUPPRESS
        assert step.after.target.change is expected


@given(ticks(), tunings)
def test_the_next_tick_is_within_configured_bounds(readings, tuning):
    for step in steps(readings, tuning):
        assert min(tuning.tick_s, CLOSER_S) <= step.after.next_s <= tuning.idle_tick_s


def test_these_ticks_do_try_growth_and_suppression():
    found = [
        s.after.target.change for seed in range(20) for s in steps(calm(seed), ReclaimTuning(dwell_s=0.1))
    ]
    assert {Change.GROW, Change.SUPPRESS, Change.KEEP} <= set(found)
    wild = {
        s.after.target.binding
        for seed in range(200)
        for s in steps(hostile(seed), ReclaimTuning(dwell_s=0.02))
    }
    assert len(wild) >= 8


@given(ticks(), tunings)
def test_whatever_is_passed_over_would_not_have_shrunk_the_box(readings, tuning):
    watcher = Watcher(tuning)
    for one in readings:
        before = watcher.decided(one)
        if watcher.take(one) is None:
            assert before.target.change is not Change.SUPPRESS


def test_some_of_these_readings_are_passed_over():
    tuning = ReclaimTuning(dwell_s=0.02, dead_band_milli=500)
    watchers = [Watcher(tuning) for _ in range(20)]
    for seed, watcher in enumerate(watchers):
        for one in calm(seed):
            watcher.take(one)
    assert any(watcher.passed for watcher in watchers)
