"""Histories learn the use of workloads, and give expectations."""

import math
from dataclasses import replace

import pytest

from nri_coloc.core.settings import ForecastTuning, ReclaimTuning
from nri_coloc.forecast import expectations
from nri_coloc.forecast.expectations import Expectation, Forecast
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.kit import GIB

NOON = 20_000 * 86_400.0 + 43_200.0
TUNING = ReclaimTuning(margin=0.0)
WEB = OnlinePod("shop/web", cpu_milli=500, memory_bytes=GIB)


def watched(
    milli: int, minutes: int = 30, pod: str = "a", start: Forecast | None = None, at: float = NOON
) -> Forecast:
    """Return a forecast that has seen one pod of shop/web for `minutes` minutes."""
    seen = start or Forecast()
    for step in range(minutes + 1):
        seen = expectations.observe(seen, {pod: Use("shop/web", milli, 2 * GIB)}, at + 60.0 * step, TUNING)
    return seen


def expected(
    seen: Forecast, now_s: float = NOON + 1800.0, tuning: ReclaimTuning = TUNING, **pods: OnlinePod
) -> Expectation:
    return expectations.expect(seen, pods or {"a": WEB}, now_s, tuning)


def near(amount: int, wanted: int) -> bool:
    """Return whether an answer is the wanted amount, or up to one bucket above it."""
    return wanted <= amount <= wanted * 1.05 + 26


# --- feeding ---------------------------------------------------------------------------------------------


def test_within_an_interval_only_the_peak_counts():
    seen = expectations.observe(Forecast(), {"a": Use("w", 100, 5)}, NOON, TUNING)
    seen = expectations.observe(seen, {"a": Use("w", 900, None)}, NOON + 20, TUNING)
    seen = expectations.observe(seen, {"a": Use("w", None, 3)}, NOON + 40, TUNING)
    assert (seen.peaks["a"], seen.histories) == (Use("w", 900, 5), {})
    seen = expectations.observe(seen, {"a": Use("w", 200, 4)}, NOON + 60, TUNING)
    history = seen.histories["w"]
    assert (seen.peaks, history.cpu.uses.total, history.memory.uses.total) == ({}, 1.0, 1.0)
    assert max(history.cpu.hours.peaks) == 900


def test_what_could_not_be_read_is_no_sample():
    seen = expectations.observe(Forecast(), {"a": Use("w")}, NOON, TUNING)
    seen = expectations.observe(seen, {"a": Use("w")}, NOON + 60, TUNING)
    history = seen.histories["w"]
    assert (history.cpu.uses.total, history.memory.uses.total, history.last_s) == (0.0, 0.0, NOON + 60)


def test_no_uses_at_all_change_nothing():
    seen = watched(700)
    assert expectations.observe(seen, {}, NOON + 9e9, TUNING) is seen


def test_clock_set_back_ends_the_interval():
    seen = expectations.observe(watched(700), {"a": Use("shop/web", 10, 1)}, NOON - 7200.0, TUNING)
    assert (seen.since_s, seen.peaks) == (NOON - 7200.0, {})
    assert seen.histories["shop/web"].last_s == NOON - 7200.0


def test_ten_pods_give_ten_samples_and_one_aging():
    pods = {f"p{n}": Use("w", 100, 1) for n in range(10)}
    seen = expectations.observe(Forecast(), pods, NOON, TUNING)
    seen = expectations.observe(seen, pods, NOON + 60, TUNING)
    seen = expectations.observe(seen, pods, NOON + 120, TUNING)
    history = seen.histories["w"]
    assert (round(history.cpu.uses.total), history.seen_s) == (20, 60.0)


def test_gap_in_the_readings_counts_as_no_time():
    seen = watched(700, minutes=1)
    seen = watched(700, minutes=1, start=seen, at=NOON + 86_400.0)
    assert seen.histories["shop/web"].seen_s <= 4 * TUNING.forecast.sample_s


def test_history_unused_for_a_week_is_dropped():
    seen = expectations.observe(watched(700), {"b": Use("other", 1, 1)}, NOON + 9 * 86_400.0, TUNING)
    assert set(seen.histories) == {"other"}


def test_of_too_many_histories_the_longest_unseen_leave():
    few = replace(TUNING, forecast=ForecastTuning(workloads=2))
    seen = Forecast()
    for step, name in enumerate("abcdd"):
        seen = expectations.observe(seen, {name: Use(name, 1, 1)}, NOON + 61.0 * step, few)
    assert set(seen.histories) == {"c", "d"}


# --- reading ---------------------------------------------------------------------------------------------


