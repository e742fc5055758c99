"""A pod that names no class gets one from the operator's rules, or from its Kubernetes QoS class."""

import pytest

from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import Pod, QoSClass
from nri_coloc.pods import gate

BATCH = ClassRule(qos=QoSClass.RECLAIMED, namespace="batch-*")
COLOCATION = ClassRule(qos=QoSClass.RECLAIMED, annotation=("caster.io/resource-type", "colocation"))
TIER = ClassRule(qos=QoSClass.DEDICATED, label=("tier", "gold"), namespace="shop")


def said(pod: Pod, *rules: ClassRule) -> tuple[QoSClass, str]:
    found = next(gate.by_operator(pod, Tuning(rules=rules)), None)
    return (found[0].qos, found[1]) if found is not None else gate.by_kubernetes(pod)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (Pod("p", cgroup_parent="/kubepods/pod1"), (QoSClass.SHARED, "default")),
        (Pod("p"), (QoSClass.SHARED, "default")),
        (
            Pod("p", cgroup_parent="kubepods-besteffort-pod1.slice"),
            (QoSClass.RECLAIMED, "Kubernetes BestEffort"),
        ),
        (
            Pod("p", namespace="kube-system", cgroup_parent="/kubepods/besteffort/pod1"),
            (QoSClass.SYSTEM, "namespace kube-system"),
        ),
    ],
    ids=["guaranteed", "nothing known", "best effort", "kube-system before best effort"],
)
def test_kubernetes_decides_without_rules(pod, expected):
    assert said(pod) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (Pod("p", namespace="batch-7"), (QoSClass.RECLAIMED, "rule 1 (namespace batch-*)")),
        (
            Pod("p", annotations={"caster.io/resource-type": "colocation"}),
            (QoSClass.RECLAIMED, "rule 2 (annotation caster.io/resource-type=colocation)"),
        ),
        (
            Pod("p", namespace="shop", labels={"tier": "gold"}),
            (QoSClass.DEDICATED, "rule 3 (label tier=gold, namespace shop)"),
        ),
        (Pod("p", namespace="other", labels={"tier": "gold"}), (QoSClass.SHARED, "default")),
        (Pod("p", namespace="shop", labels={"tier": "tin"}), (QoSClass.SHARED, "default")),
        (Pod("p", namespace="Batch-7"), (QoSClass.SHARED, "default")),
    ],
    ids=["glob", "annotation", "both hold", "wrong namespace", "wrong label", "case matters"],
)
def test_a_rule_holds_when_everything_it_names_holds(pod, expected):
    assert said(pod, BATCH, COLOCATION, TIER) == expected


def test_the_first_rule_that_fits_decides():
    rules = (ClassRule(qos=QoSClass.SYSTEM, namespace="*"), BATCH)
    assert said(Pod("p", namespace="batch-1"), *rules)[0] is QoSClass.SYSTEM


def test_a_class_without_settings_is_left_alone():
    assert gate.tuned(Tuning(classes={}), QoSClass.RECLAIMED) == ClassTuning()


def test_a_namespace_matches_any_of_the_globs():
    assert gate.matches("team-a", ("kube-system", "team-*"))


def test_no_globs_match_no_namespace():
    assert not gate.matches("kube-system", ())
