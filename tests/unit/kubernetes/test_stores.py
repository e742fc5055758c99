"""The watched pods and node, reduced to the values of a report."""

from typing import Any
from weakref import ref

import pytest

from nri_coloc.kubernetes import stores
from nri_coloc.kubernetes.api import ApiError
from nri_coloc.kubernetes.facts_outbox import FactsOutbox
from nri_coloc.kubernetes.presets import DEFAULT, Amounts, Shown
from nri_coloc.kubernetes.stores import NodePods, NodeView, ThisNode
from nri_coloc.kubernetes.watching import Unreadable


def pod(uid="u1", cpu="1000", phase="Running"):
    """Return a pod that requests lent CPU and one place on an open node."""
    requests = {DEFAULT.cpu: cpu, "coloc.nri.io/open": "1"}
    return {
        "metadata": {"uid": uid},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase, "startTime": "2026-11-26T10:00:00Z"},
    }


def node(uid="n1", version="", **resources):
    both = {"pods": "110", **resources}
    return {
        "metadata": {"uid": uid, "resourceVersion": version},
        "status": {"capacity": both, "allocatable": both},
    }


def node_pods(changed=lambda: None, tell=lambda _: None):
    return NodePods(DEFAULT, changed, facts=FactsOutbox(lambda: 0.0), unreadable=Unreadable("pod", tell))


def pods(*found, tell=lambda _: None):
    store = node_pods(tell=tell)
    store.replace(iter(found))
    return store


def this_node(found, missing=lambda _: None):
    store = ThisNode(DEFAULT, lambda: None, missing)
    store.replace(iter(found))
    return store


def test_the_floor_is_the_sum_of_all_pods():
    floor = pods(pod("a"), pod("b", "500")).floor
    assert (floor.admitted, floor.gate) == (Amounts(1500, 0), 2)


def test_no_list_yet_means_no_floor():
    assert node_pods().floor is None


@pytest.fixture
def room_for_two(monkeypatch):
    monkeypatch.setattr(stores, "_MOST_PODS", 2)


def test_a_list_of_too_many_pods_is_refused(room_for_two):
    with pytest.raises(ApiError, match="more than 2 pods"):
        pods(pod("a"), pod("b"), pod("c"))


def test_too_many_new_pods_are_refused(room_for_two):
    store = pods(pod("a"), pod("b"))
    store.take("MODIFIED", pod("b", "500"))
    with pytest.raises(ApiError, match="more than 2 pods"):
        store.take("ADDED", pod("c"))


def test_ended_pods_do_not_count_as_too_many(room_for_two):
    ended = [pod(f"e{number}", phase="Succeeded") for number in range(5)]
    assert pods(pod("a"), *ended, pod("b")).floor.admitted == Amounts(2000, 0)


def test_a_deleted_pod_leaves_the_floor():
    store = pods(pod("a"), pod("b"))
    store.take("DELETED", pod("a"))
    assert store.floor.bound == Amounts(1000, 0)


def test_an_ended_pod_leaves_the_floor():
    store = pods(pod("a"))
    store.take("MODIFIED", pod("a", phase="Succeeded"))
    assert store.floor.bound == Amounts()


def test_a_change_without_effect_wakes_nothing():
    woken = []
    store = node_pods(lambda: woken.append(1))
    store.replace(iter([pod("a")]))
    store.take("MODIFIED", pod("a"))
    assert len(woken) == 1


def test_the_end_of_an_unknown_pod_is_nothing():
    store = pods()
    store.take("DELETED", pod("a"))
    assert store.floor.bound == Amounts()


def test_a_node_shows_its_report():
    resources = {DEFAULT.cpu: "4000", DEFAULT.memory: "64", "coloc.nri.io/open": "110"}
    view = this_node([node(**resources)]).view
    assert view == NodeView("n1", 110, Shown(Amounts(4000, 64), 110))


def test_a_missing_node_has_no_view():
    store = this_node([node()])
    store.replace(iter(()))
    assert store.view is None


@pytest.mark.parametrize("wrong", [{"status": [1]}, {"metadata": {}}], ids=["status", "no UID"])
def test_an_unreadable_node_changes_nothing(wrong):
    store = this_node([node()])
    before = store.view
    with pytest.raises(ValueError, match=r"status|uid"):
        store.take("MODIFIED", node() | wrong)
    assert store.view == before


