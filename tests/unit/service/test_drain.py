"""service/drain.py: orders to leave, in the controller's rate, and why pods still run."""

from types import SimpleNamespace

import pytest

from nri_coloc.core.decisions import PodRemoved, PodStarted
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.settings import Tuning
from nri_coloc.kubernetes.rate import NODE
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.schedule.lending import State, at
from nri_coloc.schedule.switch import ON, switched_off
from nri_coloc.service.drain import Drain
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.lending_clock import LendingClock
from tests.rig.eviction_orders import BATCH
from tests.unit import parts
from tests.unit.placing.kit import RECLAIMED, machine, pod
from tests.unit.schedule.kit import NIGHT, in_berlin

NOW_S = in_berlin("2026-11-26T23:00").timestamp()
NOON = at(NIGHT, in_berlin("2026-11-26T12:00").timestamp())
ORDERED = at(NIGHT, NOW_S, switched_off(ON, NOW_S, 0, drain=True))


@pytest.fixture
def rig():
    node = Node(pools.initial(machine(), Tuning()), Tuning(), 1 << 30)
    for number in range(8):
        node.decide(PodStarted(pod(f"batch-{number}"), RECLAIMED))
    found = SimpleNamespace(may_evict=True, node=node)
    found.report, _ = parts.a_report(node)
    found.orders = EvictionOrders(found.report, may_evict=lambda: found.may_evict, observes=lambda: False)
    found.orders.greeted()
    found.drain = Drain(node, found.orders)
    return found


def ordered(rig):
    return [each.wish.name for each in rig.orders.pending(0)]


def test_a_drain_gives_four_orders_at_once(rig):
    for second in range(int(NODE.every_s)):
        rig.drain.look(ORDERED, second)
    assert ordered(rig) == ["batch-7", "batch-6", "batch-5", "batch-4"]
    rig.drain.look(ORDERED, NODE.every_s)
    assert len(ordered(rig)) == 5


def test_an_operators_drain_overrides_the_switch(rig):
    rig.may_evict = False
    rig.drain.look(ORDERED, 0)
    assert all(each.wish.by_operator for each in rig.orders.pending(0))
    assert len(ordered(rig)) == 4


def test_the_schedule_needs_the_switch(rig):
    rig.may_evict = False
    rig.drain.look(NOON, 0)
    assert ordered(rig) == []
    assert rig.drain.running(NOON, 0)[0].why.startswith("kubernetes.evict is off; `kubectl delete pod")


def test_the_schedule_orders_as_the_daemon(rig):
    rig.drain.look(NOON, 0)
    assert {(each.wish.reason.value, each.wish.by_operator) for each in rig.orders.pending(0)} == {
        ("schedule", False)
    }


def test_lending_evicts_nothing(rig):
    rig.drain.look(at(NIGHT, NOW_S), 0)
    assert ordered(rig) == []


@pytest.mark.parametrize("lending", [NOON, ORDERED], ids=["schedule", "operator"])
def test_a_drain_that_ends_withdraws_its_orders(rig, lending):
    rig.drain.look(lending, 0)
    rig.drain.look(at(NIGHT, NOW_S), 1)
    assert ordered(rig) == []
    assert rig.orders.last("uid-batch-7").result.detail.startswith("withdrawn before a result came")


@pytest.mark.parametrize("lending", [ORDERED, at(NIGHT, NOW_S)], ids=["in force", "ended"])
def test_the_order_of_a_pod_that_left_gets_its_result(rig, lending):
    rig.drain.look(ORDERED, 0)
    for number in range(8):
        rig.node.decide(PodRemoved(f"batch-{number}"))
    rig.drain.look(lending, 1)
    first = rig.orders.pending(1)[0]
    rig.orders.take_results((Result(first.id, Outcome.ACCEPTED, "accepted"),), 2)
    assert rig.orders.last("uid-batch-7").result.outcome is Outcome.ACCEPTED


