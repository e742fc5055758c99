"""Unprivileged input gets at most the values that its pod's own requests and namespace allow."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.knobs import LEAST_MEMORY
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import FindingKind, Pod, QoSClass, Resources, Tolerance
from nri_coloc.pods import gate, keys
from nri_coloc.pods.quantity import Amount

BURSTABLE = Pod("p", namespace="shop", cgroup_parent="/kubepods/burstable/pod1")
BEST_EFFORT = Pod("p", namespace="shop", cgroup_parent="/kubepods/besteffort/pod1")
AGENT = Pod("p", namespace="kube-system", cgroup_parent="/kubepods/burstable/pod1")
OPEN = Tuning(classes={qos: ClassTuning(allow_namespaces=("shop",)) for qos in QoSClass})


def subject(pod: Pod = BURSTABLE, qos: QoSClass = QoSClass.SHARED, **facts: Any) -> gate.Subject:
    return gate.Subject(pod, qos, facts.pop("tuning", Tuning()), **facts)


def requesting(pod: Pod, milli: int, tuning: Tuning | None = None) -> gate.Subject:
    """Return a subject whose pod requests `milli` milli-CPU."""
    return gate.Subject(pod, QoSClass.SHARED, tuning or Tuning(), cpu_request=milli)


def refused(key: str, value: Any, who: gate.Subject) -> tuple[FindingKind, str]:
    with pytest.raises(gate.UnfitError) as caught:
        keys.judge(key, value, who)
    return caught.value.kind, caught.value.allowed


@pytest.mark.parametrize("qos", [QoSClass.SHARED, QoSClass.RECLAIMED, QoSClass.DEDICATED])
def test_an_ordinary_class_is_free_to_name(qos):
    assert gate.admit_class(qos, requesting(BURSTABLE, 1000)) is qos


ONE_CPU = r"a pod that requests 1 CPU \(classes.dedicated.minRequest\); this one requests "


@pytest.mark.parametrize(
    ("pod", "milli", "told"),
    [(BEST_EFFORT, 4000, "0"), (BURSTABLE, 0, "0"), (BURSTABLE, 999, "0.999")],
    ids=["best-effort", "none", "just-short"],
)
def test_dedicated_needs_a_request(pod, milli, told):
    with pytest.raises(gate.ShortError, match=f"{ONE_CPU}{told}$"):
        gate.admit_class(QoSClass.DEDICATED, requesting(pod, milli))


@pytest.mark.parametrize(("least", "is_enough"), [(500, True), (1500, True), (1501, False), (4000, False)])
def test_the_operator_says_how_much(least, is_enough):
    tuning = Tuning(classes={QoSClass.DEDICATED: ClassTuning(min_request=least)})
    asking = requesting(BURSTABLE, 1500, tuning)
    with nullcontext() if is_enough else pytest.raises(gate.ShortError):
        gate.admit_class(QoSClass.DEDICATED, asking)


def test_an_unknown_pods_request_is_its_containers():
    one, limited = (
        gate.Subject(BURSTABLE, QoSClass.SHARED, Tuning(), resources=resources)
        for resources in (Resources(shares=1024), Resources(shares=2, quota=600_000, period=100_000))
    )
    assert gate.admit_class(QoSClass.DEDICATED, one) is QoSClass.DEDICATED
    with pytest.raises(gate.ShortError):
        gate.admit_class(QoSClass.DEDICATED, limited)


def test_an_unknown_pods_class_waits_for_its_containers():
    alone = gate.Subject(BURSTABLE, QoSClass.SHARED, Tuning(), whole_pod=True)
    assert gate.admit_class(QoSClass.DEDICATED, alone) is QoSClass.DEDICATED
    with pytest.raises(gate.ShortError):
        gate.admit_class(QoSClass.DEDICATED, alone._replace(pod=BEST_EFFORT))


def test_a_rule_gives_no_cpus_without_a_request():
    rule = ClassRule(qos=QoSClass.DEDICATED, namespace="shop")
    assert gate.admit_rule(rule, requesting(BURSTABLE, 1000)) is QoSClass.DEDICATED
    with pytest.raises(gate.ShortError):
        gate.admit_rule(rule, requesting(BURSTABLE, 0))


def test_a_rule_gives_system_to_the_namespaces_that_the_operator_names():
    by_label = ClassRule(qos=QoSClass.SYSTEM, label=("role", "agent"))
    assert gate.admit_rule(replace(by_label, namespace="shop"), subject()) is QoSClass.SYSTEM
    assert gate.admit_rule(by_label, subject(tuning=OPEN)) is QoSClass.SYSTEM
    with pytest.raises(gate.UnfitError, match=r"classes.system.allowNamespaces: kube-system"):
        gate.admit_rule(by_label, subject())


@pytest.mark.parametrize(
    ("pod", "tuning"), [(AGENT, Tuning()), (BURSTABLE, OPEN)], ids=["default", "operator's"]
)
def test_system_is_for_allowed_namespaces(pod, tuning):
    assert gate.admit_class(QoSClass.SYSTEM, gate.Subject(pod, QoSClass.SHARED, tuning)) is QoSClass.SYSTEM


def test_system_is_for_no_other_namespace():
    with pytest.raises(gate.UnfitError, match=r"classes.system.allowNamespaces: kube-system"):
        gate.admit_class(QoSClass.SYSTEM, subject())


@pytest.mark.parametrize(
    ("key", "value"), [("preserve", frozenset({"cpu"})), ("avoidance", frozenset())], ids=str
)
def test_a_privilege_is_for_the_classs_namespaces(key, value):
    closed = Tuning(classes={QoSClass.SHARED: ClassTuning(allow_namespaces=())})
    assert keys.judge(key, value, subject(tuning=OPEN)) == value
    assert refused(key, value, subject(tuning=closed))[0] is FindingKind.DENIED


def test_a_namespace_of_another_class_gives_no_privilege():
    tuning = Tuning(classes={QoSClass.SYSTEM: ClassTuning(allow_namespaces=("shop",))})
    kind, allowed = refused("preserve", frozenset({"cpu"}), subject(tuning=tuning))
    assert (kind, allowed) == (
        FindingKind.DENIED,
        "preserve only in classes.shared.allowNamespaces: kube-system",
    )


def test_who_may_be_throttled_needs_no_privilege():
    assert keys.judge("avoidance", frozenset({"evict"}), subject()) == {"evict"}


def test_reclaimed_pods_refuse_throttling_in_allowed_namespaces_only():
    offline = subject(qos=QoSClass.RECLAIMED)
    kind, allowed = refused("avoidance", frozenset({"evict"}), offline)
    assert kind is FindingKind.DENIED
    assert allowed == "avoidance without throttle only in classes.reclaimed.allowNamespaces: kube-system"
    assert keys.judge("avoidance", frozenset({"throttle"}), offline) == {"throttle"}


@pytest.mark.parametrize(
    ("qos", "expected"),
    [(QoSClass.SHARED, Tolerance.LOW), (QoSClass.DEDICATED, Tolerance.LOW), (QoSClass.RECLAIMED, None)],
    ids=str,
)
def test_a_tolerance_is_for_online_classes(qos, expected):
    assert keys.judge("tolerance", Tolerance.LOW, subject(qos=qos)) is expected


@pytest.mark.parametrize("key", ["memory-limit", "memory-high"])
def test_a_percentage_of_the_limit_becomes_bytes(key):
    assert keys.judge(key, Amount(percent=50), subject(limit=1 << 30)) == 1 << 29


@pytest.mark.parametrize("key", ["memory-low", "memory-min"])
def test_a_percentage_of_the_request_becomes_bytes(key):
    assert keys.judge(key, Amount(percent=50), subject(request=1000)) == 500


@pytest.mark.parametrize("key", ["memory-limit", "memory-high"])
def test_a_part_with_which_nothing_starts_is_invalid(key):
    assert keys.judge(key, Amount(percent=50), subject(limit=2 * LEAST_MEMORY)) == LEAST_MEMORY
    assert refused(key, Amount(percent=49), subject(limit=2 * LEAST_MEMORY)) == (
        FindingKind.INVALID,
        "at least 4194304 bytes, because no container starts with less; this gives 4110417",
    )


@pytest.mark.parametrize("key", ["memory-limit", "memory-high", "memory-low", "memory-min"])
def test_a_percentage_of_nothing_is_invalid(key):
    assert refused(key, Amount(percent=50), subject())[0] is FindingKind.INVALID


@pytest.mark.parametrize("key", ["memory-low", "memory-min"])
def test_protection_goes_up_to_the_request_and_no_further(key):
    who = subject(request=1000)
    assert keys.judge(key, Amount(bytes=1000), who) == 1000
    assert refused(key, Amount(bytes=1001), who) == (
        FindingKind.DENIED,
        "at most the container's own memory request, of which 1000 bytes are certain",
    )


def test_no_protection_at_all_is_always_granted():
    assert keys.judge("memory-min", Amount(), subject()) == 0


@pytest.mark.parametrize("key", ["memory-limit", "memory-high", "memory-low", "memory-min"])
def test_nothing_is_said_about_the_memory_of_a_whole_pod(key):
    assert keys.judge(key, Amount(bytes=5), subject(whole_pod=True)) is None


@pytest.mark.parametrize(
    ("qos", "asked", "expected"),
    [
        (QoSClass.DEDICATED, -1000, -998),
        (QoSClass.DEDICATED, 1000, 0),
        (QoSClass.SHARED, -1000, -998),
        (QoSClass.SHARED, 1000, 999),
        (QoSClass.RECLAIMED, -1000, 500),
        (QoSClass.RECLAIMED, 700, 700),
        (QoSClass.SYSTEM, -1000, -999),
        (QoSClass.SYSTEM, 1000, 999),
    ],
)
def test_an_oom_score_is_clamped_to_the_band_of_the_class(qos, asked, expected):
    assert keys.judge("oom-score-adj", asked, subject(qos=qos, tuning=OPEN, score=100)) == expected


@pytest.mark.parametrize(
    ("qos", "name", "expected"),
    [
        (QoSClass.SHARED, "share", "share"),
        (QoSClass.SYSTEM, "system", "system"),
        (QoSClass.DEDICATED, "anything", None),
        (QoSClass.DEDICATED, "isolated", "isolated"),
        (QoSClass.RECLAIMED, "anything", None),
    ],
)
def test_a_pool_is_one_of_the_classs_own(qos, name, expected):
    assert keys.judge("cpu-pool", name, subject(qos=qos)) == expected


@pytest.mark.parametrize("name", ["reserved", "dedicated", "reclaim", "system", "gold"])
def test_no_annotation_leads_into_a_pool_of_others(name):
    assert refused("cpu-pool", name, subject()) == (FindingKind.INVALID, "for class shared: share")


def test_what_costs_nobody_anything_is_granted_as_it_is():
    assert keys.judge("priority", 7, subject()) == 7
