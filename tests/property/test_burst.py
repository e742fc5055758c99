"""Invariants of raised quotas on any node, for any length of time."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import BurstTuning
from nri_coloc.tuning.quota_burst import NO_BURST, NodeState, Throttled, quota_burst

CONTAINERS = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(
        Throttled,
        st.integers(1000, 6_400_000),
        st.sampled_from((10_000, 100_000)),
        st.none() | st.integers(0, 64_000),
        st.none() | st.floats(0.0, 1.0),
    ),
)
TICKS = st.lists(
    st.tuples(CONTAINERS, st.sampled_from(NodeState), st.integers(-1000, 64_000), st.floats(-10.0, 100.0)),
    min_size=1,
    max_size=6,
)
TUNINGS = st.builds(
    BurstTuning, quota_percent=st.sampled_from((50, 100, 150, 300)), seconds=st.sampled_from((0.0, 60.0))
)


@given(TICKS, TUNINGS)
def test_raises_together_never_exceed_the_headroom_of_the_moment(ticks, tuning):
    burst, now_s = NO_BURST, 0.0
    for containers, state, headroom_milli, gap_s in ticks:
        now_s += gap_s
        burst, quotas = quota_burst(burst, containers, state, headroom_milli, now_s, tuning)
        could_use_more = 0.0
        for key, each in containers.items():
            own, raised = (quota * 1000 / each.period for quota in (each.quota, quotas[key]))
            could_use_more += max(0.0, raised - max(own, each.used_milli or 0))
        assert could_use_more <= max(0, headroom_milli)


@given(TICKS, TUNINGS)
def test_no_quota_is_below_its_own_or_above_the_tuned_most(ticks, tuning):
    burst, now_s = NO_BURST, 0.0
    for containers, state, headroom_milli, gap_s in ticks:
        now_s += gap_s
        burst, quotas = quota_burst(burst, containers, state, headroom_milli, now_s, tuning)
        assert quotas.keys() == containers.keys()
        for key, each in containers.items():
            assert each.quota <= quotas[key] <= each.quota * max(100, tuning.quota_percent) / 100
        assert burst.raises.keys() <= containers.keys()
        assert all(0.0 <= each.saved_s <= tuning.seconds for each in burst.raises.values())


@given(CONTAINERS, TICKS)
def test_an_overloaded_node_has_no_raise_left_after_a_few_ticks(containers, ticks):
    tuning = BurstTuning(quota_percent=300)
    burst, now_s = NO_BURST, 0.0
    for them, state, headroom_milli, _ in ticks:
        burst, _ = quota_burst(burst, them, state, headroom_milli, now_s, tuning)
    for _ in range(6):
        burst, quotas = quota_burst(burst, containers, NodeState.OVERLOAD, 1 << 20, now_s, tuning)
    assert quotas == {key: each.quota for key, each in containers.items()}
