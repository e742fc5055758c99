"""Volcano's annotations: levels are classes, and a burst is the whole quota or none."""

import pytest

from nri_coloc.core.workload import QoSClass
from tests.unit.pods.vocabulary_kit import told, wish

LEVEL = "volcano.sh/qos-level"
BURST = "volcano.sh/enable-quota-burst"
TIME = "volcano.sh/quota-burst-time"


@pytest.mark.parametrize(
    ("level", "qos"),
    [
        ("LC", QoSClass.SHARED),
        ("HLS", QoSClass.SHARED),
        ("LS", QoSClass.SHARED),
        ("2", QoSClass.SHARED),
        ("BE", QoSClass.RECLAIMED),
        ("-1", QoSClass.RECLAIMED),
    ],
)
def test_a_level_is_a_class(level, qos):
    found = wish({LEVEL: level})
    assert (found.qos, found.because) == (qos, f"annotation {LEVEL}")


def test_level_zero_says_nothing():
    assert wish({LEVEL: "0"}) == wish()


def test_an_unknown_level_is_told():
    found = wish({LEVEL: "be"})
    assert (found.qos, told(found)) == (QoSClass.SHARED, [("annotation.invalid", LEVEL, "be")])


@pytest.mark.parametrize(
    ("annotations", "percent"),
    [
        ({BURST: "true"}, 100),
        ({BURST: "true", TIME: "0"}, 100),
        ({BURST: "true", TIME: "20000"}, None),
        ({BURST: "false"}, None),
        ({TIME: "0"}, None),
    ],
)
def test_a_burst_is_the_whole_quota_unless_a_time_narrows_it(annotations, percent):
    assert wish(annotations).cpu_burst_percent == percent
