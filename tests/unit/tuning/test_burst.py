"""Quotas are raised while the node has room, case by case; the table is meant to be read."""

from dataclasses import dataclass, field, replace

import pytest

from nri_coloc.core.settings import BurstTuning
from nri_coloc.tuning.quota_burst import (
    NO_BURST,
    Ground,
    NodeState,
    QuotaBurst,
    Raise,
    Throttled,
    because,
    inputs,
    node_state,
    quota_burst,
)

IDLE, COOLING, OVERLOAD, UNKNOWN = NodeState
ON = BurstTuning(quota_percent=300)
LASTING = replace(ON, seconds=40.0)

FREE = Throttled(100_000, used_milli=500, held_back=0.0)
HELD = Throttled(100_000, used_milli=1000, held_back=0.2)


@pytest.mark.parametrize(
    ("online_milli", "cpus_milli", "state"),
    [
        (0, 8000, IDLE),
        (3599, 8000, IDLE),
        (3600, 8000, COOLING),
        (3999, 8000, COOLING),
        (4000, 8000, OVERLOAD),
        (9000, 8000, OVERLOAD),
        (None, 8000, UNKNOWN),
        (0, 0, UNKNOWN),
    ],
)
def test_the_nodes_state_is_told_by_what_online_pods_use(online_milli, cpus_milli, state):
    assert node_state(online_milli, cpus_milli, BurstTuning()) is state


@dataclass(frozen=True)
class Case:
    """A row of the table: one container, its factor before and its quota after."""

    story: str
    quota: int
    state: NodeState = IDLE
    container: Throttled = HELD
    factor: float = 1.0
    headroom_milli: int = 8000
    tuning: BurstTuning = ON


