"""Invariants of every pod that a user could write."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri_coloc.core import workload
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import PREFIX, Container, FindingKind, Pod, QoSClass, Resources, Wish
from nri_coloc.pods import annotations, gate, keys, quantity
from nri_coloc.pods.gate import BANDS

CAPACITY = 64 << 30
VALUES = st.one_of(
    st.sampled_from(
        [
            "dedicated",
            "shared",
            "reclaimed",
            "system",
            "single",
            "exclusive",
            "none",
            "0-1",
            "1",
            "2",
            "50%",
            "1Gi",
            "40Gi",
            "512Mi",
            "100",
            "-1000",
            "1000",
            "throttle,evict",
            "cpu",
            "cpu,memory",
            "share",
            "reserved",
        ]  # fmt: skip - a pile of values, not a table
    ),
    st.text(max_size=20),
)
NAMES = st.one_of(
    st.sampled_from([*keys.KEYS, *(f"{key}.app" for key in keys.KEYS), "record", "containers.app", "typo"]),
    st.text(max_size=10),
)
JSON = st.sampled_from(
    [
        '{"app": {"io-weight": "7", "qos-class": "system"}}',
        '{"app": {"memory-min": "60Gi"}}',
        '{"log": {"record": "x"}}',
        "{",
    ]
)
OURS = st.builds(
    lambda found, json: {PREFIX + name: value for name, value in {**found, **json}.items()},
    st.dictionaries(NAMES, VALUES, max_size=8),
    st.dictionaries(st.just("containers"), JSON, max_size=1),
)
LENT = {
    "node.koordinator.sh/extended-resource-spec": json.dumps(
        {
            "containers": {
                "app": {part: {"kubernetes.io/batch-cpu": "2000"} for part in ("requests", "limits")}
            }
        }
    )
}
RECLAIMED = Pod("p", cgroup_parent="/kubepods/besteffort/pod1")
PODS = st.builds(
    Pod,
    st.just("p"),
    namespace=st.sampled_from(["shop", "kube-system", "batch-1"]),
    annotations=OURS,
    cgroup_parent=st.sampled_from(
        ["", "/kubepods/pod1", "/kubepods/burstable/pod1", "/kubepods/besteffort/pod1"]
    ),
)
CONTAINERS = st.builds(
    lambda name, score, shares, limit: Container(
        "c", "p", name, oom_score_adj=score, resources=Resources(shares, memory_limit=limit)
    ),
    st.sampled_from(["app", "log", ""]),
    st.one_of(st.none(), st.integers(-1000, 1000)),
    st.one_of(st.none(), st.sampled_from([0, 2, 512, 4096])),
    st.one_of(st.none(), st.sampled_from([-1, 0, 1 << 20, 8 << 30, 1 << 63])),
)
TUNINGS = st.sampled_from(
    [
        Tuning(),
        Tuning(rules=(ClassRule(qos=QoSClass.RECLAIMED, namespace="batch-*"),)),
        Tuning(
            classes={
                q: ClassTuning(memory_high="90%", memory_min="1%", cpu_burst=20, allow_namespaces=("shop",))
                for q in QoSClass
            }
        ),
    ]
)


def resolve(pod: Pod, container: Container, tuning: Tuning) -> Wish:
    return annotations.resolve(pod, container, tuning, CAPACITY)


@given(PODS, CONTAINERS, TUNINGS)
def test_every_wish_keeps_within_what_its_pod_may_have(pod, container, tuning):
    wish = resolve(pod, container, tuning)
    request = workload.certain_memory(pod, container, CAPACITY)
    assert (wish.annotated.memory_min or 0) <= request
    assert (wish.annotated.memory_low or 0) <= request
    score = wish.annotated.oom_score_adj
    assert score is None or BANDS[wish.qos][0] <= score <= BANDS[wish.qos][1]
    assert wish.pool in ("", "share", "system")
    if pod.namespace == "batch-1":  # no class names it
        assert (wish.preserve, wish.avoidance) != (frozenset({"cpu"}), frozenset())
        assert not wish.preserve
        assert wish.avoidance != frozenset()
        assert wish.qos is not QoSClass.SYSTEM


@given(PODS, CONTAINERS, TUNINGS)
def test_a_burst_is_the_annotations_or_the_classs(pod, container, tuning):
    wish = resolve(pod, container, tuning)
    of_class = tuning.classes[wish.qos].cpu_burst
    if wish.burst_because.startswith("annotation "):
        assert 0 <= (-1 if wish.cpu_burst_percent is None else wish.cpu_burst_percent) <= 100
    elif of_class:
        assert (wish.cpu_burst_percent, wish.burst_because) == (of_class, f"classes.{wish.qos}.cpuBurst")
    else:
        assert (wish.cpu_burst_percent, wish.burst_because) == (None, "")


@given(PODS, CONTAINERS, TUNINGS)
def test_every_finding_is_fit_to_be_shown(pod, container, tuning):
    for finding in (
        *resolve(pod, container, tuning).findings,
        *annotations.resolve_pod(pod, tuning).findings,
    ):
        assert finding.key.startswith(PREFIX)
        assert len(finding.key) <= 256 >= len(finding.value)
        assert finding.allowed
        assert finding.used
        assert (finding.key + finding.value).encode()


@given(PODS, CONTAINERS, TUNINGS)
def test_the_order_in_which_the_runtime_sends_annotations_means_nothing(pod, container, tuning):
    turned = replace(pod, annotations=dict(reversed(pod.annotations.items())))
    assert resolve(turned, container, tuning) == resolve(pod, container, tuning)
    assert annotations.resolve_pod(turned, tuning) == annotations.resolve_pod(pod, tuning)


@given(PODS, CONTAINERS, TUNINGS, st.sampled_from([{}, LENT]), st.sampled_from([None, -1, 0, 5000, 300_000]))
@example(RECLAIMED, Container("c", "p", "app"), Tuning(), LENT, 300_000)
def test_a_wish_follows_from_the_figures_alone(pod, container, tuning, others, quota):
    pod = replace(pod, annotations={**pod.annotations, **others})
    resources = replace(container.resources, quota=quota, period=100_000, cpus="3", mems="0")
    changed = replace(container, resources=resources, pid=7, record="")
    wish = resolve(pod, container, tuning)
    if gate.figures(changed, wish.qos) == gate.figures(container, wish.qos):
        assert resolve(pod, changed, tuning) == wish


@given(PODS, CONTAINERS, TUNINGS)
def test_what_an_annotation_orders_is_among_the_knobs(pod, container, tuning):
    wish = resolve(pod, container, tuning)
    assert wish.annotated.named().items() <= wish.knobs.named().items()


@given(PODS, CONTAINERS, TUNINGS)
def test_a_native_request_keeps_its_shares_quota_and_limit(pod, container, tuning):
    knobs = resolve(pod, container, tuning).knobs
    assert (knobs.cpus, knobs.mems, knobs.quota, knobs.period, knobs.burst) == (None,) * 5
    assert knobs.shares is None or (container.resources.shares or 0) <= 2
    if not any("memory-limit" in name + text for name, text in pod.annotations.items()):
        assert knobs.memory_limit is None


@given(PODS, CONTAINERS, TUNINGS)
def test_a_pod_that_our_record_is_written_on_is_told(pod, container, tuning):
    marked = replace(pod, annotations={**pod.annotations, PREFIX + "record": "{}"})
    denied = [f.key for f in resolve(marked, container, tuning).findings if f.kind is FindingKind.DENIED]
    assert PREFIX + "record" in denied


@given(CONTAINERS, TUNINGS, st.dictionaries(st.text(max_size=30), st.text(max_size=30)))
def test_annotations_of_others_change_nothing(container, tuning, others):
    others = {name: text for name, text in others.items() if not name.startswith(PREFIX)}
    assert resolve(Pod("p", annotations=others), container, tuning) == resolve(Pod("p"), container, tuning)


@pytest.mark.parametrize("pod", [Pod("p", cgroup_parent="/kubepods/burstable/pod1")])
@given(request=st.integers(0, 1 << 43), capacity=st.integers(1, 1 << 43))
def test_a_certain_request_is_never_above_the_true_one(pod, request, capacity):
    # pkg/kubelet/qos/policy.go, GetContainerOOMScoreAdjust
    score = min(max(1000 - 1000 * request // capacity, 3), 999)
    certain = workload.certain_memory(pod, Container("c", "p", oom_score_adj=score), capacity)
    assert certain <= request


@given(
    st.integers(0, 10**12),
    st.integers(0, 6),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "e3", "E-2"]),
)
def test_a_quantity_is_what_exact_arithmetic_says(digits, behind, suffix):
    scale = {"": Fraction(1), "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9)}
    scale |= {"Ki": Fraction(1024), "Mi": Fraction(1 << 20), "e3": Fraction(1000), "E-2": Fraction(1, 100)}
    scale |= {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    text = f"{digits:0{behind + 1}d}"
    text = f"{text[: len(text) - behind]}.{text[len(text) - behind :]}{suffix}"
    exact = Fraction(digits, 10**behind) * scale[suffix]
    rounded_up = -(-exact.numerator // exact.denominator)
    if rounded_up > quantity.LARGEST:
        with pytest.raises(ValueError):
            quantity.whole_bytes(text)
    else:
        assert quantity.whole_bytes(text) == rounded_up


def test_a_wish_names_no_knob_that_annotations_cannot_order():
    ordered = set(annotations.KNOBS.values())
    assert ordered <= set(Knobs._fields)
