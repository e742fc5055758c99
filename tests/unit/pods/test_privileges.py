"""A pod gets only an OOM score and a weight that its request gives, in any class that it names."""

import json

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import Container, FindingKind, Pod, QoSClass, Resources, Wish
from nri_coloc.pods.annotations import resolve, resolve_as_pod, resolve_pod

P = "coloc.nri.io/"
KATALYST_MEMORY = "katalyst.kubewharf.io/memory_enhancement"
PARENTS = {
    "burstable": "/kubepods/burstable/pod1",
    "guaranteed": "/kubepods/pod1",
    "besteffort": "/kubepods/besteffort/pod1",
}
SCORES = {"burstable": 900, "guaranteed": -997, "besteffort": 1000}
"""The scores that the kubelet writes (pkg/kubelet/qos/policy.go); 900: a request of a tenth of the memory."""


def pod(kind: str, namespace: str = "shop", **annotations: str) -> Pod:
    mine = {P + key.replace("_", "-").replace("-FOR-", "."): value for key, value in annotations.items()}
    return Pod("p", namespace=namespace, annotations=mine, cgroup_parent=PARENTS[kind], cpu_request=1000)


def wish(of: Pod, tuning: Tuning | None = None, score: int | None = None, shares: int = 2) -> Wish:
    kind = next(kind for kind, parent in PARENTS.items() if parent == of.cgroup_parent)
    score = SCORES[kind] if score is None else score
    asked = Container("c", "p", "app", oom_score_adj=score, resources=Resources(shares))
    return resolve(of, asked, tuning or Tuning(), 64 << 30)


def classes(**defaults: int | str) -> Tuning:
    """Return settings with defaults of class shared."""
    return Tuning(classes={QoSClass.SHARED: ClassTuning(**defaults)})  # type: ignore[arg-type]  # by name


def denied(found: Wish) -> list[tuple[str, str]]:
    assert all(finding.kind is FindingKind.DENIED for finding in found.findings)
    return [(finding.key.removeprefix(P), finding.used) for finding in found.findings]


class TestScores:
    """oom-score-adj: as low as the kubelet's own score, lower in allowed namespaces only."""

    def test_a_best_effort_pod_outlives_nobody(self):
        found = wish(pod("besteffort", qos_class="shared", oom_score_adj="-998"))
        assert (found.knobs.oom_score_adj, denied(found)) == (None, [("oom-score-adj", "the kubelet's")])
        assert found.findings[0].allowed == (
            "1000, the kubelet's own score, or more; less only in classes.shared.allowNamespaces: kube-system"
        )

    @pytest.mark.parametrize(
        ("kind", "qos", "asked"),
        [
            ("burstable", "shared", "899"),
            ("burstable", "reclaimed", "899"),
            ("burstable", "dedicated", "-998"),
            ("guaranteed", "dedicated", "-998"),
            ("besteffort", "reclaimed", "500"),
        ],
    )
    def test_a_score_below_the_kubelets_is_denied(self, kind: str, qos: str, asked: str):
        found = wish(pod(kind, qos_class=qos, oom_score_adj=asked))
        assert [key for key, _ in denied(found)] == ["oom-score-adj"]
        assert found.annotated.oom_score_adj is None

    @pytest.mark.parametrize(
        ("kind", "qos", "asked", "expected"),
        [
            ("burstable", "shared", "900", 900),
            ("burstable", "shared", "950", 950),
            ("guaranteed", "shared", "500", 500),
            ("besteffort", "reclaimed", "1000", 1000),
        ],
    )
    def test_a_higher_score_is_free(self, kind: str, qos: str, asked: str, expected: int):
        found = wish(pod(kind, qos_class=qos, oom_score_adj=asked))
        assert (found.knobs.oom_score_adj, found.findings) == (expected, ())

    @pytest.mark.parametrize(
        ("kind", "qos", "own"), [("burstable", "dedicated", 900), ("besteffort", "shared", 1000)]
    )
    def test_the_band_lowers_no_score(self, kind: str, qos: str, own: int):
        found = wish(pod(kind, qos_class=qos, oom_score_adj="1000"))
        assert (found.knobs.oom_score_adj, found.findings) == (own, ())

    def test_an_allowed_namespace_has_the_whole_band(self):
        found = wish(pod("besteffort", "kube-system", qos_class="shared", oom_score_adj="-1000"))
        assert (found.knobs.oom_score_adj, found.findings) == (-998, ())

    @pytest.mark.parametrize(
        ("kind", "asked", "expected"),
        [("besteffort", "999", None), ("burstable", "998", None), ("burstable", "999", 999)],
    )
    def test_an_untold_score_is_the_highest_of_its_kind(self, kind: str, asked: str, expected: int | None):
        of = pod(kind, qos_class="shared", oom_score_adj=asked)
        untold = Container("c", "p", "app", resources=Resources(2))
        assert resolve(of, untold, Tuning(), 64 << 30).knobs.oom_score_adj == expected

    def test_another_vocabulary_gets_no_lower_score(self):
        of = pod("besteffort", qos_class="reclaimed")
        lowest = {**of.annotations, KATALYST_MEMORY: json.dumps({"oom_priority": "300"})}
        found = wish(Pod("p", namespace="shop", annotations=lowest, cgroup_parent=of.cgroup_parent))
        assert found.knobs.oom_score_adj == 1000
        assert [key for key, _ in denied(found)] == [f"{KATALYST_MEMORY}[oom_priority]"]

    def test_a_pod_without_a_container_has_none(self):
        found = resolve_pod(pod("besteffort", qos_class="shared", oom_score_adj="-998"), Tuning())
        assert (found.knobs.oom_score_adj, found.findings) == (None, ())


