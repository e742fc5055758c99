"""pressure.taking_back: never more than is missing, never protected memory, and small steps unless it is urgent."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import MemoryLeft
from nri_coloc.pressure import taking_back
from nri_coloc.pressure.taking_back import LEAST, STEP, Need, Regime, Source

AMOUNTS = st.integers(0, 1 << 44)
PODS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(
        Source,
        held=AMOUNTS,
        cache=AMOUNTS,
        kept=st.integers(0, 1 << 62),
        stall=st.one_of(st.none(), st.floats(0, 1)),
    ),
    max_size=20,
)


@given(st.sampled_from(Regime), AMOUNTS, PODS, AMOUNTS)
def test_takes_are_bounded(regime: Regime, missing: int, pods: dict[str, Source], swap: int):
    found = taking_back.takes(Need("node", regime, missing), pods, swap)
    assert sum(one.amount for one in found) <= missing
    assert len({one.pod_id for one in found}) == len(found)
    for one in found:
        pod = pods[one.pod_id]
        assert 0 < one.amount <= pod.held - max(pod.kept, LEAST)


@given(AMOUNTS, PODS, AMOUNTS)
def test_a_cold_step_is_small(missing: int, pods: dict[str, Source], swap: int):
    for one in taking_back.takes(Need("node", Regime.COLD, missing), pods, swap):
        pod = pods[one.pod_id]
        assert pod.stall is not None
        assert one.amount <= pod.held * STEP
        assert one.amount <= (pod.cache if one.only_cache else swap)


@given(AMOUNTS, PODS, AMOUNTS)
def test_swap_is_not_promised_twice(missing: int, pods: dict[str, Source], swap: int):
    found = taking_back.takes(Need("node", Regime.URGENT, missing), pods, swap)
    assert sum(max(0, one.amount - pods[one.pod_id].cache) for one in found) <= swap


@given(st.sampled_from(Regime), st.lists(st.integers(-(1 << 40), 1 << 44), max_size=30))
def test_enough_memory_takes_nothing(regime: Regime, above: list[int]):
    known = Bounds(1 << 28, 1 << 29)
    for each in above:
        left = MemoryLeft(1 << 45, known.enough + each) if each >= 0 else None
        found = taking_back.need(regime, "node", left, known)
        assert (found.regime, found.missing) == (Regime.NONE, 0)
        regime = found.regime
