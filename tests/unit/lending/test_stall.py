"""A stall is blamed on the reclaim pool only if the reclaim pool can cause it."""

import pytest

from nri_coloc.core.readings import FastReadings, Role, Sample, Signal
from nri_coloc.lending import usage
from nri_coloc.lending.usage import Cause, Gauge, Stall, explained

AT = 10.0
SOON = 1e-9
"""With so short a window the average is the newest value."""


def seen(*samples: Sample, box_milli: int = 4000, window_s: float = SOON) -> dict[int, Gauge]:
    gauges: dict[int, Gauge] = {}
    for sample in samples:
        gauges, _ = usage.advance_gauges(
            gauges, FastReadings(sample.at, (sample,)), Cause(box_milli), (window_s, window_s)
        )
    return gauges


def group(at: float, stalled: int | None, throttled: int | None = 0, *, shares_box: bool = True) -> Sample:
    return Sample(
        key=1,
        role=Role.ONLINE,
        at=at,
        usage_us=0,
        stalled_us=stalled,
        throttled_us=throttled,
        shares_box=shares_box,
    )


def judged(
    first: Sample, *second: Sample, box_milli: int = 4000, own: float = 0.0, window_s: float = SOON
) -> Stall:
    """Return the stall after the second reading, with all its samples."""
    gauges = seen(first)
    gauges, found = usage.advance_gauges(
        gauges, FastReadings(first.at + 1, second), Cause(box_milli, own), (window_s, window_s)
    )
    assert found.lasting == found.blamed
    return Stall(round(found.blamed, 6), round(found.own, 6))


START = group(AT, 1_000_000)


def test_waiting_while_the_box_runs_is_blamed_on_it():
    assert judged(START, group(AT + 1, 1_300_000)) == Stall(0.3, 0)


def test_a_groups_own_throttling_is_its_own():
    assert judged(START, group(AT + 1, 1_800_000, 700_000)) == Stall(0.1, 0.7)


def test_more_throttling_than_waiting_is_no_stall():
    assert judged(START, group(AT + 1, 1_200_000, 900_000)) == Stall(0, 0.2)


def test_where_reclaimed_tasks_may_not_run_waiting_is_self_inflicted():
    assert judged(START, group(AT + 1, 1_500_000, shares_box=False)) == Stall(0, 0.5)


def test_no_more_is_blamed_than_the_box_ran():
    assert judged(START, group(AT + 1, 1_500_000), box_milli=200) == Stall(0.2, 0.3)


def test_what_the_online_load_explains_is_nobodys_fault():
    assert judged(START, group(AT + 1, 1_500_000), own=0.2) == Stall(0.3, 0.2)
    assert judged(START, group(AT + 1, 1_500_000), own=0.6) == Stall(0, 0.5)


@pytest.mark.parametrize(
    ("use_milli", "cpus", "share"),
    [
        (0, 2, 0),
        (260, 2, 0.008),
        (660, 2, 0.099),
        (800, 2, 0.177),
        (3_000, 64, 0),
        (50_000, 64, 0.27),
        (1_900, 2, 1),
        (2_000, 2, 1),
    ],
)
def test_fewer_cpus_left_mean_more_waiting(use_milli, cpus, share):
    assert explained(use_milli, cpus) == pytest.approx(share, abs=0.01)


def test_a_node_without_a_lendable_cpu_explains_all_waiting():
    assert explained(1_500, 0) == 1


def test_many_tasks_delay_is_at_most_all_time():
    assert judged(START, group(AT + 1, 9_000_000)) == Stall(1, 0)


def by_tasks(sample: Sample) -> Sample:
    return sample._replace(signal=Signal.RUN_DELAY)


def test_run_queue_delay_is_judged_as_pressure_is_and_named():
    found = judged(by_tasks(START), by_tasks(group(AT + 1, 1_800_000, 500_000)), own=0.1)
    assert found == Stall(0.2, 0.6)
    _, found = usage.advance_gauges(
        seen(by_tasks(START)),
        FastReadings(AT + 1, (by_tasks(group(AT + 1, 1_800_000)),)),
        Cause(4000),
        (SOON, SOON),
    )
    assert found.signal is Signal.RUN_DELAY


