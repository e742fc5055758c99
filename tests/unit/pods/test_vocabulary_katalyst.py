"""Each of Katalyst's annotations becomes a part of the wish; a bad one is reported."""

import json

import pytest

from nri_coloc.core.workload import Numa, Placement, QoSClass
from tests.unit.pods.vocabulary_kit import told, wish

K = "katalyst.kubewharf.io/"
LEVEL, CPU, MEMORY, NETWORK = (
    K + key for key in ("qos_level", "cpu_enhancement", "memory_enhancement", "network_enhancement")
)
INVALID, DENIED = "annotation.invalid", "annotation.denied"


@pytest.mark.parametrize(
    ("level", "qos"),
    [
        ("dedicated_cores", QoSClass.DEDICATED),
        ("shared_cores", QoSClass.SHARED),
        ("reclaimed_cores", QoSClass.RECLAIMED),
    ],
)
def test_a_level_is_a_class(level, qos):
    found = wish({LEVEL: level})
    assert (found.qos, found.because, found.findings) == (qos, f"annotation {LEVEL}", ())


def test_system_cores_are_for_system_namespaces():
    inside, outside = (
        wish({LEVEL: "system_cores"}, pod={"namespace": "kube-system"}),
        wish({LEVEL: "system_cores"}),
    )
    assert (inside.qos, outside.qos) == (QoSClass.SYSTEM, QoSClass.SHARED)
    assert told(outside) == [(DENIED, LEVEL, "system_cores")]
    assert outside.findings[0].used == "shared"


def test_dedicated_cores_need_a_request():
    found = wish({LEVEL: "dedicated_cores"}, pod={"cgroup_parent": "/kubepods/besteffort/pod1"})
    assert (found.qos, told(found)) == (QoSClass.RECLAIMED, [(DENIED, LEVEL, "dedicated_cores")])


def test_even_parts_and_one_socket_are_wishes_of_their_own():
    found = wish(
        {
            LEVEL: "dedicated_cores",
            MEMORY: json.dumps({"numa_binding": "true"}),
            CPU: json.dumps({"align_by_socket": "true", "distribute_evenly_across_numa": "true"}),
        }
    )
    assert (found.numa, found.one_socket, found.evenly) == (Numa.SINGLE, True, True)
    off = wish({LEVEL: "dedicated_cores", CPU: json.dumps({"align_by_socket": "false"})})
    assert (off.one_socket, off.evenly, off.findings) == (False, False, ())


@pytest.mark.parametrize(
    ("key", "used"),
    [
        ("align_by_socket", "one, or as many as numa-count needs"),
        ("distribute_evenly_across_numa", "equal to the core"),
    ],
)
def test_what_switches_neither_on_nor_off_is_told(key, used):
    found = wish({LEVEL: "dedicated_cores", CPU: json.dumps({key: "yes"})})
    assert told(found) == [(INVALID, f"{CPU}[{key}]", "yes")]
    assert found.findings[0].used == used


def test_an_unknown_level_is_told_and_counts_as_absent():
    found = wish({LEVEL: "some_cores"})
    assert (found.qos, found.because, told(found)) == (
        QoSClass.SHARED,
        "default",
        [(INVALID, LEVEL, "some_cores")],
    )
    assert found.findings[0].allowed.startswith("one of dedicated_cores, ")


def test_a_bad_level_leaves_the_word_to_the_next_vocabulary():
    found = wish({LEVEL: "some_cores", "volcano.sh/qos-level": "BE"})
    assert (found.qos, found.because) == (QoSClass.RECLAIMED, "annotation volcano.sh/qos-level")
    assert told(found) == [(INVALID, LEVEL, "some_cores")]


def test_our_own_word_comes_first_key_by_key():
    found = wish(
        {MEMORY: {"numa_binding": "true"}, CPU: {K + "numa_ids": "1"}, "coloc.nri.io/numa": "none"},
    )
    assert (found.numa, found.numa_ids, found.origins) == (
        Numa.NONE,
        0b10,
        (("numa-ids", f"{CPU}[{K}numa_ids]", "1"),),
    )


@pytest.mark.parametrize(
    ("memory", "numa"),
    [
        ({"numa_binding": "true"}, Numa.SINGLE),
        ({"numa_binding": "false"}, Numa.NONE),
        ({"numa_binding": "true", "numa_exclusive": "true"}, Numa.EXCLUSIVE),
        ({"numa_binding": "true", "numa_exclusive": "false"}, Numa.SINGLE),
        ({"numa_binding": "false", "numa_exclusive": "true"}, Numa.NONE),
        ({"numa_exclusive": "true"}, Numa.NONE),
        ({}, Numa.NONE),
    ],
)
def test_whole_nodes_count_only_beside_a_binding(memory, numa):
    found = wish({MEMORY: memory})
    assert (found.numa, found.findings) == (numa, ())


def test_a_bad_exclusive_leaves_the_binding():
    found = wish({MEMORY: {"numa_binding": "true", "numa_exclusive": "yes"}})
    assert (found.numa, told(found)) == (Numa.SINGLE, [(INVALID, f"{MEMORY}[numa_exclusive]", "yes")])
    assert found.findings[0].used == "single"


