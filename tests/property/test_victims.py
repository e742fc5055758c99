"""pressure.victims and eviction: never more pods than a shortage needs, and never one for nothing."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import memory_margin
from nri_coloc.core.readings import MemoryLeft
from nri_coloc.core.reasons import Reason
from nri_coloc.core.workload import KubeQoS
from nri_coloc.pressure import shortage
from nri_coloc.pressure.eviction import MOST, NO_PACE, PACE_S, Demand, Given, ordered, victims
from nri_coloc.pressure.shortage import NO_COURSE
from nri_coloc.pressure.verdict import Resource
from nri_coloc.pressure.victims import Candidate, choose

AMOUNTS = st.one_of(st.just(0.0), st.integers(0, 1 << 50).map(float))
CANDIDATES = st.builds(
    Candidate,
    use=AMOUNTS,
    lent=AMOUNTS,
    kube_priority=st.integers(-10, 10),
    priority=st.integers(-(2**31), 2**31),
    kube_qos=st.sampled_from(KubeQoS),
    arrival=st.integers(0, 500),
)
PODS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), CANDIDATES, max_size=20)


@given(AMOUNTS, PODS)
def test_every_victim_is_needed(amount: float, pods: dict[str, Candidate]):
    chosen = choose(amount, pods, most=len(pods))
    freed = sum(pods[one].use for one in chosen)
    assert all(freed - pods[one].use < amount for one in chosen)
    assert all(pods[one].use > 0 for one in chosen)


@given(AMOUNTS, PODS)
def test_a_shortage_that_pods_can_end_ends(amount: float, pods: dict[str, Candidate]):
    chosen = choose(amount, pods, most=len(pods))
    enough = min(amount, sum(one.use for one in pods.values()))
    assert sum(pods[one].use for one in chosen) >= enough


@given(AMOUNTS, PODS, st.integers(-(2**31), 2**31))
def test_no_priority_sends_another_tenants_pod(amount: float, pods: dict[str, Candidate], priority: int):
    """A pod with another priority than its tenant's others changes the victims of its own tenant alone."""
    theirs = {k: one._replace(namespace="b") for k, one in pods.items()}
    ours = {f"{k}-ours": one._replace(namespace="a", priority=0) for k, one in pods.items()}
    raised = {
        k: one._replace(priority=priority if number % 2 else 0)
        for number, (k, one) in enumerate(ours.items())
    }
    before = choose(amount, {**ours, **theirs}, most=len(pods) * 2)
    after = choose(amount, {**raised, **theirs}, most=len(pods) * 2)
    assert {k for k in after if k in theirs} == {k for k in before if k in theirs}


@given(PODS, st.integers(-3, 30))
def test_no_shortage_no_victim(pods: dict[str, Candidate], most: int):
    assert choose(0.0, pods, most) == ()
    assert choose(float("nan"), pods, most) == ()


@given(st.integers(0, 1 << 44), st.floats(0.01, 1), st.lists(st.integers(-(1 << 40), 1 << 44), max_size=30))
def test_unknown_or_ample_memory_is_no_shortage(total: int, watermark: float, above: list[int]):
    known = memory_margin.of_node(total, watermark)
    course = NO_COURSE
    for each in above:
        left = None if each < 0 else MemoryLeft(total, known.least + each)
        course = shortage.followed(course, left, known, 1)
        assert shortage.missing(course, known) == 0


@given(st.lists(st.tuples(AMOUNTS, PODS), max_size=40), st.integers(1, 30))
def test_the_pace_bounds_evictions(turns: list[tuple[float, dict[str, Candidate]]], step_s: int):
    pace, orders = NO_PACE, list[float]()
    for number, (amount, pods) in enumerate(turns):
        now = float(number * step_s)
        need = Demand(
            resource=Resource.MEMORY,
            reason=Reason.MEMORY_STALL,
            scope="node",
            amount=amount,
            pods=pods,
            most=MOST,
            because="",
        )
        found = victims([need], leaving=(), spared=(), pace=pace, now_s=now)
        for one in found:
            pace = ordered(pace, Given(one.pod_id, now))
        orders += [now] * len(found)
        assert sum(now - at < PACE_S for at in orders) <= MOST
