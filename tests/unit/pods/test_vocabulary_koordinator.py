"""Each of Koordinator's labels and annotations becomes a part of the wish of its class; a bad one is reported."""

from typing import Any

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Numa, Placement, Pod, QoSClass, Resources
from nri_coloc.pods.annotations import resolve_pod
from tests.unit.pods.vocabulary_kit import GIB, told, wish

QOS, PRIORITY = "koordinator.sh/qosClass", "koordinator.sh/priority"
LENT = "node.koordinator.sh/extended-resource-spec"
STATUS, SPEC = (f"scheduling.koordinator.sh/resource-{name}" for name in ("status", "spec"))
BURST = "koordinator.sh/cpuBurst"
CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
INVALID = "annotation.invalid"


# --- labels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "qos"),
    [
        ("LSE", QoSClass.DEDICATED),
        ("LSR", QoSClass.DEDICATED),
        ("LS", QoSClass.SHARED),
        ("BE", QoSClass.RECLAIMED),
    ],
)
def test_a_label_is_a_class(label, qos):
    found = wish(labels={QOS: label})
    assert (found.qos, found.because, found.findings) == (qos, f"label {QOS}", ())


def test_a_label_of_another_word_is_told():
    found = wish(labels={QOS: "be"})
    assert (found.qos, told(found)) == (QoSClass.SHARED, [(INVALID, QOS, "be")])


def test_as_an_annotation_the_class_means_nothing():
    assert wish({QOS: "BE"}) == wish()


def test_a_priority_is_ours():
    assert wish(labels={PRIORITY: "-7"}).priority == -7


def test_a_pods_own_wish_reads_labels_too_and_is_not_plain():
    found = resolve_pod(Pod("p", labels={QOS: "BE"}), Tuning())
    assert (found.qos, found.plain, found.mixed) == (QoSClass.RECLAIMED, False, False)


def test_a_container_of_another_class_of_ours_makes_the_pod_mixed():
    of = Pod("p", labels={QOS: "BE"}, annotations={"coloc.nri.io/qos-class.app": "shared"})
    assert resolve_pod(of, Tuning()).mixed


# --- loans -----------------------------------------------------------------------------------------------


def lent(requests: object = None, limits: object = None, name: str = "app") -> dict[str, object]:
    return {LENT: {"containers": {name: {"requests": requests, "limits": limits}}}}


def lent_wish(requests: object = None, limits: object = None, **container: Any):
    return wish(lent(requests, limits), labels={QOS: "BE"}, **container)


def test_a_reclaimed_container_gets_what_it_was_lent():
    found = lent_wish({CPU: "500"}, {CPU: "2000", MEMORY: "1Gi"}, shares=2)
    expected = Knobs(shares=512, quota=200_000, period=100_000, memory_limit=GIB)
    assert (found.annotated, found.findings) == (expected, ())
    assert found.knobs == expected._replace(oom_score_adj=1000, io_weight=10)


def test_a_limit_stands_in_for_a_request():
    assert lent_wish(None, {CPU: "1k"}).annotated == Knobs(shares=1024, quota=100_000, period=100_000)


def test_amounts_may_be_numbers():
    found = lent_wish({CPU: 1}, {CPU: 10, MEMORY: 4 << 20})
    assert found.annotated == Knobs(shares=2, quota=1000, period=100_000, memory_limit=4 << 20)


def test_an_amount_weighs_no_more_than_one_cpu():
    found = lent_wish({CPU: "8000000"}, {CPU: "8000"})
    assert found.annotated == Knobs(shares=1024, quota=800_000, period=100_000)


def test_nothing_lent_is_no_limit():
    found = lent_wish({CPU: "0"}, {CPU: "0", MEMORY: "0"})
    assert (found.annotated, found.findings) == (Knobs(), ())


def test_another_containers_amounts_are_its_own():
    assert wish(lent({CPU: "500"}, name="log"), labels={QOS: "BE"}).annotated == Knobs()


def test_only_reclaimed_containers_are_lent_anything():
    found = wish(lent({CPU: "500"}, {CPU: "500", MEMORY: "1Gi"}), labels={QOS: "LS"})
    assert (found.knobs, found.findings) == (Knobs(), ())