class TestWeights:
    """io-weight: more than the kernel's 100 is not for BestEffort and reclaimed pods."""

    @pytest.mark.parametrize(
        ("kind", "qos", "used"), [("besteffort", "shared", None), ("burstable", "reclaimed", 10)]
    )
    def test_an_offline_pod_weighs_no_more_than_others(self, kind: str, qos: str, used: int | None):
        found = wish(pod(kind, qos_class=qos, io_weight="10000"))
        assert [key for key, _ in denied(found)] == ["io-weight"]
        assert (found.annotated.io_weight, found.knobs.io_weight) == (None, used)
        assert found.findings[0].allowed == (
            "at most 100 for a BestEffort or reclaimed pod; "
            f"more only in classes.{qos}.allowNamespaces: kube-system"
        )

    @pytest.mark.parametrize(
        ("kind", "qos", "namespace", "asked"),
        [
            ("besteffort", "reclaimed", "shop", "100"),
            ("burstable", "shared", "shop", "10000"),
            ("besteffort", "reclaimed", "kube-system", "10000"),
        ],
        ids=["the kernel's", "an online pod", "an allowed namespace"],
    )
    def test_a_weight_is_granted(self, kind: str, qos: str, namespace: str, asked: str):
        found = wish(pod(kind, namespace, qos_class=qos, io_weight=asked))
        assert (found.knobs.io_weight, found.findings) == (int(asked), ())

    def test_the_pods_own_weight_is_bounded_too(self):
        found = resolve_pod(pod("besteffort", qos_class="shared", io_weight="10000"), Tuning())
        assert found.knobs.io_weight is None

    def test_a_reclaimed_container_of_an_online_pod_is_bounded(self):
        found = wish(pod("burstable", qos_class_FOR_app="reclaimed", io_weight="10000"))
        assert (found.knobs.io_weight, denied(found)) == (10, [("io-weight", "10")])


class TestClassesOfTheRuntime:
    """Only the runtime knows the effect of these names."""

    @pytest.mark.parametrize("kind", list(PARENTS))
    def test_an_rdt_class_needs_an_allowed_namespace(self, kind: str):
        assert denied(wish(pod(kind, qos_class="shared", rdt_class="gold"))) == [("rdt-class", "none")]
        assert wish(pod(kind, "kube-system", rdt_class="gold")).knobs.rdt_class == "gold"

    @pytest.mark.parametrize(("kind", "qos"), [("besteffort", "shared"), ("burstable", "reclaimed")])
    def test_an_offline_pod_names_no_blockio_class(self, kind: str, qos: str):
        found = wish(pod(kind, qos_class=qos, blockio_class="fast"))
        assert denied(found) == [("blockio-class", "none")]

    def test_an_online_pod_may_name_a_blockio_class(self):
        assert wish(pod("burstable", blockio_class="slow")).knobs.blockio_class == "slow"


