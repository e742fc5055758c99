"""A pod's annotations are sorted by container, in bounded time and space."""

import json

import pytest

from nri_coloc.core.workload import Finding, FindingKind
from nri_coloc.pods import keys

P = "coloc.nri.io/"


def read(annotations: dict[str, str]) -> keys.Written:
    return keys.by_container(keys.ours(annotations))


def found(annotations: dict[str, str], key: str, container: str = "") -> list[str]:
    return [text for _, text in read(annotations).candidates(key, container)]


def test_the_notice_of_an_eviction_is_no_finding():
    assert read({P + "evict-at": "2026-11-27T03:21:31Z"}).findings("app") == []


def test_lent_amounts_are_no_finding():
    assert read({P + "lent": '{"app": {"cpu": "500m"}}'}).findings("app") == []


def test_a_notice_for_one_container_is_a_finding():
    (finding,) = read({P + "evict-at.app": "x"}).findings("app")
    assert finding.key == P + "evict-at.app"


def test_annotations_of_others_are_not_ours():
    assert keys.ours({"example.com/x": "1", "x.coloc.nri.io/numa": "single"}) == ()


def test_ours_are_sorted_whatever_order_the_runtime_sends():
    assert keys.ours({P + "numa": "a", "z": "", P + "io-weight": "b"}) == (
        (P + "io-weight", "b"),
        (P + "numa", "a"),
    )


def test_the_containers_own_value_comes_before_the_pods():
    annotations = {P + "numa": "none", P + "numa.app": "single"}
    assert found(annotations, "numa", "app") == ["single", "none"]


def test_another_containers_value_is_not_seen():
    assert found({P + "numa.app": "single"}, "numa", "other") == []


def test_the_pod_itself_sees_its_own_value_once():
    assert found({P + "numa": "none"}, "numa") == ["none"]


def test_the_json_gives_values_to_containers_by_name():
    name = "a" * 63
    annotations = {P + "containers": json.dumps({name: {"numa": "single"}})}
    assert found(annotations, "numa", name) == ["single"]


def test_a_name_of_its_own_wins_over_the_json():
    annotations = {P + "containers": '{"app": {"numa": "none"}}', P + "numa.app": "single"}
    assert found(annotations, "numa", "app") == ["single"]


def test_a_json_value_is_named_by_its_place():
    annotations = {P + "containers": '{"app": {"numa": "none"}}'}
    assert list(read(annotations).candidates("numa", "app")) == [(P + "containers[app][numa]", "none")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        '{"app": 1}',
        '{"app": {"io-weight": 50}}',
        '{"app": {"numa": "none", "numa": "single"}}',
        '{"app": {}, "app": {}}',
        '{"": {"qos-class": "reclaimed"}}',
        "[" * 60_000,
        "9" * 5_000,
    ],
    ids=[
        "empty",
        "cut off",
        "a list",
        "a number",
        "no mapping",
        "no text",
        "key twice",
        "container twice",
        "nobody's",
        "deep",
        "big number",
    ],
)
def test_bad_json_is_one_finding(text):
    (finding,) = read({P + "containers": text}).findings("app")
    assert (finding.kind, finding.key, "JSON such as" in finding.allowed) == (
        FindingKind.INVALID,
        P + "containers",
        True,
    )


def test_the_json_belongs_to_the_pod_and_not_to_a_container():
    (finding,) = read({P + "containers.app": "{}"}).findings("app")
    assert finding.allowed == "coloc.nri.io/containers for all containers together"


def test_a_typo_is_found_with_the_nearest_key_as_a_hint():
    expected = Finding(
        FindingKind.INVALID, P + "qos-clas", "shared", "did you mean coloc.nri.io/qos-class?", "nothing"
    )
    assert read({P + "qos-clas": "shared"}).findings("app") == [expected]


def test_a_typo_in_the_json_is_found():
    (finding,) = read({P + "containers": '{"app": {"ioweight": "1"}}'}).findings("app")
    assert (finding.key, finding.allowed) == (
        P + "containers[app][ioweight]",
        "did you mean coloc.nri.io/io-weight?",
    )


def test_a_key_unlike_any_other_is_answered_with_the_list():
    (finding,) = read({P + "zzzz": ""}).findings("app")
    assert finding.allowed.startswith("one of qos-class, cpu-pool,")


@pytest.mark.parametrize(
    "annotations",
    [{P + "record": "{}"}, {P + "record.app": "{}"}, {P + "containers": '{"app": {"record": "{}"}}'}],
    ids=["pod", "container", "json"],
)
def test_a_pod_may_not_write_our_record(annotations):
    (finding,) = read(annotations).findings("app")
    assert finding.kind is FindingKind.DENIED


def test_what_is_wrong_with_one_containers_keys_concerns_no_other():
    found = read(
        {P + "zzz.a": "1", P + "containers": '{"a": {"record": "{}"}, "b": {"yyy": "1"}}', P + "xxx": "1"}
    )
    of = {name: [finding.key.removeprefix(P) for finding in found.findings(name)] for name in ("a", "b", "")}
    assert of == {
        "a": ["xxx", "zzz.a", "containers[a][record]"],
        "b": ["xxx", "containers[b][yyy]"],
        "": ["xxx"],
    }


def test_findings_are_bounded_in_number():
    typos = {f"{P}a-typo{i}": "x" for i in range(1000)} | {P + "record": "x"}
    assert len(read(typos).findings("app")) == keys.MAX_FINDINGS


def test_a_strangers_text_is_cut_and_made_encodable():
    annotations = {P + "containers": '{"app": {"\\ud800": "' + "y" * 999 + '"}}'}
    (finding,) = read(annotations).findings("app")
    assert len(finding.value) == 256
    assert finding.key.encode() == rb"coloc.nri.io/containers[app][\ud800]"


def test_keys_of_other_containers_are_left_out():
    written = read({P + "numa.app": "x", P + "priority": "1", P + "io-weight.b": "2", P + "qos-class": "s"})
    assert written.named("app") == {"numa", "priority", "qos-class"}


def test_the_same_annotations_are_sorted_out_once():
    annotations = {P + "numa": "single"}
    assert read(annotations) is read(dict(annotations))


def test_all_of_a_pod_is_sorted_out_once_for_its_containers():
    annotations = {P + "containers": '{"app": {"numa": "' + "x" * 60_000 + '"}}'}
    assert read(annotations) is read(annotations)


def test_what_was_sorted_out_is_kept_of_few_pods():
    first = read({P + "numa": "0"})
    for number in range(1, keys.PODS_KEPT + 1):
        read({P + "numa": str(number)})
    assert read({P + "numa": "0"}) is not first