@pytest.mark.parametrize(
    ("qos", "priority", "score"),
    [
        ("reclaimed", "-100", 1000),
        ("reclaimed", "-1", 505),
        ("reclaimed", "-50", 750),
        ("reclaimed", "-200", 1000),
        ("reclaimed", "7", 505),
        ("reclaimed", "300", 500),
        ("reclaimed", "-300", 1000),  # the default of the class
        ("shared", "99", None),
        ("shared", "-300", None),
        ("dedicated", "150", None),
    ],
)
def test_an_oom_priority_orders_reclaimed_pods(qos, priority, score):
    found = wish({MEMORY: {"oom_priority": priority}}, qos=qos)
    assert (found.knobs.oom_score_adj, found.findings) == (score, ())


def test_a_pod_that_is_never_killed_needs_an_allowed_namespace():
    never = {MEMORY: {"oom_priority": "300"}}
    assert wish(never, qos="shared", pod={"namespace": "kube-system"}).knobs.oom_score_adj == -998
    assert told(wish(never, qos="shared")) == [("annotation.denied", f"{MEMORY}[oom_priority]", "300")]


def test_an_existing_pool_may_be_named_and_no_other():
    assert wish({CPU: {"cpuset_pool": "share"}}).pool == "share"
    found = wish({CPU: {"cpuset_pool": "batch"}})
    assert (found.pool, told(found)) == ("", [(INVALID, f"{CPU}[cpuset_pool]", "batch")])


def test_whole_cores_and_nodes_are_steered():
    found = wish({CPU: {"full_pcpus_pairing": "true", K + "numa_number": "2", K + "numa_ids": "0,2"}})
    assert (found.placement, found.numa_count, found.numa_ids) == (Placement.FULL_CORES, 2, 0b101)
    assert wish({CPU: {"full_pcpus_pairing": "false"}}).placement is Placement.PACKED


@pytest.mark.parametrize(
    ("cpu", "percent"),
    [
        ({"cpu_burst_policy": "static", "cpu_burst_percent": "30"}, 30),
        ({"cpu_burst_policy": "static", "cpu_burst_percent": "250"}, 100),
        ({"cpu_burst_policy": "static"}, 100),
        ({"cpu_burst_policy": "closed", "cpu_burst_percent": "30"}, 0),
        ({"cpu_burst_policy": "default", "cpu_burst_percent": "30"}, None),
        ({"cpu_burst_percent": "30"}, None),
    ],
)
def test_a_burst_is_a_percentage_under_the_static_policy(cpu, percent):
    found = wish({CPU: cpu})
    assert (found.cpu_burst_percent, found.findings) == (percent, ())


def test_reclaimed_pods_do_not_burst():
    assert wish({CPU: {"cpu_burst_policy": "static"}}, qos="reclaimed").cpu_burst_percent is None


@pytest.mark.parametrize("percent", ["-1", "many", "9" * 5000])
def test_a_bad_percentage_is_told_and_the_default_holds(percent):
    found = wish({CPU: {"cpu_burst_policy": "static", "cpu_burst_percent": percent}})
    assert found.cpu_burst_percent == 100
    assert [key for _, key, _ in told(found)] == [f"{CPU}[cpu_burst_percent]"]


def test_the_dynamic_policy_is_not_supported():
    found = wish({CPU: {"cpu_burst_policy": "dynamic"}})
    assert told(found) == [(INVALID, f"{CPU}[cpu_burst_policy]", "dynamic")]


def test_an_inner_key_counts_wherever_it_stands_and_the_later_wins():
    found = wish({CPU: {"numa_binding": "false"}, NETWORK: {"numa_binding": "true"}})
    assert (found.numa, found.origins[0][1]) == (Numa.SINGLE, f"{NETWORK}[numa_binding]")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (1, "1"),
        (None, "null"),
        (["x"], "an object or a list"),
        ("x" * 5000, "x" * 256),
    ],
)
def test_what_is_no_text_loses_its_key_and_leaves_its_neighbours(value, shown):
    found = wish({MEMORY: {"numa_binding": value}, CPU: {K + "numa_number": "2"}})
    assert (found.numa, found.numa_count) == (Numa.NONE, 2)
    assert told(found) == [(INVALID, f"{MEMORY}[numa_binding]", shown)]


def test_a_boolean_is_told_that_a_text_is_allowed():
    found = wish({MEMORY: {"numa_binding": True}})
    assert [each.allowed for each in found.findings] == ["a text in quotes: one of true, false"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "[" * 3000, '{"a":' * 3000, "9" * 5000],
    ids=["empty", "cut off", "a list", "a number", "deep list", "deep object", "big number"],
)
def test_json_that_cannot_be_read_is_one_finding(text):
    found = wish({MEMORY: text})
    (finding,) = found.findings
    assert (finding.kind.value, finding.key, finding.value, finding.used) == (
        INVALID,
        MEMORY,
        text[:256],
        "nothing",
    )
    assert finding.allowed.startswith("JSON such as {")


def test_ignored_and_unknown_keys_say_nothing():
    ignored = {"rss_overuse_threshold": "1.1", "suppression_tolerance_rate": "x", "newer_than_us": 7}
    assert wish({CPU: ignored, NETWORK: {"namespace_type": "host_ns"}}) == wish()
