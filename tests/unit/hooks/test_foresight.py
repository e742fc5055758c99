"""A known answer is given again at once, but only while nothing that it depends on has changed."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.core.decisions import PodStarted
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import RECORD_KEY, Pod
from nri_coloc.hooks.creation import MOST, Foresight
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from nri_coloc.placing.node import Node
from nri_coloc.pods import annotations
from tests.rig.told import entry
from tests.unit.parts import a_node, create
from tests.unit.placing import kit

ANSWER = nri_pb2.CreateContainerResponse()


def started(node: Node, name: str, **facts: Any) -> Hook:
    """Start a pod as the daemon does; return the hook that creates a container in it."""
    pod = replace(
        Pod(name, uid=name, name=name, namespace="shop", cgroup_parent=f"/kubepods/pod{name}"), **facts
    )
    node.decide(PodStarted(pod, annotations.resolve_pod(pod, node.tuning)))
    return creation(name)


def creation(pod: str, shares: int = 512, oom: int = 900) -> Hook:
    container = told_pb2.Container(id=f"{pod}-app", pod_sandbox_id=pod, name="app")
    container.linux.resources.cpu.shares.value = shares
    container.linux.oom_score_adj.value = oom
    return Hook(
        Call(1, "CreateContainer", 0), HookKind.CREATE_CONTAINER, told_pb2.PodSandbox(id=pod), container, None
    )


def learnt(node: Node, hook: Hook) -> Foresight:
    foresight = Foresight(node)
    foresight.learn(hook, node.state, node.state, ANSWER)
    return foresight


def foreseen(foresight: Foresight, node: Node, hook: Hook) -> object:
    return foresight.answer(hook, node.state)


def test_what_one_container_got_the_next_like_it_gets_at_once():
    node = a_node()
    foresight = learnt(node, started(node, "a"))
    assert foreseen(foresight, node, started(node, "b")) is ANSWER


def test_nothing_is_foreseen_before_the_first_of_its_kind():
    node = a_node()
    assert foreseen(Foresight(node), node, started(node, "a")) is None
    foresight = learnt(node, started(node, "b"))
    assert foreseen(foresight, node, creation("a", shares=513)) is None
    assert foreseen(foresight, node, creation("a", oom=899)) is None


def test_a_pod_with_a_word_of_its_own_is_decided_first():
    node = a_node()
    foresight = learnt(node, started(node, "a"))
    spoken = started(node, "b", annotations={"coloc.nri.io/io-weight": "200"})
    foresight.learn(spoken, node.state, node.state, ANSWER)
    assert foreseen(foresight, node, spoken) is None


def test_cpus_or_a_record_in_the_spec_need_deciding():
    node = a_node()
    foresight = learnt(node, started(node, "a"))
    pinned, recorded = creation("a"), creation("a")
    assert pinned.container is not None
    assert recorded.container is not None
    pinned.container.linux.resources.cpu.cpus = "0-1"
    recorded.container.annotations.append(entry(RECORD_KEY, "{}"))
    assert foreseen(foresight, node, pinned) is None
    assert foreseen(foresight, node, recorded) is None


def test_a_second_try_with_a_known_id_is_decided_first():
    node = a_node()
    foresight = learnt(node, started(node, "a"))
    create(node, "a-app", on="a")
    assert foreseen(foresight, node, creation("a")) is None


def test_changed_pools_or_settings_make_everything_unknown():
    node = a_node()
    hook = started(node, "a")
    foresight = learnt(node, hook)
    tuning, node.tuning = node.tuning, Tuning()
    assert foreseen(foresight, node, hook) is None
    node.tuning = tuning
    create(node, "db", kit.DEDICATED, 2000)
    assert foreseen(foresight, node, hook) is None


@pytest.mark.parametrize("tuning", [Tuning(strict=True), Tuning(observe=True)], ids=["strict", "observe"])
def test_no_answer_is_learnt_where_it_may_be_refused(tuning):
    node = a_node(tuning)
    hook = started(node, "a")
    assert foreseen(learnt(node, hook), node, hook) is None


def test_its_memory_is_bounded():
    node = a_node()
    hook = started(node, "a")
    foresight = learnt(node, hook)
    for shares in range(1000, MOST + 1000):
        other = creation("a", shares=shares)
        foresight.learn(other, node.state, node.state, ANSWER)
    assert foreseen(foresight, node, hook) is None
    assert foreseen(foresight, node, other) is ANSWER
