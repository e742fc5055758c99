"""A pod's annotations become a wish: valid values count, invalid ones are reported, and nothing ever raises."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import Container, FindingKind, Numa, Placement, Pod, QoSClass, Resources, Wish
from nri_coloc.pods import keys
from nri_coloc.pods.annotations import resolve, resolve_as_pod, resolve_pod

P = "coloc.nri.io/"
GIB = 1 << 30
PARENTS = {
    "burstable": "/kubepods/burstable/pod1",
    "guaranteed": "/kubepods/pod1",
    "besteffort": "/kubepods/besteffort/pod1",
}


def pod(kind: str = "burstable", namespace: str = "shop", **annotations: str) -> Pod:
    mine = {P + key.replace("_", "-").replace("-FOR-", "."): value for key, value in annotations.items()}
    return Pod("p", namespace=namespace, annotations=mine, cgroup_parent=PARENTS[kind])


def container(name: str = "app", **resources: int | None) -> Container:
    figures = Resources(**resources)  # type: ignore[arg-type]  # the texts of Resources are never given here
    return Container("c", "p", name, oom_score_adj=500, resources=figures)


def wish(of: Pod, who: Container | None = None, tuning: Tuning | None = None) -> Wish:
    return resolve(of, who or container(), tuning or Tuning(), 64 * GIB)


# --- the class -----------------------------------------------------------------------------------------


def test_a_pod_without_annotations_has_the_defaults_of_its_class():
    assert wish(pod()) == Wish(QoSClass.SHARED, "default")


def test_a_best_effort_pod_is_reclaimed_with_the_least_of_everything():
    assert wish(pod("besteffort"), container(shares=2)) == Wish(
        QoSClass.RECLAIMED,
        "Kubernetes BestEffort",
        knobs=Knobs(shares=2, oom_score_adj=1000, io_weight=10),
    )


def test_our_annotation_comes_before_the_operators_rules():
    tuning = Tuning(rules=(ClassRule(qos=QoSClass.RECLAIMED, namespace="*"),))
    found = wish(replace(pod(qos_class="dedicated"), cpu_request=1000), tuning=tuning)
    assert (found.qos, found.because) == (QoSClass.DEDICATED, "annotation coloc.nri.io/qos-class")


def test_a_rule_for_a_namespace_is_the_operators_word():
    tuning = Tuning(rules=(ClassRule(qos=QoSClass.SYSTEM, namespace="shop"),))
    found = wish(pod(), tuning=tuning)
    assert (found.qos, found.because, found.findings) == (QoSClass.SYSTEM, "rule 1 (namespace shop)", ())


DENIED_RULES = (
    ClassRule(qos=QoSClass.DEDICATED, namespace="shop"),
    ClassRule(qos=QoSClass.SYSTEM, label=("a", "b")),
)


@pytest.mark.parametrize("last", [(), (ClassRule(qos=QoSClass.RECLAIMED, namespace="shop"),)])
def test_the_next_rule_holds_where_one_is_denied(last):
    labelled = replace(pod(), cpu_request=999, labels={"a": "b"})
    found = wish(labelled, tuning=Tuning(rules=(*DENIED_RULES, *last)))
    assert (found.qos, found.short) == (QoSClass.RECLAIMED if last else QoSClass.SHARED, True)
    assert [(f.kind.value, f.key, f.value, f.used) for f in found.findings] == [
        ("annotation.denied", "rule 1 (namespace shop)", "class dedicated", found.qos.value),
        ("annotation.denied", "rule 2 (label a=b)", "class system", found.qos.value),
    ]


@pytest.mark.parametrize(("milli", "qos"), [(1000, QoSClass.DEDICATED), (999, QoSClass.SHARED)])
def test_a_pods_own_wish_passes_the_same_gate(milli, qos):
    asking = replace(pod(qos_class="dedicated"), cpu_request=milli)
    found = resolve_pod(asking, Tuning())
    assert (found.qos, found.short, len(found.findings)) == (qos, qos is QoSClass.SHARED, milli < 1000)


def test_a_denied_rule_makes_no_plain_wish():
    tuning = Tuning(rules=DENIED_RULES)
    denied, granted = (resolve_pod(replace(pod(), cpu_request=n), tuning) for n in (0, 1000))
    assert (denied.plain, granted.plain) == (False, True)
    assert resolve_as_pod(granted, container()) is None


@pytest.mark.parametrize("vocabulary", [{"katalyst.kubewharf.io/qos_level": "dedicated_cores"}, {}])
def test_another_vocabularys_class_needs_the_request_too(vocabulary):
    labels = {} if vocabulary else {"koordinator.sh/qosClass": "LSR"}
    asking = replace(pod(), annotations=vocabulary, labels=labels, cpu_request=999)
    found = wish(asking)
    assert (found.qos, found.short, [f.kind.value for f in found.findings]) == (
        QoSClass.SHARED,
        True,
        ["annotation.denied"],
    )


def test_a_container_may_have_a_class_of_its_own():
    of = pod(qos_class="dedicated", qos_class_FOR_log="shared")
    found = wish(of, container("log"))
    assert (found.qos, found.because) == (QoSClass.SHARED, "annotation coloc.nri.io/qos-class.log")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (pod("besteffort", qos_class="dedicated"), QoSClass.RECLAIMED),
        (pod(qos_class="system"), QoSClass.SHARED),
    ],
    ids=["dedicated without a request", "system outside of its namespaces"],
)
def test_a_forbidden_class_is_denied_and_the_default_applies(of, expected):
    found = wish(of)
    (finding,) = found.findings
    assert (found.qos, finding.kind, finding.used) == (expected, FindingKind.DENIED, expected.value)


def test_a_denied_class_of_a_container_leaves_the_pods():
    found = wish(pod(qos_class="reclaimed", qos_class_FOR_app="system"))
    assert (found.qos, found.findings[0].key) == (QoSClass.RECLAIMED, P + "qos-class.app")


def test_another_vocabulary_stands_between_ours_and_the_rules():
    tuning = Tuning(rules=(ClassRule(qos=QoSClass.SHARED, namespace="*"),))
    theirs = {"volcano.sh/qos-level": "BE"}
    both = {**theirs, P + "qos-class": "shared"}
    assert [wish(Pod("p", annotations=found), tuning=tuning).because for found in (theirs, both)] == [
        "annotation volcano.sh/qos-level",
        "annotation coloc.nri.io/qos-class",
    ]


def test_another_vocabulary_passes_the_same_gate():
    found = wish(Pod("p", labels={"koordinator.sh/qosClass": "SYSTEM"}))
    (finding,) = found.findings
    assert (found.because, finding.key, finding.kind) == (
        "default",
        "koordinator.sh/qosClass",
        FindingKind.DENIED,
    )


# --- the other keys ------------------------------------------------------------------------------------


EVERY_KEY = {
    "qos_class": "dedicated",
    "cpu_pool": "share",
    "numa": "exclusive",
    "numa_count": "2",
    "numa_ids": "0-1",
    "cpu_placement": "spread",
    "memory_limit": "2Gi",
    "memory_high": "50%",
    "memory_low": "512Mi",
    "memory_min": "25%",
    "io_weight": "200",
    "blockio_class": "fast",
    "rdt_class": "gold",
    "oom_score_adj": "-500",
    "cpu_burst": "20",
    "priority": "-7",
    "avoidance": "none",
    "preserve": "memory",
}


def test_every_key_reaches_the_wish():
    asked = pod("guaranteed", "kube-system", **EVERY_KEY)
    knobs = Knobs(
        memory_limit=2 * GIB,
        memory_high=GIB,
        memory_low=GIB // 2,
        memory_min=GIB // 4,
        io_weight=200,
        blockio_class="fast",
        rdt_class="gold",
        oom_score_adj=-500,
    )
    assert wish(asked, container(shares=2048, memory_limit=GIB)) == Wish(
        QoSClass.DEDICATED,
        "annotation coloc.nri.io/qos-class",
        pool="",
        numa=Numa.EXCLUSIVE,
        numa_count=2,
        numa_ids=0b11,
        placement=Placement.SPREAD,
        knobs=knobs,
        annotated=knobs,
        cpu_burst_percent=20,
        burst_because="annotation coloc.nri.io/cpu-burst",
        priority=-7,
        avoidance=frozenset(),
        preserve=frozenset({"memory"}),
    )


def test_the_pool_of_a_shared_pod_may_be_named():
    assert wish(pod(cpu_pool="share")).pool == "share"


def test_a_containers_value_wins_over_the_pods():
    of = pod(io_weight="200", io_weight_FOR_app="300")
    assert (wish(of).knobs.io_weight, wish(of, container("log")).knobs.io_weight) == (300, 200)


def test_a_value_in_the_json_wins_over_the_pods():
    name = "a" * 63
    of = pod(io_weight="200", containers=json.dumps({name: {"io-weight": "300"}}))
    assert wish(of, container(name)).knobs.io_weight == 300


def test_a_bad_value_of_a_container_leaves_the_pods():
    found = wish(pod(io_weight="200", io_weight_FOR_app="many"))
    (finding,) = found.findings
    assert (found.knobs.io_weight, finding.key, finding.used) == (200, P + "io-weight.app", "200")


def test_a_bad_value_counts_as_absent_and_is_one_finding():
    found = wish(pod("besteffort", io_weight="0"))
    (finding,) = found.findings
    assert found.knobs.io_weight == 10
    assert (finding.kind, finding.key, finding.value, finding.allowed, finding.used) == (
        FindingKind.INVALID,
        "coloc.nri.io/io-weight",
        "0",
        "an integer from 1 to 10000",
        "10",
    )


def test_every_bad_value_is_told():
    found = wish(pod(io_weight="x", numa="y", zzz="z", record="r"))
    assert [finding.key.removeprefix(P) for finding in found.findings] == [
        "numa",
        "io-weight",
        "record",
        "zzz",
    ]


def test_a_bad_value_of_another_container_is_not_told_here():
    assert wish(pod(io_weight_FOR_log="x")).findings == ()


def test_a_strangers_value_is_cut():
    assert len(wish(pod(numa="x" * 9999)).findings[0].value) == 256


# --- knobs and the sources that order them -------------------------------------------------------------


@pytest.mark.parametrize(("shares", "expected"), [(None, 2), (0, 2), (1, 2), (2, 2), (3, None), (1024, None)])
def test_shares_of_a_native_request_stay_the_kubelets(shares, expected):
    assert wish(pod(qos_class="reclaimed"), container(shares=shares)).knobs.shares == expected


def test_a_class_default_is_not_an_order_of_the_pod():
    found = wish(pod(qos_class="reclaimed", priority="1"), container(shares=2))
    assert (found.annotated, found.knobs.oom_score_adj) == (NO_KNOBS, 1000)


def test_an_annotation_overlays_the_class_default():
    found = wish(pod("besteffort", io_weight="100"))
    assert (found.knobs.io_weight, found.annotated) == (100, Knobs(io_weight=100))


def test_the_limit_and_quota_stay_the_kubelets_unless_annotated():
    found = wish(pod(memory_high="50%"), container(quota=50000, memory_limit=GIB))
    assert found.knobs == Knobs(memory_high=GIB // 2)


def test_a_class_percentage_is_of_the_containers_own():
    tuning = Tuning(
        classes={QoSClass.SHARED: ClassTuning(memory_high="90%", memory_low="50%", memory_min="1Mi")}
    )
    found = wish(pod(), container(memory_limit=40 * GIB), tuning)
    assert found.knobs == Knobs(memory_high=36 * GIB, memory_low=16 * GIB, memory_min=1 << 20)


def test_a_class_percentage_without_a_base_is_nothing():
    tuning = Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="90%")})
    assert wish(pod(), tuning=tuning) == Wish(QoSClass.SHARED, "default")


def test_an_annotated_limit_is_the_base_of_the_classs_percentage():
    tuning = Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="50%")})
    assert wish(pod(memory_limit="1Gi"), tuning=tuning).knobs.memory_high == GIB // 2


def test_protection_beyond_the_certain_request_is_denied():
    found = wish(pod(memory_min="40Gi"))
    (finding,) = found.findings
    assert (found.knobs.memory_min, finding.kind, finding.used) == (None, FindingKind.DENIED, "none")


def test_the_handler_is_the_operators_word_for_it():
    tuning = Tuning(handlers={"kata": "pod"})
    of = Pod("p", handler="kata", annotations={P + "priority": "1"})
    assert (wish(of, tuning=tuning).handler, wish(pod(), tuning=tuning).handler) == ("pod", "container")


# --- the pod as a whole --------------------------------------------------------------------------------


def test_a_pods_own_wish_knows_no_container():
    found = resolve_pod(pod(qos_class="reclaimed", qos_class_FOR_app="shared", io_weight="7"), Tuning())
    assert (found.qos, found.knobs.io_weight) == (QoSClass.RECLAIMED, 7)


def test_a_pods_own_wish_says_nothing_about_memory():
    tuning = Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="1Gi")})
    found = resolve_pod(pod(memory_low="50%", memory_limit="1Gi"), tuning)
    assert (found.knobs, found.findings) == (NO_KNOBS, ())


def test_a_pods_own_wish_tells_bad_values_of_all_kinds():
    found = resolve_pod(pod(memory_low="many", typo="x", qos_class="system"), Tuning())
    assert [finding.key.removeprefix(P) for finding in found.findings] == ["qos-class", "memory-low", "typo"]


@pytest.mark.parametrize(
    ("shares", "expected"), [(None, 2), (2, 2), (512, None)], ids=["not told", "none", "some"]
)
def test_the_shares_of_a_pod_with_requests_stay_the_kubelets(shares, expected):
    of = Pod("p", annotations={P + "qos-class": "reclaimed"}, resources=Resources(shares=shares))
    assert resolve_pod(of, Tuning()).knobs.shares == expected


def test_a_pod_whose_resources_are_not_told_has_no_request():
    assert resolve_pod(pod("besteffort"), Tuning()).knobs.shares == 2


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (pod(qos_class="reclaimed"), False),
        (pod(qos_class="reclaimed", io_weight_FOR_app="1"), False),
        (pod(qos_class="reclaimed", qos_class_FOR_app="reclaimed"), False),
        (pod(qos_class="reclaimed", qos_class_FOR_app="system"), False),
        (pod(qos_class="reclaimed", qos_class_FOR_app="shared"), True),
        (pod("besteffort", containers='{"app": {"qos-class": "shared"}}'), True),
    ],
    ids=["one class", "another key", "the same class", "denied", "another class", "by json"],
)
def test_a_pod_is_mixed_when_a_container_has_another_class(of, expected):
    assert resolve_pod(of, Tuning()).mixed is expected


def test_a_plain_pods_wish_serves_its_containers():
    of = resolve_pod(pod("besteffort"), Tuning())
    assert of.plain
    assert resolve_as_pod(of, container(shares=2)) is of


def test_a_container_with_a_request_of_its_own_keeps_its_shares():
    assert resolve_as_pod(resolve_pod(pod("besteffort"), Tuning()), container(shares=512)) is None


def test_an_annotated_pods_containers_are_looked_at_one_by_one():
    assert resolve_as_pod(resolve_pod(pod(io_weight="7"), Tuning()), container()) is None


def test_a_memory_setting_of_the_class_depends_on_the_container():
    tuning = Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="90%")})
    assert not resolve_pod(pod(), tuning).plain


# --- the class's CPU burst -----------------------------------------------------------------------------

BURSTING = Tuning(classes={QoSClass.SHARED: ClassTuning(cpu_burst=30)})


def burst(of: Pod, tuning: Tuning = BURSTING) -> tuple[int | None, str]:
    found = wish(of, tuning=tuning)
    return found.cpu_burst_percent, found.burst_because


def test_a_class_bursts_as_its_operator_says():
    assert burst(pod()) == (30, "classes.shared.cpuBurst")
    assert resolve_pod(pod(), BURSTING).plain


def test_an_annotation_goes_before_the_burst_of_the_class():
    by_annotation = "annotation coloc.nri.io/cpu-burst"
    assert burst(pod(cpu_burst="50")) == (50, by_annotation)
    assert burst(pod(cpu_burst="0")) == (0, by_annotation)


def test_an_annotation_about_something_else_leaves_the_burst_of_the_class():
    assert burst(pod(io_weight="50")) == (30, "classes.shared.cpuBurst")


def test_an_invalid_burst_is_reported_and_the_classs_used():
    (finding,) = wish(pod(cpu_burst="400"), tuning=BURSTING).findings
    assert (finding.kind, finding.used) == (FindingKind.INVALID, "30")
    assert burst(pod(cpu_burst="400")) == (30, "classes.shared.cpuBurst")


def test_another_vocabularys_burst_goes_before_the_classs_too():
    theirs = {"koordinator.sh/cpuBurst": '{"policy": "cpuBurstOnly", "cpuBurstPercent": 60}'}
    assert burst(Pod("p", annotations=theirs, cgroup_parent=PARENTS["burstable"]))[0] == 60


def test_a_class_without_a_burst_orders_none():
    assert burst(pod(), Tuning()) == (None, "")


# --- more than is read ----------------------------------------------------------------------------------


def test_an_excess_is_one_finding_and_no_key_counts():
    over = Pod("p", excess_bytes=70_000, cgroup_parent=PARENTS["burstable"])
    for found in (wish(over), resolve_pod(over, Tuning())):
        assert (found.qos, found.because) == (QoSClass.SHARED, "default")
        (finding,) = found.findings
        assert (finding.kind, finding.key, finding.value) == (FindingKind.INVALID, "*", "70000 bytes")
        assert "65536 bytes" in finding.allowed


def test_an_excess_is_found_for_each_container():
    over = Pod("p", excess_bytes=70_000, cgroup_parent=PARENTS["burstable"])
    assert resolve_as_pod(resolve_pod(over, Tuning()), container()) is None


def test_an_excess_is_found_beside_a_class_default_of_memory():
    over = Pod("p", excess_bytes=70_000, cgroup_parent=PARENTS["burstable"])
    tuning = Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="50%")})
    assert [finding.key for finding in resolve_pod(over, tuning).findings] == ["*"]


def test_each_class_of_containers_is_judged_once(monkeypatch):
    """A pod may name more than two thousand containers that need not exist, within the bound of its metadata."""
    judged: list[str] = []
    judge = keys.judge

    def counted(key: str, *rest: Any) -> Any:
        judged.append(key)
        return judge(key, *rest)

    monkeypatch.setattr(keys, "judge", counted)
    classes = {
        f"c{number}": {"qos-class": "system" if number % 2 else f"junk-{number}"} for number in range(1000)
    }
    resolve_pod(pod(qos_class="system", containers=json.dumps(classes)), Tuning())
    assert len(judged) < 10