CASES = [
    Case("a container that is held back goes up", 120_000),
    Case(
        "the most is never passed, not by half a microsecond",
        150_001,
        container=Throttled(100_001, held_back=1.0),
        factor=1.5,
        tuning=BurstTuning(quota_percent=150),
    ),
    Case("one that is not stays", 100_000, container=FREE),
    Case("one of which it is not known stays", 100_000, container=FREE._replace(held_back=None)),
    Case("what was raised stays raised on an idle node", 150_000, container=FREE, factor=1.5),
    Case("up to the tuned most", 300_000, factor=2.9),
    Case("a cooling node raises no quota", 100_000, COOLING),
    Case("raised quotas stay", 150_000, COOLING, factor=1.5),
    Case("an overloaded node takes back", 120_000, OVERLOAD, factor=1.5),
    Case("down to the own quota", 100_000, OVERLOAD, factor=1.1),
    Case("never below it", 100_000, OVERLOAD),
    Case("without readings no quota rises", 100_000, UNKNOWN),
    Case("without readings no quota falls", 150_000, UNKNOWN, factor=1.5),
    Case("switched off all goes back", 100_000, factor=2.0, tuning=BurstTuning()),
    Case("no headroom, no raise", 100_000, headroom_milli=0),
    Case("negative headroom is none", 100_000, headroom_milli=-500),
    Case("little headroom, a small raise", 105_000, headroom_milli=50),
    Case("headroom that is gone takes back at once", 110_000, COOLING, factor=2.0, headroom_milli=100),
    Case(
        "what is used of the raise already is borne", 200_000, COOLING, HELD._replace(used_milli=2000), 2.0,
        headroom_milli=0,
    ),
    Case(
        "use that is not known is taken for none of it", 100_000, COOLING, HELD._replace(used_milli=None), 2.0,
        headroom_milli=0,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_a_quota(case):
    before = QuotaBurst({"c": Raise(case.factor)}, 0.0)
    after, quotas = quota_burst(
        before, {"c": case.container}, case.state, case.headroom_milli, 1.0, case.tuning
    )
    assert quotas == {"c": case.quota}
    assert ("c" in after.raises) == (case.quota > 100_000)


@pytest.mark.parametrize("quota", [100_003, 114_967, 299_999])
def test_what_stays_raised_stays_to_the_microsecond(quota):
    for own in (100_000, 30_000):
        before = QuotaBurst({"c": Raise(quota / own)}, 0.0)
        tuning = replace(ON, quota_percent=1000)
        assert quota_burst(before, {"c": FREE._replace(quota=own)}, IDLE, 99_000, 1.0, tuning)[1] == {
            "c": quota
        }


def test_a_container_that_is_gone_is_forgotten():
    after, quotas = quota_burst(QuotaBurst({"c": Raise(2.0)}, 0.0), {}, IDLE, 8000, 1.0, ON)
    assert (dict(after.raises), quotas) == ({}, {})


def test_too_many_raises_are_cut_in_proportion():
    both = {"a": HELD, "b": HELD._replace(quota=300_000, used_milli=3000)}
    _, quotas = quota_burst(NO_BURST, both, IDLE, 400, 1.0, ON)
    assert quotas == {"a": 110_000, "b": 330_000}


def test_a_raise_continues_from_where_it_was_cut():
    after, _ = quota_burst(QuotaBurst({"c": Raise(2.0)}, 0.0), {"c": HELD}, COOLING, 100, 1.0, ON)
    assert after.raises["c"].factor == 1.1


# --- for how long ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Savings:
    """Seconds of whole raise before and after a gap."""

    story: str
    after_s: float
    used_milli: int | None
    before_s: float = 10.0
    gap_s: float = 4.0
    tuning: BurstTuning = field(default=LASTING)


@pytest.mark.parametrize(
    "case",
    [
        Savings("a whole raise costs all of the time", 6.0, 3000),
        Savings("half of one half", 8.0, 2000),
        Savings("around its own quota a container neither spends nor saves", 10.0, 900),
        Savings("nor where its use is not known", 10.0, None),
        Savings("a resting one saves", 11.0, 500),
        Savings("up to the tuned most", 40.0, 0, before_s=39.0),
        Savings("a spent burst leaves no debt", 0.0, 3000, before_s=1.0),
        Savings("a late tick counts for ten seconds", 0.0, 3000, gap_s=1e6),
        Savings("a clock set back for none", 10.0, 3000, gap_s=-5.0),
    ],
    ids=lambda case: case.story,
)
def test_a_container_bursts_on_what_it_saved(case):
    before = QuotaBurst({"c": Raise(2.0, case.before_s)}, 100.0)
    used = HELD._replace(used_milli=case.used_milli)
    after, _ = quota_burst(before, {"c": used}, IDLE, 99_000, 100.0 + case.gap_s, case.tuning)
    assert after.raises["c"].saved_s == case.after_s


def test_who_has_spent_all_goes_down_however_idle_the_node():
    before = QuotaBurst({"c": Raise(2.0, 1.0)}, 0.0)
    after, quotas = quota_burst(before, {"c": HELD._replace(used_milli=3000)}, IDLE, 99_000, 1.0, LASTING)
    assert quotas == {"c": 160_000}
    assert after.raises["c"].saved_s == 0.0


def test_who_has_spent_all_is_no_newcomer_at_its_own_quota():
    before = QuotaBurst({"c": Raise(1.0, 0.0)}, 0.0)
    after, quotas = quota_burst(before, {"c": HELD}, IDLE, 99_000, 1.0, LASTING)
    assert (quotas, after.raises["c"]) == ({"c": 100_000}, Raise(1.0, 0.0))


def test_a_newcomer_has_a_quarter():
    after, _ = quota_burst(NO_BURST, {"c": HELD}, IDLE, 99_000, 1.0, LASTING)
    assert after.raises["c"].saved_s == 10.0


# --- figures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("each", "ground"),
    [
        (HELD, Ground(IDLE, 1000, 8000, 400)),
        (HELD._replace(used_milli=None, held_back=None), Ground(UNKNOWN, None, 8000, 400)),
    ],
    ids=["known", "unknown"],
)
def test_a_quota_has_every_figure(each, ground):
    found = inputs(each, ground, ON)
    assert (found["node"], found["online_milli"], found["cpus_milli"]) == (ground.state, ground.online, 8000)
    assert (found["used_milli"], found["held_back"]) == (each.used_milli, each.held_back)


def test_a_quota_burst_without_percent_is_off():
    assert because(HELD, 100_000, Ground(IDLE, 0, 8000, 8000), BurstTuning()).startswith("quota restored: ")
