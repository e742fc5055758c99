"""Every annotation key reads its valid values and nothing else."""

import re
from pathlib import Path

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import DEFAULT_WISH, Numa, Placement, QoSClass, Tolerance, Wish
from nri_coloc.pods import keys
from nri_coloc.pods.quantity import Amount

DOCUMENTED = Path(__file__).parents[3] / "docs" / "annotations.md"

GOOD = [
    ("qos-class", "dedicated", QoSClass.DEDICATED),
    ("qos-class", " system\n", QoSClass.SYSTEM),
    ("cpu-pool", "share", "share"),
    ("numa", "exclusive", Numa.EXCLUSIVE),
    ("numa-count", "2", 2),
    ("numa-ids", "0-1,3", 0b1011),
    ("numa-ids", " 0 , 1 ", 0b11),
    ("cpu-placement", "one-thread-per-core", Placement.ONE_THREAD_PER_CORE),
    ("memory-limit", "1Gi", Amount(bytes=1 << 30)),
    ("memory-high", "80%", Amount(percent=80)),
    ("memory-low", "0", Amount()),
    ("memory-min", "50%", Amount(percent=50)),
    ("io-weight", "1", 1),
    ("io-weight", "10000", 10000),
    ("blockio-class", "Slow.disk_1", "Slow.disk_1"),
    ("rdt-class", "gold", "gold"),
    ("oom-score-adj", "-1000", -1000),
    ("oom-score-adj", "+5", 5),
    ("cpu-burst", "100", 100),
    ("cpu-burst", "20%", 20),
    ("priority", "-1000000000", -1_000_000_000),
    ("avoidance", "none", frozenset()),
    ("avoidance", "throttle, evict", frozenset({"throttle", "evict"})),
    ("tolerance", "low", Tolerance.LOW),
    ("preserve", "cpu,memory", frozenset({"cpu", "memory"})),
]

BAD = [
    ("qos-class", "Dedicated"),
    ("qos-class", ""),
    ("cpu-pool", "a/b"),
    ("numa", "both"),
    ("numa-count", "0"),
    ("numa-count", "1025"),
    ("numa-ids", ""),
    ("numa-ids", "2-1"),
    ("numa-ids", "0,,1"),
    ("numa-ids", "0-1,"),
    ("numa-ids", "1024"),
    ("cpu-placement", "dense"),
    ("memory-limit", "0"),
    ("memory-limit", "0%"),
    ("memory-high", "1GB"),
    ("memory-low", "-1"),
    ("memory-min", "101%"),
    ("io-weight", "0"),
    ("io-weight", "10001"),
    ("io-weight", "1_0"),
    ("io-weight", "\u0665"),
    ("io-weight", "5%"),
    ("io-weight", "9" * 11),
    ("blockio-class", ""),
    ("rdt-class", "../../etc"),
    ("rdt-class", "."),
    ("rdt-class", "x" * 64),
    ("oom-score-adj", "1001"),
    ("cpu-burst", "101"),
    ("priority", "1e3"),
    ("avoidance", "none,evict"),
    ("tolerance", "none"),
    ("avoidance", ""),
    ("preserve", "cpu,"),
    ("preserve", "disk"),
]


@pytest.mark.parametrize(("key", "text", "expected"), GOOD)
def test_a_good_value_is_read(key, text, expected):
    assert keys.read(key, text) == expected


@pytest.mark.parametrize(("key", "text"), BAD)
def test_a_bad_value_is_refused(key, text):
    with pytest.raises(ValueError):
        keys.read(key, text)


@pytest.mark.parametrize("key", keys.KEYS)
def test_an_endless_value_is_refused_before_it_is_read(key):
    with pytest.raises(ValueError, match="longer than"):
        keys.read(key, "0," * 100_000)


def test_every_key_of_the_table_has_good_and_bad_examples_here():
    assert {key for key, _, _ in GOOD} == set(keys.KEYS) == {key for key, _ in BAD}


@pytest.mark.parametrize("key", keys.KEYS)
def test_every_key_says_what_holds_when_it_is_absent(key):
    assert keys.KEYS[key].used(DEFAULT_WISH)


@pytest.mark.parametrize(
    ("key", "wish", "expected"),
    [
        ("io-weight", Wish(QoSClass.SHARED, knobs=Knobs(io_weight=10)), "10"),
        ("avoidance", Wish(QoSClass.SHARED, avoidance=frozenset({"throttle", "evict"})), "evict,throttle"),
        ("avoidance", Wish(QoSClass.SHARED, avoidance=frozenset()), "none"),
        ("cpu-burst", Wish(QoSClass.SHARED, cpu_burst_percent=0), "0"),
        ("numa-ids", Wish(QoSClass.SHARED, numa_ids=0b11), "0-1"),
    ],
)
def test_what_is_used_is_read_from_the_wish(key, wish, expected):
    assert keys.KEYS[key].used(wish) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("coloc.nri.io/io-weight", "io-weight"),
        ("coloc.nri.io/io-weight.app", "io-weight"),
        ("coloc.nri.io/containers", "containers"),
        ("coloc.nri.io/record", "record"),
        ("coloc.nri.io/containers[app][io-weight]", "containers"),
        ("coloc.nri.io/whatever-a-stranger-writes", "unknown"),
    ],
)
def test_a_metric_label_is_a_known_key_or_unknown(name, expected):
    assert keys.base_of(name) == expected


def test_the_documentation_lists_exactly_these_keys():
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCUMENTED.read_text(), re.MULTILINE)
    assert rows == list(keys.KEYS)


def test_each_annotated_knob_has_one_key():
    annotated = [row.knob for row in keys.KEYS.values() if row.knob]
    assert len(set(annotated)) == len(annotated)
    assert set(annotated) <= set(Knobs._fields)
