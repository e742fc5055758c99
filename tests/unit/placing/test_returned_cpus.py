"""placing/resynchronisation.py: a container that is no longer ours to place has its own CPUs again."""

from dataclasses import replace
from typing import Any

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import KEPT_BY_DRA, KEPT_BY_KUBELET, Resources, Wish
from nri_coloc.placing import admission
from tests.unit.placing.kit import SHARED, Node, asking, mask

PINNED = replace(SHARED, preserve=frozenset({"cpu", KEPT_BY_KUBELET}), kept=mask("2-3"))
PRESERVED = replace(SHARED, preserve=frozenset({"cpu"}))


def ordered(node: Node) -> Knobs:
    return admission.orders(node.state, node["app"])


def left_alone(wish: Wish, **facts: Any) -> Node:
    """Return a node whose container was placed by class before its wish was this one."""
    node = Node()
    node.create("app", 100, SHARED, **facts)
    node.reconfigure(node.tuning, wishes={"app": wish})
    return node


def test_it_has_the_kubelets_pin():
    assert ordered(left_alone(PINNED)).cpus == "2-3"


def test_it_has_the_cpus_that_the_kubelet_named():
    assert ordered(left_alone(PRESERVED, resources=asking(100, cpus="4-5"))).cpus == "4-5"


def test_it_has_all_cpus_where_nothing_named_any():
    assert ordered(left_alone(PRESERVED)).cpus == "0-7"


def test_offline_cpus_are_never_ordered():
    node = left_alone(PINNED)
    node.reconfigure(node.tuning, topology=replace(node.state.topology, online=mask("0-2")))
    assert ordered(node).cpus == "2"


def test_the_kubelets_next_word_ends_it():
    node = left_alone(PINNED)
    node.update("app", Resources(cpus="4-5"), PINNED)
    assert ordered(node).cpus is None


def test_another_reading_of_the_wish_keeps_it():
    node = left_alone(PINNED)
    node.reconfigure(node.tuning, wishes={"app": replace(PINNED, priority=1)})
    assert ordered(node).cpus == "2-3"


def test_a_container_that_was_never_ours_is_left_alone():
    node = Node()
    node.create("app", 100, PRESERVED, resources=asking(100, cpus="4-5"))
    node.reconfigure(node.tuning, wishes={"app": replace(PRESERVED, priority=1)})
    assert ordered(node) == NO_KNOBS


def test_cpus_of_the_driver_are_not_touched():
    driven = replace(SHARED, preserve=frozenset({"cpu", KEPT_BY_DRA}))
    assert ordered(left_alone(driven)).cpus is None


def test_a_restart_touches_no_container_that_was_left_alone():
    node = Node()
    node.create("app", 100, PRESERVED)
    fresh = node.anew()
    assert admission.orders(fresh.state, fresh["app"]) == NO_KNOBS
