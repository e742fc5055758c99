"""Plans of quotas and bursts reach their end on a kernel that refuses what the real one refuses."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.knobs import burst_of
from nri_coloc.host.bandwidth import POD, Bandwidth, of_pod, writes

QUOTAS = st.sampled_from((-1, 1000, 50_000, 100_000, 300_000))
PERCENTS = st.none() | st.integers(0, 100)


def height(quota: int) -> float:
    return float("inf") if quota == -1 else quota


def borne(everything: dict[str, Bandwidth]) -> bool:
    """Return whether the kernel accepts these values.

    No burst is above its quota, and (v1) no child's quota above its pod's. A child without a quota takes its pod's.
    """
    pod = everything.get(POD, Bandwidth())
    return all(
        0 <= each.burst <= height(each.quota) and (each.quota == -1 or each.quota <= height(pod.quota))
        for each in everything.values()
    )


@st.composite
def pods(draw: st.DrawFn, quotas: st.SearchStrategy[int] = QUOTAS) -> dict[str, Bandwidth]:
    """Draw a pod that the kernel accepts, as a kubelet would make one."""
    inner = {
        name: Bandwidth(quota, burst_of(quota, draw(PERCENTS)) or 0)
        for name, quota in draw(st.dictionaries(st.sampled_from("abc"), quotas, min_size=1)).items()
    }
    most = max(1000, *(each.quota for each in inner.values())) + draw(st.integers(0, 1_000_000))
    return {**inner, POD: of_pod(draw(st.sampled_from((most, -1))), inner)}


@given(pods(), pods())
def test_every_single_write_is_taken_and_the_last_one_completes(before, after):
    now = {name: each for name, each in before.items() if name in after}
    for write in writes(before, after):
        had = now.get(write.target, Bandwidth())
        now[write.target] = had._replace(**{write.knob: write.value})
        assert borne(now), write
    assert {name: now.get(name, Bandwidth()) for name in after} == after


@given(pods(), pods())
def test_done_twice_there_is_nothing_left_to_write(before, after):
    assert writes({**before, **after}, after) == ()
    assert len(writes(before, after)) <= 2 * len(after)
