"""placing/lifecycle.py: an annotation that does not count is recorded once, for its pod or container."""

import json
from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, Outcome, PodStarted
from nri_coloc.core.settings import ClassTuning, Tuning
from nri_coloc.core.workload import PREFIX, Finding, FindingKind, Pod, QoSClass, Wish
from nri_coloc.placing import lifecycle
from nri_coloc.pods import annotations
from tests.unit.placing.kit import SHARED, Node, as_listed, container, pod

NAMES = ("a", "b", "c")
BAD = replace(
    pod(),
    annotations={
        f"{PREFIX}io-weight": "0",
        f"{PREFIX}nope": "1",
        f"{PREFIX}oom-score-adj.c": "x",
        f"{PREFIX}containers": json.dumps({"a": {"zzz": "1"}}),
    },
)
STRICT = Tuning(strict=True)
HEAVIER = Tuning(classes={QoSClass.SHARED: ClassTuning(io_weight=200)})


def wish(name: str, tuning: Tuning) -> Wish:
    return annotations.resolve(BAD, container(name), tuning, 1 << 34)


def created(node: Node, name: str, container_id: str = "", of: Pod = BAD) -> Outcome:
    asked = replace(container(name), id=container_id or name)
    outcome = node.happen(ContainerCreating(of, asked, wish(name, node.tuning)))
    if asked.id in node.state.containers:
        node.listed[asked.id] = as_listed(asked, node[asked.id])
    return outcome


def findings(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the (key, container) of each finding about annotations."""
    return [
        (d.key.removeprefix(PREFIX), d.subject.container.name)
        for d in outcome.decisions
        if d.key and d.subject
    ]


@pytest.fixture
def node() -> Node:
    """Return a node with the pod's three containers."""
    node = Node()
    for name in NAMES:
        created(node, name)
    return node


def test_a_pods_key_is_recorded_once():
    node = Node()
    assert [findings(created(node, name)) for name in NAMES] == [
        [("io-weight", "a"), ("nope", "a"), ("containers[a][zzz]", "a")],
        [],
        [("oom-score-adj.c", "c")],
    ]


def test_other_settings_say_nothing_of_what_is_as_wrong_as_before(node):
    outcome = node.reconfigure(HEAVIER, {name: wish(name, HEAVIER) for name in NAMES})
    assert node["b"].wish.findings[0].used == "200"
    assert [d.event.value for d in outcome.decisions if d.key] == []


def test_what_other_settings_allow_and_then_deny_again_is_news(node):
    node.reconfigure(wishes=dict.fromkeys(NAMES, SHARED))
    outcome = node.reconfigure(wishes={name: wish(name, node.tuning) for name in NAMES})
    assert len([d for d in outcome.decisions if d.key]) == 4


def test_a_container_that_comes_back_under_another_id_says_nothing_again(node):
    node.stop("a")
    assert findings(created(node, "a", "a2")) == []


def test_the_runtimes_list_says_nothing_again_to_who_knows(node):
    assert [d for d in node.synchronize().decisions if d.key] == []
    node.stop("a")
    assert findings(created(node, "a", "a2")) == []


def test_another_life_of_the_daemon_says_it_again(node):
    outcome = Node().happen(node.listing())
    assert sorted(key for key, _ in findings(outcome)) == [
        "containers[a][zzz]",
        "io-weight",
        "nope",
        "oom-score-adj.c",
    ]


def test_another_pod_of_the_same_kind_is_told_for_itself(node):
    other = replace(BAD, id="web2")
    outcome = node.happen(ContainerCreating(other, container("x", "web2"), wish("x", node.tuning)))
    assert findings(outcome) == [("io-weight", "x"), ("nope", "x")]


def test_a_pod_that_came_back_is_told_again(node):
    node.remove_pod()
    assert findings(created(node, "b")) == [("io-weight", "b"), ("nope", "b")]


def test_a_decision_that_nobody_adopted_leaves_the_words_to_the_next():
    node = Node()
    before = node.state
    created(node, "a")
    node.state = before
    assert findings(created(node, "b")) == [("io-weight", "b"), ("nope", "b")]


def test_strict_refuses_for_what_was_said_already():
    node = Node(tuning=STRICT)
    node.start_pod(wish=SHARED)
    first, again = created(node, "a"), created(node, "a")
    assert len(findings(first)) == 3
    assert findings(again) == []
    assert again.refusal == first.refusal != ""
    assert "a" not in node.state.containers


def test_what_is_kept_of_a_hostile_pod_is_bounded():
    node = Node()
    node.start_pod(wish=SHARED)
    many = tuple(
        Finding(FindingKind.INVALID, f"key{n}", "x", "less", "none")
        for n in range(lifecycle.FINDINGS_KEPT + 10)
    )
    state, new = lifecycle.with_findings(node.state, "web", many)
    assert (len(new), len(state.pods["web"].told)) == (lifecycle.FINDINGS_KEPT + 10, lifecycle.FINDINGS_KEPT)


def test_of_a_pod_that_nobody_knows_everything_is_new():
    bad = (Finding(FindingKind.INVALID, "key", "x", "less", "none"),)
    state = Node().state
    assert lifecycle.with_findings(state, "web", bad) == (state, bad)


def test_a_changed_sandbox_keeps_its_annotations():
    node = Node()
    wrong = Finding(FindingKind.INVALID, "io-weight", "0", "1 to 10000", "100")
    node.create("app", wish=replace(SHARED, findings=(wrong,)))
    before = node.state.pods["web"].told
    node.happen(PodStarted(replace(pod(), labels={"a": "b"}), SHARED))
    assert node.state.pods["web"].told == before != ()