def test_known_workload_is_expected_at_its_percentile():
    found = expected(watched(700))
    assert near(found.cpu_milli["a"], 700)
    assert found.learning == (SYSTEM,)


def test_a_margin_is_added_to_what_was_measured():
    seen = watched(700)
    assert expected(seen, tuning=replace(TUNING, margin=0.5)).cpu_milli["a"] == pytest.approx(
        expected(seen).cpu_milli["a"] * 1.5, abs=1
    )


def test_restarted_pod_keeps_its_workloads_history():
    found = expected(watched(700), b=WEB)
    assert near(found.cpu_milli["b"], 700)
    assert "b" not in found.learning


def test_each_pod_of_a_workload_may_peak():
    found = expected(watched(700), a=WEB, b=WEB)
    assert found.cpu_milli["a"] == found.cpu_milli["b"]


def test_expected_use_is_at_least_the_present():
    seen = expectations.observe(watched(700), {"a": Use("shop/web", 5000, 9 * GIB)}, NOON + 1801.0, TUNING)
    found = expected(seen)
    assert (found.cpu_milli["a"], found.memory_bytes["a"]) == (5000, 9 * GIB)


@pytest.mark.parametrize(
    ("story", "request_milli", "used", "amount"),
    [
        ("the request, if it uses less", 500, 100, 500),
        ("the peak so far, if that is more", 500, 5000, 5000),
        ("the peak so far, without a request", 0, 5000, 5000),
    ],
)
def test_workload_in_learning_is_expected_at(story, request_milli, used, amount):
    found = expected(watched(used, minutes=5), NOON + 300.0, a=WEB._replace(cpu_milli=request_milli))
    assert near(found.cpu_milli["a"], amount)
    assert set(found.learning) == {"a", SYSTEM}


def test_unknown_pod_is_expected_at_its_request():
    found = expected(Forecast(), a=WEB)
    assert (found.cpu_milli, found.memory_bytes) == ({"a": 500, SYSTEM: 0}, {"a": GIB, SYSTEM: 0})


def test_dedicated_pod_is_expected_to_use_memory_only():
    found = expected(watched(700), a=WEB._replace(own_cpus=True))
    assert set(found.cpu_milli) == {SYSTEM}
    assert near(found.memory_bytes["a"], 2 * GIB)


def test_requested_memory_counts_by_the_tuned_part():
    big = WEB._replace(memory_bytes=64 * GIB)
    half = replace(TUNING, memory_request_claim=0.5)
    assert expected(watched(700), a=big).memory_bytes["a"] == 64 * GIB
    assert expected(watched(700), tuning=half, a=big).memory_bytes["a"] == 32 * GIB


def test_expected_memory_stays_within_the_limit():
    assert expected(watched(700), b=WEB._replace(memory_limit=GIB)).memory_bytes["b"] == GIB


@pytest.mark.parametrize("minutes", [30, 5], ids=["known", "still being learnt"])
def test_memory_held_above_the_limit_is_expected(minutes):
    """A VM may: its hypervisor is in no container's limit."""
    seen, limited = watched(700, minutes), WEB._replace(memory_limit=GIB)
    assert expected(seen, a=limited).memory_bytes["a"] == 2 * GIB
    assert shown(seen, a=limited).memory_bytes["a"] == 2 * GIB


def test_the_estimator_is_the_tuned_one():
    seen = watched(700, minutes=60, start=watched(50, minutes=600, at=NOON - 90_000.0))
    by_peak = replace(TUNING, percentile=0.5, forecast=ForecastTuning(estimator="peak"))
    low = replace(TUNING, percentile=0.5)
    calm = {"b": WEB}
    assert near(expectations.expect(seen, calm, NOON + 3600.0, low).cpu_milli["b"], 50)
    assert near(expectations.expect(seen, calm, NOON + 3600.0, by_peak).cpu_milli["b"], 700)


def test_when_readings_fail_the_same_hour_yesterday_counts():
    yesterday = watched(3000, minutes=30, at=NOON - 86_400.0)
    seen = watched(10, minutes=600, start=yesterday, at=NOON - 43_200.0)
    found = expected(seen, NOON + 60.0, b=WEB)
    assert found.cpu_milli["b"] == 3000


def test_without_yesterday_the_peak_or_request_counts():
    found = expected(watched(700), NOON + 3 * 86_400.0)
    assert near(found.cpu_milli["a"], 700)


