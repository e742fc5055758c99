"""Vocabularies are read in a fixed order, a pod without their keys costs little, and the document is true."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.settings import ClassRule, PoolTuning, Selector, Tuning
from nri_coloc.core.workload import Container, Pod, QoSClass, Resources, Wish
from nri_coloc.pods import annotations
from nri_coloc.pods.annotations import resolve, resolve_as_pod, resolve_pod
from nri_coloc.pods.vocabularies.claims import Claims
from tests.unit.pods.vocabulary_kit import wish

DOCUMENT = Path(__file__).parents[3] / "docs" / "vocabularies.md"
ROW = re.compile(r"\| `(?P<key>[^`]+)` \| (?P<handling>\w+) \| (?P<why>.+) \|")
WORDS = {
    "katalyst.kubewharf.io/qos_level": "shared_cores",
    "volcano.sh/qos-level": "BE",
}


@pytest.mark.parametrize("name", annotations.VOCABULARIES)
def test_the_document_says_of_every_key_what_becomes_of_it(name):
    section = DOCUMENT.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]
    rows = {row["key"]: row["handling"] for row in ROW.finditer(section)}
    assert rows == {key: handling.value for key, handling in annotations.VOCABULARIES[name].keys.items()}


def test_the_document_names_them_in_their_order():
    headings = re.findall(r"^## (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    assert headings[: len(annotations.VOCABULARIES)] == list(annotations.VOCABULARIES)


@pytest.mark.parametrize("name", annotations.VOCABULARIES)
def test_every_annotation_that_is_read_is_in_the_table(name):
    vocabulary = annotations.VOCABULARIES[name]
    listed = {key.partition("[")[0] for key in vocabulary.keys}
    assert {*vocabulary.annotations, *vocabulary.labels} <= listed


def test_katalyst_is_heard_before_koordinator_and_koordinator_before_volcano():
    label = {"koordinator.sh/qosClass": "LSR"}
    volcano = {"volcano.sh/qos-level": "BE"}
    assert wish(WORDS, labels=label).qos is QoSClass.SHARED
    assert wish(volcano, labels=label).qos is QoSClass.DEDICATED
    assert wish(volcano).qos is QoSClass.RECLAIMED


def test_a_pod_that_nobody_wrote_on_stays_plain():
    pod = Pod(
        "p",
        annotations={"katalyst.kubewharf.io/net_class_id": "7", "volcano.sh/qos-level-x": "", "a": "b"},
        labels={"app": "web"},
        cgroup_parent="/kubepods/burstable/pod1",
    )
    assert annotations.carried_by(pod) is annotations.NOTHING
    found = resolve_pod(pod, Tuning())
    assert found.plain
    assert resolve_as_pod(found, Container("c", "p")) is found


@pytest.mark.parametrize("name", sorted(annotations._ANNOTATIONS))
def test_a_pod_with_any_key_that_is_read_is_not_plain(name):
    assert not resolve_pod(Pod("p", annotations={name: "x"}), Tuning()).plain


def test_without_a_key_of_theirs_no_vocabulary_is_asked():
    assert (
        annotations.claims_of(annotations.Carried(ours=(("coloc.nri.io/numa", "single"),)), "app") == Claims()
    )


def test_the_same_annotations_are_read_once():
    carried = annotations.Carried(theirs=(("volcano.sh/qos-level", "BE"),))
    assert annotations.claims_of(carried, "app") is annotations.claims_of(carried, "app")


def test_the_order_in_which_the_runtime_sends_them_means_nothing():
    annotations = {
        "koordinator.sh/cpuBurst": '{"policy": "x"}',
        **WORDS,
        "katalyst.kubewharf.io/cpu_enhancement": "{",
    }
    assert wish(annotations) == wish(dict(reversed(annotations.items())))


PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"',
        "null",
        "true",
        "1",
        "-1",
        "1e999",
        "NaN",
        "200m",
        "0-3",
        "[" * 2000,
    ),
    *(
        '"containers"',
        '"app"',
        '"limits"',
        '"requests"',
        '"cpu"',
        '"kubernetes.io/batch-cpu"',
        '"policy"',
        '"auto"',
    ),
    *(
        '"cpuset"',
        '"numaNodeResources"',
        '"node"',
        '"numa_binding"',
        '"oom_priority"',
        "\ud800",
        "\0",
        "9" * 4400,
    ),
)


def test_any_annotations_give_a_wish_and_printable_findings():
    dice = random.Random(21)
    names = sorted(annotations._ANNOTATIONS)
    for _ in range(3000):
        inner = {dice.choice(PIECES).strip('"'): dice.choice(PIECES) for _ in range(3)}
        text = dice.choice((json.dumps(inner), "".join(dice.choices(PIECES, k=6))))
        labels = {label: text for label in annotations._LABELS if dice.random() < 0.3}
        pod = Pod("p", annotations=dict.fromkeys(dice.sample(names, 3), text), labels=labels)
        found = resolve(pod, Container("c", "p", "app", resources=Resources(shares=512)), Tuning(), 1 << 36)
        assert isinstance(found, Wish)
        assert isinstance(resolve_pod(pod, Tuning()), Wish)
        for finding in found.findings:
            assert len(finding.key) <= 256 >= len(finding.value)
            assert all((finding.allowed, finding.used, (finding.key + finding.value).encode()))


def test_the_keys_of_vocabularies_and_rules_are_known():
    tuning = Tuning(
        rules=(ClassRule(qos=QoSClass.RECLAIMED, label=("caster.io/resource-type", "colocation")),),
        pools=(
            PoolTuning("a", members=(Selector(annotation=("team", "x")),), group_by="label:group"),
            PoolTuning("b", group_by="annotation:tier"),
            PoolTuning("c", group_by="namespace"),
        ),
    )
    plain, known = annotations.known_keys(Tuning()), annotations.known_keys(tuning)
    assert known.annotations - plain.annotations == {"team", "tier"}
    assert ("team", "x") in known.pairs
    assert known.labels - plain.labels == {"caster.io/resource-type", "group"}
    assert {"volcano.sh/qos-level", "katalyst.kubewharf.io/qos_level"} < plain.annotations
    assert "koordinator.sh/qosClass" in plain.labels


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of documents that are parsed."""
    texts: list[str] = []
    loads = json.loads

    def counted(text: str) -> Any:
        texts.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    return texts


@pytest.mark.parametrize("form", ['{{"containers": {{}}, "{}": 0}}', "no document {}"], ids=["good", "bad"])
def test_a_document_is_parsed_once_for_all_containers(parsed, form):
    pod = Pod("p", annotations={"noderesource.dev/resources": form.format(random.random())})
    for name in "abc":
        resolve(pod, Container(name, "p", name), Tuning(), 0)
    assert len(parsed) == 1