@pytest.mark.parametrize("second", [group(AT + 1, 1_900_000), group(AT + 1, 5)])
def test_counters_of_two_signals_are_not_compared(second):
    known = seen(by_tasks(START), second)
    assert known == seen(second)


def test_the_signal_is_that_of_the_worst_group():
    known = seen(
        START, by_tasks(Sample(key=2, role=Role.ONLINE, at=AT, usage_us=0, stalled_us=0, throttled_us=0))
    )
    both = (
        group(AT + 1, 1_300_000),
        by_tasks(Sample(key=2, role=Role.ONLINE, at=AT + 1, usage_us=0, stalled_us=600_000, throttled_us=0)),
    )
    for samples, signal in ((both, Signal.RUN_DELAY), (both[::-1], Signal.RUN_DELAY), (both[:1], Signal.PSI)):
        _, found = usage.advance_gauges(known, FastReadings(AT + 1, samples), Cause(4000), (SOON, SOON))
        assert found.signal is signal


def test_the_first_sample_says_nothing():
    assert judged(START) == Stall()


@pytest.mark.parametrize(
    "second",
    [
        group(AT + 1, 999_999),
        group(AT - 1, 1_900_000),
        group(AT + 11, 1_900_000),
        group(AT + 1, 1_900_000, -1),
    ],
    ids=["counter went back", "clock went back", "clock jumped", "throttling went back"],
)
def test_a_doubtful_interval_says_nothing(second):
    assert judged(START, second) == Stall()


def test_a_doubtful_interval_does_not_wipe_out_what_was_seen():
    known = seen(START, group(AT + 1, 1_300_000))
    after, _ = usage.advance_gauges(
        known, FastReadings(AT + 2, (group(AT + 2, 5),)), Cause(4000), (SOON, SOON)
    )
    assert (after[1].blamed, after[1].stalled_us) == (known[1].blamed, 5)


def test_a_sample_too_soon_waits_for_the_next():
    assert seen(START, group(AT + 0.001, 9_000_000)) == seen(START)


def test_throttling_that_cannot_be_read_excuses_nothing():
    assert judged(group(AT, 0, None), group(AT + 1, 400_000, 300_000)) == Stall(0.4, 0)
    assert judged(group(AT, 0, 0), group(AT + 1, 400_000, None)) == Stall(0.4, 0)


def test_short_waiting_is_averaged_over_the_window():
    assert judged(START, group(AT + 0.02, 1_010_000), window_s=0.06) == Stall(0.125, 0)


def test_a_stall_fades_when_waiting_ends():
    waited = START, group(AT + 1, 1_300_000), group(AT + 2, 1_300_000)
    assert [round(seen(*waited[:n], window_s=1.0)[1].blamed, 3) for n in (2, 3)] == [0.15, 0.075]


def test_the_worst_group_counts():
    known = seen(START, Sample(key=2, role=Role.ONLINE, at=AT, usage_us=0, stalled_us=0, throttled_us=0))
    both = (
        Sample(key=2, role=Role.ONLINE, at=AT + 1, usage_us=0, stalled_us=600_000, throttled_us=0),
        group(AT + 1, 1_800_000, 700_000),
    )
    _, found = usage.advance_gauges(known, FastReadings(AT + 1, both), Cause(4000), (SOON, SOON))
    assert (round(found.blamed, 3), round(found.own, 3)) == (0.6, 0.7)


def test_only_online_groups_can_stall():
    assert seen(Sample(key=1, role=Role.BOX, at=AT, usage_us=0, stalled_us=5, throttled_us=0)) == {}


def test_a_group_that_is_gone_drops_out():
    assert seen(START, group(AT + 1, None)) == {}


def test_a_group_that_was_not_read_waits_for_its_turn():
    known = seen(START, group(AT + 1, 1_300_000))
    assert usage.advance_gauges(known, FastReadings(AT + 1.02), Cause(4000), (SOON, SOON)) == (known, Stall())


def test_a_group_not_read_for_very_long_is_forgotten():
    assert set(
        seen(START, Sample(key=2, role=Role.ONLINE, at=AT + 10.5, usage_us=0, stalled_us=0, throttled_us=0))
    ) == {2}


def test_a_cut_wipes_the_slate_of_what_was_blamed():
    known = usage.forgiven(seen(START, group(AT + 1, 1_800_000, 700_000)))
    assert (known[1].blamed, round(known[1].own, 3)) == (0, 0.7)