def test_a_list_with_an_unreadable_node_changes_nothing():
    store = this_node([node()])
    before = store.view
    with pytest.raises(ApiError, match="status"):
        store.replace(iter([node() | {"status": [1]}]))
    assert (store.view, store.problem) == (before, "")


def test_a_list_of_all_nodes_costs_no_memory():
    listed = iter([node(), node("n2"), node("n3")])
    store = ThisNode(DEFAULT, lambda: None, lambda _: None)
    store.replace(listed)
    assert len(list(listed)) == 2


def test_a_late_change_replaces_no_newer_answer():
    store = this_node([node(version="8")])
    store.answered(node(version="12", pods="130"))
    store.take("MODIFIED", node(version="11", pods="120"))
    assert store.view.max_pods == 130


def test_a_list_may_go_back():
    store = this_node([node(version="12")])
    store.replace(iter([node(version="3", pods="120")]))
    store.take("MODIFIED", node(version="4", pods="130"))
    assert store.view.max_pods == 130


def test_an_answer_revives_no_deleted_node():
    store = this_node([node()])
    store.take("DELETED", node())
    store.answered(node())
    assert store.view is None


def test_an_answer_of_another_node_is_ignored():
    store = this_node([node("n2")])
    store.answered(node("n1"))
    assert store.view == NodeView("n2", 110, Shown(None, None))


@pytest.mark.parametrize(
    ("version", "shown"),
    [("9", "120"), ("10", "130"), ("11", "130"), ("x", "120")],
    ids=["older", "same", "newer", "unreadable"],
)
def test_a_late_answer_replaces_no_newer_change(version, shown):
    store = this_node([node(version="8")])
    store.take("MODIFIED", node(version="10", pods="120"))
    store.answered(node(version=version, pods="130"))
    assert store.view.max_pods == int(shown)


@pytest.mark.parametrize("wrong", [[1], {}], ids=["another shape", "no UID"])
def test_an_unreadable_pod_costs_no_other_pod(wrong):
    told: list[str] = []
    floor = pods(pod("a"), pod("b") | {"metadata": wrong}, pod("c"), tell=told.append).floor
    assert floor.bound == Amounts(2000, 0)
    assert "metadata" in told[0]


def unreadable(uid):
    return pod(uid) | {"metadata": {"uid": uid, "name": "odd"}, "spec": {"nodeName": "a", "containers": 7}}


def test_unreadable_requests_keep_the_last_ones():
    told: list[str] = []
    store = pods(pod("a"), pod("b", "500"), tell=told.append)
    store.take("MODIFIED", unreadable("a"))
    assert store.floor.admitted == Amounts(1500, 0)
    store.replace(iter([unreadable("a"), pod("b", "500")]))
    assert store.floor.admitted == Amounts(1500, 0)
    assert len(told) == 1
    assert "odd" in told[0]


def test_an_end_drops_the_last_requests():
    store = pods(pod("a"))
    store.take("MODIFIED", unreadable("a"))
    store.take("DELETED", unreadable("a"))
    assert store.floor.bound == Amounts()


def test_unreadable_requests_without_earlier_ones_are_counted():
    assert pods(unreadable("a"), pod("b")).floor.unreadable == 1


def test_an_unreadable_amount_leaves_a_view():
    shown = Shown(None, 110, is_readable=False)
    resources = {DEFAULT.cpu: "12E", DEFAULT.memory: "64", "coloc.nri.io/open": "110"}
    assert this_node([node(**resources)]).view == NodeView("n1", 110, shown)


def test_a_missing_node_is_told_once_until_it_returns():
    told: list[str] = []
    store = this_node([node()], told.append)
    for found in ([], [], [node()], []):
        store.replace(iter(found))
    assert len(told) == 2
    assert "no Node" in told[0]


class Counted(dict[str, Any]):
    """A pod to which a weak reference can lead."""


def test_no_pod_is_kept_meanwhile():
    kept: list[Any] = []

    def found():
        for uid in ("a", "b"):
            made = Counted(pod(uid))
            kept.append(ref(made))
            yield made
            del made
            kept[-1] = kept[-1]() is not None

    node_pods().replace(found())
    assert kept == [False, False]
