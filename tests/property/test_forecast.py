"""Invariants of the forecast for every history, supply and set of pods."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.lending import Capacity
from nri_coloc.core.settings import ForecastTuning, ReclaimTuning
from nri_coloc.forecast import expectations
from nri_coloc.forecast.capacity import Supply, capacity
from nri_coloc.forecast.estimators import ESTIMATORS
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.pods.replicas import OnlinePod

MILLI = st.integers(0, 64_000)
BYTES = st.integers(0, 1 << 38)
WORKLOADS = st.sampled_from(("a/x", "a/y", "b/z"))
USES = st.builds(Use, WORKLOADS, st.none() | MILLI, st.none() | BYTES)
PODS = st.dictionaries(
    st.sampled_from(("p", "q", "r")),
    st.builds(OnlinePod, WORKLOADS, MILLI, BYTES, st.none() | BYTES, st.booleans()),
)
GAPS = st.sampled_from((1.0, 61.0, 3600.0, 86_400.0, 9e9, -5.0, -9e9))
EVENTS = st.lists(
    st.tuples(GAPS, st.dictionaries(st.sampled_from(("p", "q", SYSTEM)), USES)), min_size=1, max_size=12
)
SUPPLIES = st.builds(
    Supply,
    MILLI,
    BYTES,
    st.integers(0, 1 << 28),
    st.none() | BYTES,
    st.none() | MILLI,
    st.none() | MILLI,
    st.integers(0, 2),
)
TUNINGS = st.builds(
    ReclaimTuning,
    percentile=st.floats(0.0, 1.0),
    cold_start_s=st.sampled_from((0.0, 600.0)),
    forecast=st.builds(
        ForecastTuning, estimator=st.sampled_from(sorted(ESTIMATORS)), workloads=st.sampled_from((1, 2, 256))
    ),
)


def lived(events: list[tuple[float, dict[str, Use]]], tuning: ReclaimTuning) -> tuple[Forecast, float]:
    seen, now_s = Forecast(), 1.7e9
    for gap_s, uses in events:
        now_s += gap_s
        seen = expectations.observe(seen, uses, now_s, tuning)
        assert len(seen.histories) <= tuning.forecast.workloads
    return seen, now_s


@given(EVENTS, PODS, SUPPLIES, TUNINGS, GAPS)
def test_an_offer_is_never_negative_nor_more_than_there_is(events, pods, supply, tuning, later):
    seen, now_s = lived(events, tuning)
    offered = capacity(seen, pods, supply, now_s + later, tuning, previous=Capacity(1 << 40, 1 << 50))
    assert 0 <= offered.cpu_milli <= supply.cpu_milli
    if supply.most_milli is not None:
        assert offered.cpu_milli <= supply.most_milli
    assert 0 <= offered.memory_bytes <= supply.memory_bytes
    if supply.kubepods_limit is not None and not supply.host_groups:
        assert offered.memory_bytes <= supply.kubepods_limit


@given(EVENTS, PODS, SUPPLIES, TUNINGS)
def test_one_more_online_pod_never_raises_the_offer(events, pods, supply, tuning):
    seen, now_s = lived(events, tuning)
    one_more = {**pods, "s": OnlinePod("a/x", 500, 1 << 30)}
    fewer, more = (
        capacity(seen, them, supply, now_s, tuning, previous=Capacity()) for them in (pods, one_more)
    )
    assert more.cpu_milli <= fewer.cpu_milli
    assert more.memory_bytes <= fewer.memory_bytes


@given(EVENTS, PODS, SUPPLIES, TUNINGS, st.builds(Capacity, MILLI, BYTES))
def test_without_readings_nobody_is_bolder_than_before(events, pods, supply, tuning, before):
    seen, now_s = lived(events, tuning)
    offered = capacity(seen, pods, supply, now_s + 3600.0, tuning, previous=before)
    assert offered.cpu_milli <= before.cpu_milli
    assert offered.memory_bytes <= before.memory_bytes


@given(EVENTS, PODS, SUPPLIES, TUNINGS, st.tuples(MILLI, BYTES, MILLI, BYTES))
def test_without_readings_who_runs_is_told_of_no_more_either(events, pods, supply, tuning, before):
    seen, now_s = lived(events, tuning)
    milli, memory, more, much = before
    previous = Capacity(milli, memory, borne_milli=milli + more, borne_bytes=memory + much)
    found = capacity(seen, pods, supply, now_s + 3600.0, tuning, previous=previous).borne
    assert all(now <= then for now, then in zip(found, previous.borne, strict=True))


@given(EVENTS, PODS, TUNINGS)
def test_expected_use_lies_between_use_and_limit(events, pods, tuning):
    seen, now_s = lived(events, tuning)
    found = expectations.expect(seen, pods, now_s, tuning)
    for pod_id, pod in pods.items():
        use = seen.latest.get(pod_id, Use(""))
        assert pod.own_cpus or found.cpu_milli[pod_id] >= (use.cpu_milli or 0)
        held = use.memory_bytes or 0
        most = pod.memory_limit if pod.memory_limit is not None else 1 << 60
        assert held <= found.memory_bytes[pod_id] <= max(held, most)


@given(EVENTS, PODS, SUPPLIES, TUNINGS, GAPS)
def test_without_guesses_nobody_is_expected_to_use_more(events, pods, supply, tuning, later):
    seen, now_s = lived(events, tuning)
    known = expectations.expect(seen, pods, now_s, tuning)
    measured = expectations.shown(seen, pods, known, now_s, tuning)
    assert measured.cpu_milli.keys() == known.cpu_milli.keys()
    assert all(measured.cpu_milli[key] <= amount for key, amount in known.cpu_milli.items())
    assert all(measured.memory_bytes[key] <= amount for key, amount in known.memory_bytes.items())
    offered = capacity(seen, pods, supply, now_s + later, tuning, previous=Capacity(1 << 40, 1 << 50))
    milli, memory = offered.borne
    assert offered.cpu_milli <= milli <= supply.cpu_milli
    assert offered.memory_bytes <= memory <= supply.memory_bytes
