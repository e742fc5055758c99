"""service/evictions.py: orders of the daemon's parts, and their records."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.service.evictions import EvictionOrders
from tests.rig.eviction_orders import BATCH
from tests.unit.parts import a_node, a_report

NOW = 1000.0
BY_DAEMON = replace(BATCH, by_operator=False)


@pytest.fixture
def rig():
    report, heard = a_report(a_node())
    found = SimpleNamespace(may_evict=True, observes=False, heard=heard)
    found.orders = EvictionOrders(report, may_evict=lambda: found.may_evict, observes=lambda: found.observes)
    found.orders.greeted()
    return found


def records(rig):
    return [(each.event.value, each.reason.value, each.because) for each in rig.heard.records]


def test_order_and_result_are_recorded(rig):
    order_id = rig.orders.order(replace(BATCH, inputs={"use": 3}), NOW).order_id
    rig.orders.take_results((Result(order_id, Outcome.ACCEPTED, "the API server accepted it"),), NOW)
    assert records(rig) == [
        ("pod.evict", "operator", "eviction ordered: the disk is full (by_operator=True)"),
        (
            "pod.evict",
            "accepted",
            "eviction accepted: the API server accepted it (by_operator=True)",
        ),
    ]
    first, second = rig.heard.records
    assert first.decision_id == second.decision_id == order_id
    assert (first.namespace, first.pod, first.pod_uid) == ("shop", "batch", "uid-1")
    assert first.extra["inputs"]["use"] == 3


def test_only_an_operators_order_names_the_operator(rig):
    order_id = rig.orders.order(BY_DAEMON, NOW).order_id
    rig.orders.take_results((Result(order_id, Outcome.BUDGET, "a budget", retry_after_s=5),), NOW)
    assert [because for *_, because in records(rig)] == [
        "eviction ordered: the disk is full",
        "eviction budget: a budget (retry_after=5 s)",
    ]


def test_ids_differ_after_a_restart(rig):
    again = EvictionOrders(a_report(a_node())[0], may_evict=lambda: True, observes=lambda: False)
    again.greeted()
    assert rig.orders.order(BATCH, NOW).order_id != again.order(BATCH, NOW).order_id


def test_without_a_companion_nothing_is_ordered(rig):
    rig.orders.left()
    assert rig.orders.order(BATCH, NOW).refusal == "no companion is connected"
    assert records(rig) == []


def test_a_replaced_socket_does_not_lose_the_companion(rig):
    rig.orders.greeted()
    rig.orders.left()
    assert rig.orders.impossible() == ""


def test_an_operator_overrides_the_switch_alone(rig):
    rig.may_evict = False
    assert rig.orders.impossible() == "kubernetes.evict is off"
    assert rig.orders.impossible(by_operator=True) == ""
    rig.observes = True
    assert "observe" in rig.orders.impossible(by_operator=True)


def test_open_names_pods_that_are_to_leave(rig):
    order_id = rig.orders.order(BATCH, NOW).order_id
    assert rig.orders.open(NOW) == {"uid-1"}
    rig.orders.take_results((Result(order_id, Outcome.BUDGET, "no"),), NOW)
    assert rig.orders.open(NOW) == frozenset()
    assert rig.orders.last("uid-1").result.outcome is Outcome.BUDGET


def test_an_expired_order_is_recorded(rig):
    rig.orders.order(BY_DAEMON, NOW)
    rig.orders.look(NOW + 60)
    assert records(rig)[-1][1] == "unreachable"
    assert rig.orders.pending(NOW + 60) == ()


def test_a_caller_gets_the_result(rig):
    given, result = rig.orders.order_awaited(BATCH, NOW)
    rig.orders.take_results((Result(given.order_id, Outcome.GONE, "ended"),), NOW)
    assert result.result(0).outcome is Outcome.GONE


def test_a_second_result_changes_nothing(rig):
    order_id = rig.orders.order(BATCH, NOW).order_id
    for outcome in (Outcome.REFUSED, Outcome.ACCEPTED):
        rig.orders.take_results((Result(order_id, outcome, "words"),), NOW)
    assert [reason for _, reason, _ in records(rig)] == ["operator", "refused"]