def test_only_the_unread_resource_uses_yesterday():
    yesterday = watched(3000, minutes=30, at=NOON - 86_400.0)
    seen = watched(10, minutes=600, start=yesterday, at=NOON - 43_200.0)
    for minute in range(4):
        seen = expectations.observe(seen, {"b": Use("shop/web", None, GIB)}, NOON + 60.0 * minute, TUNING)
    by_least = replace(TUNING, forecast=ForecastTuning(memory_percentile=0.0))
    found = expected(seen, NOON + 180.0, by_least, c=WEB._replace(memory_bytes=0))
    assert found.cpu_milli["c"] == 3000
    assert near(found.memory_bytes["c"], GIB)


@pytest.mark.parametrize(
    ("unread", "amounts"),
    [(Use("shop/web", None, GIB), (700, GIB)), (Use("shop/web", 50, None), (50, 2 * GIB))],
    ids=["CPU", "memory"],
)
def test_last_use_counts_until_the_next_reading(unread, amounts):
    seen = expectations.observe(watched(700), {"a": unread}, NOON + 1801.0, TUNING)
    assert seen.latest["a"] == Use("shop/web", *amounts)


def test_blind_before_the_first_reading():
    assert expectations.blind_for(Forecast(), NOON, TUNING) == (math.inf, math.inf)


@pytest.mark.parametrize(("gap_s", "blind_s"), [(0.0, 0.0), (120.0, 0.0), (121.0, 121.0), (-121.0, 121.0)])
def test_two_missed_samples_are_failing_readings(gap_s, blind_s):
    seen = expectations.observe(Forecast(), {"a": Use("w", 1, 1)}, NOON, TUNING)
    assert expectations.blind_for(seen, NOON + gap_s, TUNING) == (blind_s, blind_s)


@pytest.mark.parametrize(
    ("uses", "blind"),
    [
        ({"a": Use("w", 1, None)}, (0.0, math.inf)),
        ({"a": Use("w", None, 1)}, (math.inf, 0.0)),
        ({"a": Use("w", 1, 1), SYSTEM: Use(SYSTEM, None, 1)}, (math.inf, 0.0)),
        ({"a": Use("w", 1, 1), SYSTEM: Use(SYSTEM, 1, None)}, (0.0, math.inf)),
        ({"a": Use("w"), SYSTEM: Use(SYSTEM, 1, 1)}, (0.0, 0.0)),
    ],
    ids=["CPU alone", "memory alone", "the system's CPU not", "its memory not", "a pod that has just come"],
)
def test_resource_is_read_with_the_systems_part(uses, blind):
    assert expectations.blind_for(expectations.observe(Forecast(), uses, NOON, TUNING), NOON, TUNING) == blind


# --- without guesses -------------------------------------------------------------------------------------


def shown(seen: Forecast, tuning: ReclaimTuning = TUNING, **pods: OnlinePod) -> Expectation:
    now_s = NOON + 300.0
    return expectations.shown(seen, pods, expectations.expect(seen, pods, now_s, tuning), now_s, tuning)


def test_learnt_workload_has_shown_its_use():
    found = shown(watched(100, minutes=5), a=WEB._replace(cpu_milli=7000))
    assert near(found.cpu_milli["a"], 100)
    assert found.learning == ()


def test_peak_of_use_is_shown():
    seen = watched(100, minutes=3, start=watched(4000, minutes=1), at=NOON + 120.0)
    assert near(shown(seen, a=WEB).cpu_milli["a"], 4000)


def test_unknown_workload_has_shown_only_promised_memory():
    found = shown(Forecast(), a=WEB)
    assert (found.cpu_milli, found.memory_bytes) == ({"a": 0, SYSTEM: 0}, {"a": GIB, SYSTEM: 0})


def test_memory_without_a_promise_is_shown():
    unpromised = replace(TUNING, memory_request_claim=0.0)
    found = shown(watched(100, minutes=5), unpromised, a=WEB._replace(memory_bytes=64 * GIB))
    assert near(found.memory_bytes["a"], 2 * GIB)


def test_requests_as_the_estimate_are_no_guess():
    by_request = replace(TUNING, forecast=ForecastTuning(estimator="request"))
    assert shown(watched(100, minutes=5), by_request, a=WEB).cpu_milli["a"] == 500


def test_a_known_workload_is_expected_as_before():
    seen = watched(700)
    own = OnlinePod("shop/db", cpu_milli=500, memory_bytes=GIB, own_cpus=True)
    found, known = shown(seen, a=WEB, b=own), expected(seen, NOON + 300.0, a=WEB, b=own)
    assert found.cpu_milli["a"] == known.cpu_milli["a"]
    assert set(found.cpu_milli) == {"a", SYSTEM}
