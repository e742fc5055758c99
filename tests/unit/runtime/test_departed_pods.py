"""runtime/departed_pods.py: a listed sandbox without container and cgroup is no pod any more."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import PodStarted
from nri_coloc.placing.node import Node
from nri_coloc.runtime.departed_pods import EVERY_S, DepartedPods, departed
from tests.unit.parts import a_node, create, start_pod
from tests.unit.placing import kit


def gone(node: Node, *there: str) -> list[str]:
    return list(departed(node.state, {f"kubepods/pod{name}" for name in there}.__contains__))


@pytest.fixture
def node() -> Node:
    found = a_node()
    create(found, "app", on="web")
    start_pod(found, "batch")
    return found


def test_a_pod_that_has_neither_container_nor_cgroup_is_gone(node):
    assert gone(node, "web") == ["batch"]


def test_one_that_waits_for_its_first_container_is_not(node):
    assert gone(node, "web", "batch") == []


def test_one_whose_container_is_known_is_not(node):
    assert gone(node, "batch") == []


def test_of_two_in_a_cgroup_the_empty_is_gone(node):
    node.decide(PodStarted(replace(kit.pod("former"), cgroup_parent="/kubepods/podweb"), kit.SHARED))
    assert gone(node, "web", "batch") == ["former"]


def test_of_one_whose_cgroup_is_not_its_own_nobody_knows(node):
    node.decide(PodStarted(replace(kit.pod("by-hand"), cgroup_parent="/system.slice"), kit.SHARED))
    assert gone(node, "web", "batch") == []


def test_a_pod_that_departs_later_is_left_out_later(node):
    there = {"kubepods/podweb", "kubepods/podbatch"}
    pods = DepartedPods(node, there.__contains__, after=())
    pods.look(0.0)
    there.remove("kubepods/podbatch")
    assert "batch" in node.state.pods
    pods.look(EVERY_S)
    assert set(node.state.pods) == {"web"}


def test_a_pod_whose_cgroup_was_never_there_stays(node):
    pods = DepartedPods(node, {"kubepods/podweb"}.__contains__, after=())
    for turn in range(3):
        pods.look(turn * EVERY_S)
    assert set(node.state.pods) == {"web", "batch"}