@pytest.mark.parametrize(
    ("native", "left"),
    [
        ({"shares": 512}, Knobs(quota=50_000, period=100_000, memory_limit=GIB)),
        ({"quota": 20_000}, Knobs(shares=512, memory_limit=GIB)),
        ({"memory_limit": 7}, Knobs(shares=512, quota=50_000, period=100_000)),
        ({"pod": {"resources": Resources(quota=9)}}, Knobs(shares=512, memory_limit=GIB)),
        (
            {"pod": {"resources": Resources(shares=9)}},
            Knobs(shares=512, quota=50_000, period=100_000, memory_limit=GIB),
        ),
    ],
    ids=["shares", "quota", "memory", "the pod's quota", "the pod has none"],
)
def test_a_value_of_the_kubelets_stays_the_kubelets(native, left):
    assert lent_wish(None, {CPU: "500", MEMORY: "1Gi"}, **native).annotated == left


def test_our_own_memory_limit_comes_first():
    annotations = {**lent(None, {MEMORY: "1Gi"}), "coloc.nri.io/memory-limit": "2Gi"}
    assert wish(annotations, labels={QOS: "BE"}).knobs.memory_limit == 2 * GIB


@pytest.mark.parametrize(
    ("amount", "hint"),
    [
        ("200m", "did you mean 200?"),
        ("1.5", "without m, a limit from 10 on"),
        ("1.5m", "without m, a limit from 10 on"),
        ("5u", "without m, a limit from 10 on"),
        ("8", "did you mean 8000?"),
    ],
)
def test_a_mistaken_unit_is_refused_with_a_hint(amount, hint):
    found = lent_wish(None, {CPU: amount})
    (finding,) = found.findings
    assert (finding.kind.value, finding.key, finding.value) == (
        INVALID,
        f"{LENT}[app][limits][{CPU}]",
        amount,
    )
    assert finding.allowed.endswith(hint)
    assert (found.annotated, finding.used) == (Knobs(), "no quota")


def test_a_good_limit_holds_beside_a_bad_request():
    found = lent_wish({CPU: "x"}, {CPU: "500"})
    assert (found.knobs.shares, found.knobs.quota) == (2, 50_000)
    assert told(found) == [(INVALID, f"{LENT}[app][requests][{CPU}]", "x")]
    assert found.findings[0].used == "shares 2"


def test_a_bad_limit_is_reported_beside_a_good_one():
    found = lent_wish({CPU: "500"}, {CPU: "-1", MEMORY: "lots"})
    assert [key for _, key, _ in told(found)] == [
        f"{LENT}[app][limits][{MEMORY}]",
        f"{LENT}[app][limits][{CPU}]",
    ]


def test_more_than_any_machine_has_is_told():
    assert len(lent_wish({CPU: "8192001"}).findings) == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"containers": []}', '{"containers": {"app": 7}}', '{"containers": {"app": {"limits": 7}}}'],
)
def test_json_of_another_shape_is_one_finding(text):
    found = wish({LENT: text}, labels={QOS: "BE"})
    assert told(found) == [(INVALID, LENT, text)]


# --- CPUs chosen by the scheduler ------------------------------------------------------------------------


def test_chosen_cpus_are_a_dedicated_containers_order():
    found = wish({STATUS: {"cpuset": "0-1,6"}}, labels={QOS: "LSR"})
    assert (found.cpus_ordered, found.origins) == (
        0b1000011,
        (("ordered-cpus", f"{STATUS}[cpuset]", "0-1,6"),),
    )


@pytest.mark.parametrize("label", ["LS", "BE"])
def test_others_are_not_pinned_by_it(label):
    found = wish({STATUS: {"cpuset": "0-1", "numaNodeResources": [{"node": 1}]}}, labels={QOS: label})
    assert (found.cpus_ordered, found.numa, found.numa_ids) == (0, Numa.NONE, 0)


def test_an_empty_choice_says_nothing():
    assert wish({STATUS: {"cpuset": "", "numaNodeResources": []}}) == wish()


@pytest.mark.parametrize("cpus", ["x", "3-1", "99999", 7, "0," * 3000])
def test_a_bad_choice_is_told(cpus):
    found = wish({STATUS: {"cpuset": cpus}}, labels={QOS: "LSE"})
    assert (found.cpus_ordered, [key for _, key, _ in told(found)]) == (0, [f"{STATUS}[cpuset]"])
    assert found.findings[0].used == "CPUs chosen by the plugin"


