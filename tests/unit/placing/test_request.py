"""placing/request.py: a container's CPU request is read back from the kubelet's shares."""

from typing import Any

import pytest

from nri_coloc.core.workload import Container, QoSClass, Resources, Wish
from nri_coloc.placing import request
from tests.unit.placing.kit import asking, container


def of(**values: Any) -> request.Request:
    return request.of(Resources(**values))


@pytest.mark.parametrize("milli", [3, 100, 250, 999, 1000, 1001, 1500, 1999, 2001, 63999, 255000, 256000])
def test_a_request_survives_the_kubelets_rounding(milli):
    found = request.of(asking(milli))
    assert (found.milli, found.whole) == (milli, -(-milli // 1000) if milli >= 1000 else 0)


@pytest.mark.parametrize(
    ("values", "milli"),
    [
        ({}, 0),
        ({"shares": 0}, 0),
        ({"shares": 2}, 0),
        ({"shares": 3}, 3),
        ({"shares": 1536, "quota": 150_000, "period": 100_000}, 1500),
        ({"shares": 262_144}, 256_000),
        ({"shares": 1 << 40}, 256_000),
    ],
    ids=["nothing", "keep", "no-request", "least", "design-example", "most", "beyond"],
)
def test_shares_tell_the_request(values, milli):
    assert of(**values).milli == milli


@pytest.mark.parametrize("quota", [600_000, 1, 2**63 - 1], ids=["six-cpus", "least", "most"])
@pytest.mark.parametrize("shares", [None, 0, 2], ids=["none", "zero", "least"])
def test_a_limit_never_stands_for_a_request(shares, quota):
    found = of(shares=shares, quota=quota, period=100_000)
    assert (found.milli, found.whole) == (0, 0)


@pytest.mark.parametrize(
    ("shares", "whole"),
    [(1536, 2), (2048, 2), (512, 0), (None, 0)],
    ids=["rounded", "whole", "small", "none"],
)
def test_a_request_is_rounded_up(shares, whole):
    assert of(shares=shares).whole == whole


def test_our_own_shares_are_no_request():
    ours = '{"v":1,"class":"dedicated","pool":"dedicated","original":{"shares":2048}}'
    assert request.of_container(Container("c", "p", record=ours, resources=asking(500))).whole == 2


@pytest.mark.parametrize(("told", "whole"), [(1, 0), (1500, 2), (3999, 4), (4000, 4), (64000, 4)])
def test_an_annotation_only_lowers_a_request(told, whole):
    wish = Wish(QoSClass.DEDICATED, cpu_milli=told)
    assert request.of_container(container("c", milli=4000), wish).whole == whole