def test_a_pod_that_comes_back_is_not_evicted(rig):
    """Its sandbox was made again when the drain ended."""
    rig.drain.look(ORDERED, 0)
    rig.node.decide(PodRemoved("batch-7"))
    rig.drain.look(at(NIGHT, NOW_S), 1)
    rig.node.decide(PodStarted(pod("batch-7"), RECLAIMED))
    rig.drain.look(at(NIGHT, NOW_S), 2)
    assert ordered(rig) == []


def test_a_withdrawn_order_is_given_again(rig):
    rig.drain.look(NOON, 0)
    rig.drain.look(at(NIGHT, NOW_S), 1)
    for second in range(2, 120):
        rig.drain.look(NOON, second)
    assert "batch-7" in ordered(rig)


@pytest.mark.parametrize(
    ("set_by_s", "state", "orders"),
    [
        (-86400, State.OFFLINE_TO_ONLINE, 0),
        (-3600, State.OFFLINE, 0),
        (3600, State.ONLINE, 4),
        (86400, State.OFFLINE_TO_ONLINE, 0),
    ],
)
def test_a_window_follows_a_clock_that_is_set(rig, tmp_path, set_by_s, state, orders):
    wall_s = [in_berlin("2026-11-26T05:55").timestamp()]
    clock = LendingClock(NIGHT, lambda: wall_s[0], parts.a_switch(tmp_path))
    found = []
    for second, step_s in enumerate((0, set_by_s, -set_by_s)):
        wall_s[0] += step_s
        clock.look(NIGHT, rig.report)
        rig.drain.look(clock.lending, second)
        found.append((clock.lending.state, len(ordered(rig))))
    assert found == [(State.OFFLINE_TO_ONLINE, 0), (state, orders), (State.OFFLINE_TO_ONLINE, 0)]


def test_other_orders_outlast_a_drain(rig):
    rig.orders.order(BATCH, 0)
    rig.drain.look(ORDERED, 0)
    rig.drain.look(at(NIGHT, NOW_S), 1)
    assert [each.wish for each in rig.orders.pending(1)] == [BATCH]


def test_a_budgets_words_say_why_a_pod_runs(rig):
    rig.drain.look(NOON, 0)
    first = rig.orders.pending(0)[0]
    rig.orders.take_results((Result(first.id, Outcome.BUDGET, "the budget needs 1", 45),), 0)
    why = {each.name: each.why for each in rig.drain.running(NOON, 5)}
    assert why["shop/batch-7"] == "the budget needs 1; the next order follows in 40 s"
    assert why["shop/batch-6"] == "an eviction order for the pod is open already"
    assert why["shop/batch-0"].startswith("its eviction order follows")


@pytest.mark.parametrize("lending", [NOON, ORDERED], ids=["schedule", "operator"])
def test_an_accepted_pod_is_ordered_once(rig, lending):
    for second in range(100):
        rig.drain.look(lending, second)
        for each in rig.orders.pending(second):
            rig.orders.take_results((Result(each.id, Outcome.ACCEPTED, "accepted"),), second)
    assert len(rig.orders.open(100)) == 8
    assert rig.drain.running(lending, 100)[0].why == "the pod's eviction was accepted; its grace period runs"


def test_budgets_hold_back_no_other_pod(rig):
    names = set()
    for second in range(100):
        rig.drain.look(NOON, second)
        for each in rig.orders.pending(second):
            names.add(each.wish.name)
            rig.orders.take_results((Result(each.id, Outcome.BUDGET, "the budget"),), second)
    assert len(names) == 8


def test_a_refused_pod_costs_no_further_order(rig):
    for second in range(60):
        rig.drain.look(NOON, second)
        for each in rig.orders.pending(second):
            rig.orders.take_results((Result(each.id, Outcome.REFUSED, "its DaemonSet"),), second)
    assert {rig.orders.last(f"uid-batch-{number}") is None for number in range(8)} == {True, False}
    assert len(rig.drain.running(NOON, 60)) == 8