def test_chosen_nodes_are_a_binding_to_them():
    nodes = [{"node": 1, "resources": {"cpu": "2"}}, {"resources": {}}]  # Go leaves out a node 0
    found = wish({STATUS: {"numaNodeResources": nodes}}, labels={QOS: "LSR"})
    assert (found.numa, found.numa_ids, found.findings) == (Numa.SINGLE, 0b11, ())


@pytest.mark.parametrize(
    "nodes",
    ["x", {"node": 1}, [1], [{"node": "1"}], [{"node": -1}], [{"node": 1024}], [{"node": True}]],
    ids=str,
)
def test_bad_nodes_are_told_once(nodes):
    found = wish({STATUS: {"numaNodeResources": nodes}}, labels={QOS: "LSR"})
    assert (found.numa, [key for _, key, _ in told(found)]) == (Numa.NONE, [f"{STATUS}[numaNodeResources]"])


@pytest.mark.parametrize(
    ("spec", "placement"),
    [
        ({"requiredCPUBindPolicy": "FullPCPUs"}, Placement.FULL_CORES),
        ({"preferredCPUBindPolicy": "FullPCPUs"}, Placement.PACKED),
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, Placement.SPREAD),
        (
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "SpreadByPCPUs"},
            Placement.FULL_CORES,
        ),
        ({"requiredCPUBindPolicy": "", "preferredCPUBindPolicy": "SpreadByPCPUs"}, Placement.SPREAD),
        (
            {"preferredCPUBindPolicy": "ConstrainedBurst", "preferredCPUExclusivePolicy": "None"},
            Placement.PACKED,
        ),
    ],
)
def test_a_bind_policy_is_a_placement(spec, placement):
    found = wish({SPEC: spec}, labels={QOS: "LSR"})
    assert (found.placement, found.findings) == (placement, ())


def test_an_unknown_bind_policy_is_told():
    found = wish({SPEC: {"requiredCPUBindPolicy": ["FullPCPUs"]}})
    assert told(found) == [(INVALID, f"{SPEC}[requiredCPUBindPolicy]", "an object or a list")]


# --- burst -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("burst", "percent"),
    [
        ({"policy": "none", "cpuBurstPercent": 50}, 0),
        ({"policy": "cpuBurstOnly", "cpuBurstPercent": 50}, 50),
        ({"policy": "auto", "cpuBurstPercent": 1000}, 100),
        ({"policy": "auto"}, 100),
        ({"policy": "cfsQuotaBurstOnly", "cfsQuotaBurstPercent": 300}, 0),
        ({"cpuBurstPercent": 50}, 50),
        ({}, None),
    ],
)
def test_a_burst_is_a_percentage_that_the_kernel_takes(burst, percent):
    found = wish({BURST: burst}, labels={QOS: "LS"})
    assert (found.cpu_burst_percent, found.findings) == (percent, ())


@pytest.mark.parametrize("label", ["LSE", "BE"])
def test_only_pooled_online_pods_burst(label):
    assert wish({BURST: {"policy": "auto"}}, labels={QOS: label}).cpu_burst_percent is None


@pytest.mark.parametrize(
    ("burst", "inner", "percent"),
    [
        ({"policy": "auto", "cpuBurstPercent": -5}, "cpuBurstPercent", 100),
        ({"policy": "much"}, "policy", None),
        ({"policy": ["auto"]}, "policy", None),
    ],
)
def test_a_bad_burst_is_told(burst, inner, percent):
    found = wish({BURST: burst})
    assert (found.cpu_burst_percent, [key for _, key, _ in told(found)]) == (percent, [f"{BURST}[{inner}]"])


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LENT, STATUS, SPEC, BURST])
@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000, "9" * 5000, '"\\ud800"', "nul"])
def test_no_json_is_more_than_a_finding(name, text):
    found = wish({name: text})
    (finding,) = found.findings
    assert (finding.key, len(finding.value) <= 256) == (name, True)
    assert (finding.key + finding.value).encode()


def test_large_annotations_are_read_and_not_kept():
    many = {f"c{n}": {"requests": {CPU: "500"}} for n in range(500)}
    annotations = {LENT: {"containers": {**many, "app": {"requests": {CPU: "1000"}}}}}
    assert wish(annotations, labels={QOS: "BE"}).knobs.shares == 1024
