"""Tiers share sixteen CPUs by load through a day: requests, loads, sizes and sets.

The table is meant to be read: the use of gold and share from a second on, and the CPUs of gold, share and the reclaim
pool at a second. Gold asks for 12 CPUs and keeps 30 to 50 % of its own busy, share asks for 6 and keeps 40 to 60 %. The
reclaim pool has one core at least, and gets one core a quarter of a second at most. The test runs every pure step:
counters, loads, bands, event, placement.
"""

from dataclasses import dataclass, replace
from functools import cache

import pytest

from nri_coloc.core.settings import PoolTuning
from tests.unit.lending.partition_model import Machine

PLAN = (
    PoolTuning("gold", minimum=2, priority=10, band=(0.3, 0.5)),
    PoolTuning("share", minimum=1, band=(0.4, 0.6)),
)

SILVER = PoolTuning("silver", band=(0.3, 0.5))

Loads = dict[float, tuple[float, float]]
Sizes = dict[float, tuple[int, int, int]]


@dataclass(frozen=True)
class Case:
    """Hold one row of the table.

    uses: CPUs wanted by gold and share from a second on.
    has: CPUs of gold, share and the reclaim pool at a second.
    """

    story: str
    uses: Loads
    has: Sizes
    plan: tuple[PoolTuning, ...] = PLAN


CALM = (1.5, 1.0)

CASES = [
    Case(
        "before a dwell is over every tier has the CPUs that its members ask for, and of that nothing is lent",
        {0: CALM},
        {0.1: (12, 2, 2), 9: (12, 2, 2)},
    ),
    Case(
        "a tier's unused CPUs go to the reclaim pool step by step",
        {0: CALM},
        {10.2: (10, 2, 4), 10.5: (8, 2, 6), 12: (4, 2, 10), 60: (4, 2, 10)},
    ),
    Case(
        "a burst takes lent CPUs at once",
        {0: CALM, 20: (4.0, 1.0)},
        {19.9: (4, 2, 10), 20.1: (9, 3, 4), 40: (9, 3, 4)},
    ),
    Case(
        "a lower tier grows later, and takes none that the higher tier needs",
        {0: CALM, 20: (4.0, 1.0), 21: (4.0, 6.0)},
        {20.1: (9, 3, 4), 21.2: (8, 6, 2), 60: (8, 6, 2)},
    ),
    Case(
        "when the burst is over it keeps its CPUs for the dwell, and gives them back then",
        {0: CALM, 20: (4.0, 1.0), 21: CALM},
        {30.5: (9, 3, 4), 33: (7, 3, 6), 45: (4, 2, 10)},
    ),
    Case(
        "a tier with repeated bursts keeps the CPUs for them",
        {0: CALM} | {20 + 5 * n + part: (4.0 - part, 1.0) for n in range(8) for part in (0, 2.4)},
        {25: (9, 3, 4), 40: (9, 3, 4), 59: (9, 3, 4)},
    ),
    Case(
        "no tier has more than its containers ask for, at any use",
        {0: (40.0, 0.1)},
        {5: (12, 2, 2), 30: (12, 2, 2)},
    ),
    Case("all idle, each has its least, and share what is left of a core", {0: (0.0, 0.0)}, {30: (2, 2, 12)}),
    Case(
        "a tier without a band has what its members ask for",
        {0: (0.1, 1.0)},
        {30: (12, 2, 2)},
        (PoolTuning("gold", minimum=2, priority=10), PLAN[1]),
    ),
    Case(
        "the reclaim pool keeps to its maximum",
        {0: CALM},
        {30: (4, 10, 2)},
        (*PLAN, PoolTuning("reclaim", maximum=2)),
    ),
    Case(
        "the reclaim pool keeps its minimum beside a burst",
        {0: (12.0, 6.0)},
        {30: (9, 1, 6)},
        (*PLAN, PoolTuning("reclaim", minimum=6)),
    ),
]


def peopled(plan: tuple[PoolTuning, ...] = PLAN) -> Machine:
    """Return sixteen CPUs on four nodes: gold asks for 12, share for 6, and a reclaimed pod takes all lent CPUs."""
    machine = Machine(plan)
    for n in range(3):
        machine.member(f"gold-{n}", 4000, "gold")
        machine.member(f"shop-{n}", 2000)
    machine.batch()
    return machine


@pytest.mark.parametrize("case", CASES, ids=[case.story for case in CASES])
def test_the_sizes_over_time(case):
    machine = peopled(case.plan)
    found = {}
    for second in sorted({*case.uses, *case.has}):
        machine.run(100 + second - machine.now)
        if second in case.has:
            found[second] = machine.sizes()
        if second in case.uses:
            gold, share = case.uses[second]
            machine.wants = {"gold": gold, "share": share}
    assert found == case.has


@cache
def burst(phase: float) -> float:
    """Return the seconds from the start of a burst of gold, which was idle before, until its demand is met."""
    machine = peopled()
    machine.run(20.0 + phase, gold=1.5, share=1.0)
    began, had = machine.now, machine.cpus("reclaim")
    while machine.cpus("reclaim") == had and machine.now < began + 5:
        machine.tick(gold=6.0)
    return machine.now - began


def test_a_burst_is_met_in_the_tick_that_shows_it():
    assert max(burst(phase / 5) for phase in range(5)) <= 0.05


def test_dedicated_containers_take_what_is_lent_and_the_sizes_follow():
    machine = peopled()
    assert machine.run(20, gold=1.5, share=1.0) == (4, 2, 10)
    machine.node.create("main", 4000, on="main")
    assert machine.run(1) == (4, 2, 6)
    machine.node.stop("main")
    assert machine.run(1) == (4, 2, 10)


def test_a_steady_load_moves_nobody():
    machine = peopled()
    machine.run(20, gold=1.5, share=1.0)
    before = machine.node.state
    machine.run(60)
    assert machine.node.state is before


def test_a_new_member_has_room_before_it_has_a_load():
    machine = peopled()
    machine.run(20, gold=1.5, share=1.0)
    machine.member("first", 3000, "silver")
    assert "silver" not in machine.node.state.pools.tiers
    machine.node.reconfigure(replace(machine.node.tuning, pools=(*PLAN, SILVER)))
    machine.member("second", 3000, "silver")
    machine.tick()
    assert machine.node.state.pools.tiers["silver"].bit_count() == 3


class TestDoubt:
    def test_an_unreadable_tier_has_its_members_requests(self):
        machine = peopled()
        assert machine.run(20, gold=1.5, share=1.0) == (4, 2, 10)
        machine.silent = {"gold"}
        assert machine.run(0.5) == (4, 2, 10)
        assert machine.run(3.0) == (12, 2, 2)

    def test_late_ticks_lend_no_more(self):
        machine = peopled()
        machine.run(9, gold=1.5, share=1.0)
        machine.late_s = 0.5
        assert machine.run(10) == (12, 2, 2)
        machine.late_s = 0.0
        assert machine.run(3) == (4, 2, 10)

    def test_a_very_late_tick_takes_back_the_loan(self):
        machine = peopled()
        assert machine.run(20, gold=1.5, share=1.0) == (4, 2, 10)
        machine.late_s = 2.0
        machine.tick()
        assert machine.sizes() == (12, 2, 2)
        assert "2.00 s late" in machine.ticks[-1].because

    def test_a_clock_that_went_back_begins_anew(self):
        machine = peopled()
        assert machine.run(20, gold=1.5, share=1.0) == (4, 2, 10)
        machine.now -= 50
        machine.tick()
        assert machine.sizes() == (12, 2, 2)
