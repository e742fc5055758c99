"""policy/request.py: what a container asked for, read back from what the kubelet made of it."""

from typing import Any

import pytest

from nri_coloc.model.workload import Container, Resources
from nri_coloc.policy import request
from tests.unit.policy.kit import asking


def whole(**values: Any) -> int:
    return request.of(Resources(**values)).whole


@pytest.mark.parametrize("milli", [3, 100, 250, 500, 999, 1000, 1001, 1500, 1999, 2000, 2001, 63999, 255000])
def test_a_request_survives_the_kubelets_rounding(milli):
    # one thousandth of a CPU is less than one share, so the last digit may differ: never the whole number
    found = request.of(asking(milli))
    assert abs(found.milli - milli) <= 1
    assert found.whole == -(-milli // 1000)


@pytest.mark.parametrize(
    ("values", "cpus"),
    [
        ({}, 1),
        ({"shares": 0}, 1),
        ({"shares": 2}, 1),
        ({"shares": 3}, 1),
        ({"shares": 1536, "quota": 150_000, "period": 100_000}, 2),
        ({"shares": 2, "quota": 250_000, "period": 100_000}, 3),
        ({"shares": 2, "quota": 250_000}, 3),
        ({"quota": 20_000, "period": 10_000}, 2),
        ({"quota": -1, "period": 100_000}, 1),
        ({"quota": 0}, 1),
        ({"shares": 262_144}, 256),
        ({"shares": 262_144, "quota": 30_000_000, "period": 100_000}, 300),
    ],
    ids=[
        "nothing",
        "keep",
        "no-request",
        "least",
        "design-example",
        "quota-only",
        "default-period",
        "short-period",
        "unlimited",
        "quota-zero",
        "most-shares",
        "clamped-shares",
    ],
)  # fmt: skip - one line each would hide the table
def test_shares_count_first_then_the_quota_then_one(values, cpus):
    assert whole(**values) == cpus


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shares": 1536}, "asked 1.5 CPUs, rounded up to 2"),
        ({"shares": 2048}, "asked 2 CPUs"),
        ({"quota": 50_000}, "asked 0.5 CPUs, rounded up to 1"),
        ({}, "asked for no amount of CPU, so 1 (no shares, no quota)"),
    ],
    ids=["rounded", "whole", "less-than-one", "nothing"],
)
def test_the_amount_and_its_rounding_are_said(values, words):
    assert request.of(Resources(**values)).words == words


@pytest.mark.parametrize(
    ("values", "source"),
    [
        ({"shares": 512}, "cpu shares 512"),
        ({"quota": 7, "period": 9}, "quota 7 of 9 µs"),
        ({"quota": 7}, "quota 7 of 100000 µs"),
    ],
    ids=["shares", "quota", "default-period"],
)
def test_the_source_of_the_amount_is_known(values, source):
    assert request.of(Resources(**values)).source == source


def test_what_we_set_ourselves_is_not_mistaken_for_a_request():
    ours = '{"v":1,"class":"dedicated","pool":"dedicated","original":{"shares":2048}}'
    assert request.of_container(Container("c", "p", record=ours, resources=asking(500))).whole == 2


@pytest.mark.parametrize("quota", [1, 2**63 - 1], ids=["least", "most"])
def test_no_figure_of_the_wire_is_too_large_to_be_said(quota):
    assert request.of(Resources(quota=quota, period=1)).words.startswith("asked ")
