"""pressure.eviction and shortage: when reclaimed pods go, how many, and when the gate opens again."""

from collections.abc import Sequence

import pytest

from nri_coloc.core import memory_margin
from nri_coloc.core.readings import MemoryLeft
from nri_coloc.core.reasons import Reason
from nri_coloc.pressure import eviction, shortage
from nri_coloc.pressure.eviction import COOL_S, MOST, NO_PACE, PACE_S, Demand, Given, Pace, Victim, victims
from nri_coloc.pressure.shortage import NO_COURSE, Course
from nri_coloc.pressure.verdict import Resource
from nri_coloc.pressure.victims import Candidate

GIB, MIB = 1 << 30, 1 << 20
MACHINE = memory_margin.of_node(32 * GIB, 0.95)


def course(available: Sequence[float], up: int = 2) -> Course:
    found = NO_COURSE
    for each in available:
        found = shortage.followed(found, MemoryLeft(32 * GIB, int(each * GIB)), MACHINE, up)
    return found


# ---- memory ----


@pytest.mark.parametrize(
    ("available", "missing"),
    [
        ([3.0, 2.0, 1.0], 0.0),
        ([3.0, 0.7], 0.0),
        ([3.0, 0.7, 0.7], 0.9),
        ([0.7, 0.7, 1.0, 1.0], 0.6),
        ([0.7, 0.7, 1.7], 0.0),
        ([0.7, 0.7, 1.7, 1.0, 1.0], 0.0),
        ([0.3, 0.5, 0.7], 0.0),
        ([0.7, 0.7, -0.1], 1.7),
    ],
    ids=[
        "above the lower bound",
        "one reading",
        "two readings",
        "until the upper bound",
        "the upper bound ends it",
        "between the bounds it does not begin again",
        "memory that comes back",
        "below the kernel's watermarks",
    ],
)
def test_missing_memory(available: list[float], missing: float):
    assert shortage.missing(course(available), MACHINE) / GIB == pytest.approx(missing, abs=0.001)


def test_an_unknown_reading_begins_no_shortage():
    found = course([0.7])
    found = shortage.followed(found, None, MACHINE, 2)
    found = shortage.followed(found, MemoryLeft(32 * GIB, GIB // 2), MACHINE, 2)
    assert not found.is_short


# ---- victims of a turn ----


def demand(amount: float, pods: dict[str, float], resource: Resource = Resource.MEMORY) -> Demand:
    found = {name: Candidate(use) for name, use in pods.items()}
    return Demand(
        resource=resource,
        reason=Reason.MEMORY_STALL,
        scope="node",
        amount=amount,
        pods=found,
        most=MOST,
        because="because",
    )


def ids(found: Sequence[Victim]) -> list[str]:
    return [one.pod_id for one in found]


def test_leaving_pods_count():
    needs = [demand(5, {"a": 3, "b": 3, "c": 3})]
    assert ids(victims(needs, leaving={"a"}, spared=(), pace=NO_PACE, now_s=0)) == ["b"]
    assert ids(victims(needs, leaving={"a", "b"}, spared=(), pace=NO_PACE, now_s=0)) == []


def test_the_next_pod_goes_for_a_spared_one():
    needs = [demand(3, {"a": 3, "b": 3})]
    assert ids(victims(needs, leaving=(), spared={"a"}, pace=NO_PACE, now_s=0)) == ["b"]


def test_a_victim_counts_for_two_resources():
    memory, cpu = demand(3, {"a": 3, "b": 3}), demand(1, {"a": 1, "b": 1}, Resource.CPU)
    found = victims([memory, cpu], leaving=(), spared=(), pace=NO_PACE, now_s=0)
    assert ids(found) == ["a"]


def ordered(pace: Pace, uids: Sequence[str], now_s: float) -> Pace:
    for uid in uids:
        pace = eviction.ordered(pace, Given(uid, now_s))
    return pace


def test_four_go_in_a_minute():
    needs = [demand(9, {str(n): 1 for n in range(9)})]
    first = victims(needs, leaving=(), spared=(), pace=NO_PACE, now_s=0)
    assert len(first) == MOST
    pace = ordered(NO_PACE, ids(first), 0)
    assert victims(needs, leaving=(), spared=(), pace=pace, now_s=PACE_S - 1) == ()
    assert len(victims(needs, leaving=(), spared=(), pace=pace, now_s=PACE_S)) == MOST


def test_refused_orders_use_up_no_pace():
    pace = eviction.settled(ordered(NO_PACE, "abcd", 0), {"a": True, "b": False, "c": False}, 2)
    assert [one.pod_uid for one in pace.orders] == ["a", "d"]


def test_the_gate_opens_after_the_cool_down():
    pace = ordered(NO_PACE, ["a"], 900)
    assert pace.is_cooling(900)
    pace = eviction.settled(pace, {"a": True}, 1000)
    pace = eviction.prolonged(pace, 1100)
    assert pace.is_cooling(1100 + COOL_S - 1)
    assert not pace.is_cooling(1100 + COOL_S)


def test_a_refused_order_closes_no_gate():
    before = Pace((), 900.0)
    pace = eviction.settled(ordered(before, ["a"], 880), {"a": False}, 890)
    assert pace == before


def test_a_shortage_without_eviction_closes_no_gate():
    assert not eviction.prolonged(NO_PACE, 1000).is_cooling(1000)
    ended = Pace((), 900.0)
    assert not eviction.prolonged(ended, 1000).is_cooling(1000)
