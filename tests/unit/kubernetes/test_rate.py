"""Evictions have a rate for the cluster, and a smaller one for each node."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.kubernetes import rate
from nri_coloc.kubernetes.rate import CLUSTER, NODE, Rates


def take(count: int, rates: Rates = Rates(), node: str = "n1", now_s: float = 100.0) -> Rates:  # noqa: B008 - a value
    for _ in range(count):
        rates = rate.take(rates, node, now_s).rates
    return rates


def full_cluster() -> Rates:
    rates = Rates()
    for number in range(CLUSTER.burst):
        rates = take(1, rates, f"n{number // NODE.burst}")
    return rates


def test_a_node_may_evict_its_burst_at_once():
    assert rate.take(take(NODE.burst - 1), "n1", 100.0).wait_s == 0


def test_one_more_must_wait():
    found = rate.take(take(NODE.burst), "n1", 100.0)
    assert (found.wait_s, found.whose) == (NODE.every_s, "node")


def test_a_refused_eviction_costs_nothing():
    rates = take(NODE.burst)
    assert rate.take(rates, "n1", 100.0).rates is rates


def test_the_wait_is_long_enough():
    assert rate.take(take(NODE.burst), "n1", 100.0 + NODE.every_s).whose == ""


def test_another_node_has_its_own_rate():
    assert rate.take(take(NODE.burst), "n2", 100.0).whose == ""


def test_many_nodes_share_the_clusters_rate():
    found = rate.take(full_cluster(), "another", 100.0)
    assert (found.wait_s, found.whose) == (CLUSTER.every_s, "cluster")


def test_a_node_without_evictions_is_forgotten():
    rates = take(1, full_cluster(), "n1", now_s=100.0 + CLUSTER.burst * NODE.every_s)
    assert list(rates.nodes) == ["n1"]


def test_a_clock_that_went_back_grants_nothing():
    assert rate.take(take(NODE.burst), "n1", 0.0).whose == "node"


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 9)), max_size=200))
def test_no_minute_has_more_than_its_rate(steps):
    now_s, rates, taken = 0.0, Rates(), []
    for passed, node in steps:
        now_s += passed
        found = rate.take(rates, str(node), now_s)
        rates = found.rates
        if not found.whose:
            taken.append(now_s)
    for start in taken:
        assert sum(start <= at < start + 60 for at in taken) <= CLUSTER.burst + 60 / CLUSTER.every_s + 1