class TestDefaultsOfAClass:
    """The operator's defaults of a class are not for a pod that only claims to be of that class."""

    EVERYTHING = classes(
        oom_score_adj=-900, io_weight=500, cpu_shares=4096, memory_min="1Gi", memory_low="2Gi"
    )

    @pytest.mark.parametrize(
        "annotations",
        [{P + "qos-class": "shared"}, {"volcano.sh/qos-level": "LS"}],
        ids=["ours", "another vocabulary"],
    )
    def test_a_best_effort_pod_gets_none(self, annotations: dict[str, str]):
        of = Pod("p", namespace="shop", annotations=annotations, cgroup_parent=PARENTS["besteffort"])
        assert wish(of, self.EVERYTHING).knobs == Knobs()

    def test_a_label_that_a_rule_names_gives_none(self):
        rules = (ClassRule(qos=QoSClass.SHARED, label=("tier", "gold")),)
        tuning = Tuning(rules=rules, classes=self.EVERYTHING.classes)
        of = Pod("p", namespace="shop", labels={"tier": "gold"}, cgroup_parent=PARENTS["besteffort"])
        assert wish(of, tuning).knobs == Knobs()

    def test_a_rule_that_names_the_namespace_gives_all(self):
        rules = (ClassRule(qos=QoSClass.SHARED, namespace="shop", label=("tier", "gold")),)
        tuning = Tuning(rules=rules, classes=classes(oom_score_adj=-900, io_weight=500).classes)
        of = Pod("p", namespace="shop", labels={"tier": "gold"}, cgroup_parent=PARENTS["besteffort"])
        assert wish(of, tuning).knobs == Knobs(oom_score_adj=-900, io_weight=500)

    def test_naming_the_class_that_one_has_changes_nothing(self):
        tuning = classes(oom_score_adj=-900, io_weight=500, cpu_shares=4096)
        said, silent = pod("burstable", qos_class="shared"), pod("burstable")
        assert (
            wish(said, tuning).knobs
            == wish(silent, tuning).knobs
            == Knobs(shares=4096, oom_score_adj=-900, io_weight=500)
        )

    def test_an_allowed_namespace_gets_all(self):
        tuning = classes(oom_score_adj=-900, io_weight=500)
        found = wish(pod("besteffort", "kube-system", qos_class="shared"), tuning)
        assert found.knobs == Knobs(oom_score_adj=-900, io_weight=500)

    def test_a_default_that_only_takes_is_given(self):
        found = wish(pod("burstable", qos_class="reclaimed"))
        assert found.knobs == Knobs(shares=2, oom_score_adj=1000, io_weight=10)

    def test_an_online_pod_may_have_its_classs_weight(self):
        tuning = Tuning(classes={QoSClass.DEDICATED: ClassTuning(io_weight=500, oom_score_adj=-500)})
        found = wish(pod("burstable", qos_class="dedicated"), tuning, shares=1024)
        assert found.knobs == Knobs(io_weight=500)

    def test_the_pods_own_wish_has_none_either(self):
        found = resolve_pod(pod("besteffort", qos_class="shared"), classes(io_weight=500, oom_score_adj=-9))
        assert found.knobs == Knobs()

    def test_a_labelled_pods_containers_are_read_one_by_one(self):
        rules = (ClassRule(qos=QoSClass.SHARED, label=("tier", "gold")),)
        tuning = Tuning(rules=rules, classes=classes(oom_score_adj=950).classes)
        of = Pod("p", namespace="shop", labels={"tier": "gold"}, cgroup_parent=PARENTS["besteffort"])
        asked = Container("c", "p", "app", oom_score_adj=1000)
        assert resolve_as_pod(resolve_pod(of, tuning), asked) is None
