"""The fast loop over time, on a small node with coarse counters and late ticks.

The table below is meant to be read: the demand of the online pods, and the number of CPUs of the reclaim pool at each
second. After it come the promises: how soon a burst is answered, how seldom the reclaim pool changes, how busy the node
is.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import median

import pytest

from nri_coloc.core.lending import Binding, Change
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.records import Folding, Step, fold
from tests.unit.lending.node_model import Demand, Node, jump, steady


def bursts(low: float, high: float, every: float, lasts: float) -> Demand:
    """Return a demand in milli-CPU that rises to `high` for a while, again and again."""
    return lambda t: high if t % every < lasts else low


def ramp(before: float, after: float, start: float, end: float) -> Demand:
    return lambda t: before + (after - before) * min(1.0, max(0.0, (t - start) / (end - start)))


@dataclass(frozen=True)
class Case:
    """Hold one row of the table; `box`: number of CPUs of the reclaim pool by second."""

    story: str
    online: Demand
    box: dict[float, int]
    cpus: int = 8
    threads: int = 1
    hungry: float = 1e9
    stall: Demand = steady(0)  # noqa: RUF009  a constant, never changed
    own_stall: Demand = steady(0)  # noqa: RUF009  a constant, never changed
    apart: Demand = steady(0)  # noqa: RUF009  a constant, never changed
    other_cpus: int = 0
    tuning: ReclaimTuning = ReclaimTuning()  # noqa: RUF009  frozen


CASES = [
    Case(
        "an idle node of two CPUs lends both, a second after the start",
        steady(50),
        {0.5: 1, 1.0: 1, 3.0: 2, 10.0: 2},
        cpus=2,
    ),
    Case(
        "online pods at 48 % of two CPUs leave one, with the minimum weight",
        steady(960),
        {5.0: 1, 9.0: 1},
        cpus=2,
    ),
    Case(
        "a burst on two CPUs leaves one lent, the other is lent again after a second",
        jump(100, 2_000, 6.0, lasts=0.5),
        {5.9: 2, 6.06: 1, 7.4: 1, 9.0: 2},
        cpus=2,
    ),
    Case(
        "eight CPUs are lent step by step, four steps a second at most",
        steady(2_000),
        {1.0: 1, 1.2: 1, 1.5: 2, 2.1: 5, 4.0: 6, 9.0: 6},
    ),
    Case(
        "large machines take larger steps",
        steady(20_000),
        {1.0: 1, 1.2: 6, 1.5: 13, 4.0: 40, 9.0: 40},
        cpus=64,
    ),
    Case("whole cores only", steady(2_300), {5.0: 6, 9.0: 6}, threads=2),
    Case("a full node keeps one core lent", steady(8_000), {5.0: 1, 9.0: 1}),
    Case("where a core has two threads, both", steady(8_000), {5.0: 2, 9.0: 2}, threads=2),
    Case(
        "a slow rise is followed down CPU by CPU",
        ramp(1_000, 6_900, 6.0, 12.0),
        {5.9: 7, 8.0: 5, 10.0: 3, 12.5: 1},
    ),
    Case(
        "bursts twice a second are met at their height",
        bursts(500, 5_000, 0.5, 0.1),
        {5.0: 3, 12.0: 3, 20.0: 3},
    ),
    Case(
        "bursts every three seconds are met at their height after two were met in vain",
        bursts(500, 5_000, 3.0, 0.1),
        {2.9: 7, 3.1: 3, 5.98: 6, 6.1: 3, 11.9: 3, 17.9: 3},
    ),
    Case("an idle reclaim pool keeps its CPUs", steady(2_000), {5.0: 6}, hungry=0),
    Case(
        "a lasting stall halves the reclaim pool within ticks",
        steady(2_000),
        {5.9: 6, 6.03: 3, 6.4: 1, 7.0: 1, 12.0: 6},
        stall=jump(0, 0.8, 6.0, lasts=1.0),
    ),
    Case(
        "a pod whose threads wait for each other keeps one core lent, until they end",
        steady(2_000),
        {5.9: 6, 6.4: 1, 20.0: 1, 29.9: 1, 40.0: 6},
        own_stall=jump(0, 0.8, 6.0, lasts=24.0),
    ),
    Case(
        "online use of CPUs that are not lendable takes none back",
        steady(2_000),
        {5.0: 6, 9.0: 6},
        apart=jump(1_000, 6_000, 6.0),
        other_cpus=8,
    ),
    Case(
        "a burst counts also if equal use ends elsewhere",
        jump(500, 6_000, 6.0),
        {5.9: 7, 6.1: 2, 9.0: 2},
        apart=jump(5_500, 0, 6.0),
        other_cpus=8,
    ),
    Case("a reserve is never lent", steady(2_000), {9.0: 4}, tuning=ReclaimTuning(reserve_milli=2_000)),
    Case(
        "switched off, the reclaim pool has the CPUs of share",
        steady(2_000),
        {1.0: 8},
        tuning=ReclaimTuning(enabled=False),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.story for case in CASES])
def test_the_box_over_time(case):
    node = Node(
        case.cpus,
        case.online,
        hungry=steady(case.hungry),
        threads=case.threads,
        stall=case.stall,
        own_stall=case.own_stall,
        tuning=case.tuning,
        noise=0.1,
        apart=case.apart,
        other_cpus=case.other_cpus,
    ).run(max(case.box) + 0.1)
    assert {second: node.box_at(second) for second in case.box} == case.box


def lend(node: Node, part: float) -> Node:
    """Lend another part of the headroom from now on."""
    node.watcher.retune(replace(node.watcher.tuning, lend=part))
    return node


def test_the_pool_follows_the_lent_part_of_the_headroom():
    node = lend(Node(8, steady(2_000), noise=0.1).run(8), 0.5).run(4)
    lend(lend(node, 0.0).run(4), 1.0).run(8)
    assert {at: node.box_at(at) for at in (7.9, 8.1, 11.9, 12.1, 15.9, 23.9)} == {
        7.9: 6,
        8.1: 3,
        11.9: 3,
        12.1: 1,
        15.9: 1,
        23.9: 6,
    }


def test_a_lent_part_that_rises_is_followed_by_steps():
    node = lend(lend(Node(64, steady(20_000), noise=0.1).run(8), 0.0).run(4), 1.0).run(4)
    sizes = [node.box_at(11.9), *(moment.cpus for moment in node.moments if moment.at > 12)]
    assert sizes[:2] == [1, 6]
    assert all(0 <= after - before <= 7 for before, after in pairwise(sizes))
    assert max(sizes) == 40


def test_no_extra_core_is_lent_beyond_a_part():
    node = lend(Node(8, steady(2_000), noise=0.1, yields=True).run(8), 0.5).run(4)
    assert (node.box_at(7.9), node.box_at(11.9)) == (7, 3)


@cache
def settled(cpus: int, online: int) -> Node:
    """Return a node on which all lendable CPUs are lent."""
    return Node(cpus, steady(online), noise=0.3, seed=3).run(10)


def answers(cpus: int, before: int, after: int, left: int) -> list[float]:
    """Return the ms from the start of each of forty bursts until the reclaim pool was small.

    Each burst starts at another moment between two ticks.
    """
    found = []
    for number in range(40):
        node = settled(cpus, before).copy(number)
        start = node.now + 0.05 + number * 0.0011
        node.online = jump(before, after, start)
        found.append(node.run(0.3).suppressed_after(start, left) * 1000)
    return found


@pytest.mark.parametrize(("cpus", "before"), [(2, 200), (8, 2_000), (64, 20_000)])
def test_from_burst_to_suppressed_box_it_takes_two_ticks(cpus, before):
    took = answers(cpus, before, cpus * 1_000, left=1)
    # DESIGN 7 allows 50 and 100 ms; the writes need a part of it
    assert median(took) <= 42
    assert max(took) <= 70


def test_a_partial_burst_is_answered_as_quickly():
    took = answers(8, 2_000, 5_000, left=3)
    assert median(took) <= 50
    assert max(took) <= 100


def test_a_pool_waking_with_a_burst_shrinks_in_time():
    took = []
    for number in range(20):
        node = Node(8, steady(2_000), hungry=steady(0), noise=0.3, seed=number).run(6)
        start = node.now + 0.1 + number * 0.0026
        node.online, node.hungry = jump(2_000, 8_000, start), jump(0, 1e9, start)
        took.append(node.run(0.4).suppressed_after(start, 1) * 1000)
    assert max(took) <= 100


LOADS = [(cpus, part) for cpus in (2, 8, 64) for part in (0.05, 0.15, 0.25, 0.35, 0.48, 0.6, 0.75, 0.9)]


@pytest.mark.parametrize(("cpus", "part"), LOADS)
def test_under_a_steady_load_the_box_does_not_flap(cpus, part):
    node = Node(cpus, steady(part * cpus * 1_000), noise=0.3, seed=5).run(15)
    turns = node.turns()
    assert all(later - sooner > 1.0 for sooner, later in pairwise(turns))
    assert len(turns) <= 3


@pytest.mark.parametrize("part", [0.1, 0.3, 0.48, 0.6])
@pytest.mark.parametrize("cpus", [8, 64])
def test_what_online_pods_leave_is_used(cpus, part):
    node = Node(cpus, steady(part * cpus * 1_000), noise=0.3, seed=5).run(6)
    before = dict(node.used)
    node.run(5)
    used = sum(node.used[role] - before[role] for role in before)
    # 8 CPUs come in eighths: the last one may not fit below the watermark
    assert used / (cpus * 5e6) >= (0.9 if cpus == 64 else 0.87)


@pytest.mark.parametrize(
    ("cpus", "online", "left"), [(8, 2000, 6), (64, 20_000, 40)], ids=["8 CPUs", "64 CPUs"]
)
def test_so_it_is_where_the_scheduler_ticks_at_100_hz(cpus, online, left):
    node = Node(cpus, steady(online), noise=0.1, seed=3, tick_s=0.01).run(40.0)
    late = [moment for moment in node.moments if moment.at > 10.0]
    assert Change.SUPPRESS not in {moment.change for moment in late}
    assert {moment.cpus for moment in late} == {left}


def test_late_ticks_shrink_the_box_and_never_grow_it():
    node = Node(8, steady(2_000), noise=0.1).run(1.6)
    had = node.box
    node.always_late = 0.06
    node.run(5)
    assert node.box <= had
    assert node.moments[-1].tick.target.binding is Binding.LATE


def test_a_daemon_that_sleeps_too_long_lends_the_floor():
    node = settled(8, 2_000).copy(1)
    node.always_late = 1.2
    assert node.run(3).box == 1


def test_a_box_at_its_floor_costs_little():
    node = Node(2, steady(1_700), noise=0.1).run(20)
    assert len(node.moments) <= 20 / 0.1 + 50


def test_a_node_without_reclaimed_pods_costs_next_to_nothing():
    node = Node(8, steady(1_000), hungry=steady(0), noise=0.1, members=False).run(20)
    assert len(node.moments) <= 20 / 0.5 + 5


def test_the_audit_of_a_burst_is_three_records():
    node = Node(8, jump(2_000, 8_000, 8.0, lasts=0.4), noise=0.1).run(9.8)
    folding, records, had = Folding(), [], 0
    for moment in node.moments:
        step = Step(
            before=(1 << had) - 1,
            after=(1 << moment.cpus) - 1,
            online=0,
            headroom=0,
            stall=0.0,
            own_stall=0.0,
            grounds=moment.tick.grounds,
        )
        folding, record = fold(folding, step, moment.at)
        records += [record] if record is not None and record.at >= 8.0 else []
        had = moment.cpus
    assert {record.direction for record in records} == {Change.SUPPRESS}
    assert 1 <= len(records) <= 2
    assert (records[0].before.bit_count(), records[-1].after.bit_count()) == (6, 1)


def yielding(cpus: int, online: Demand) -> Node:
    """Return a node on which all reclaimed tasks have the least weight, after ten seconds."""
    return Node(cpus, online, noise=0.3, seed=3, yields=True).run(10)


def test_a_small_yielding_node_lends_all_beside_load():
    assert {node.box for node in (yielding(2, steady(milli)) for milli in (300, 600, 1_000))} == {2}


@pytest.mark.parametrize(("cpus", "online"), [(2, 1_700), (8, 5_000), (16, 12_000)])
def test_a_box_that_yields_has_a_core_more_at_most(cpus, online):
    assert 0 <= yielding(cpus, steady(online)).box - settled(cpus, online).box <= 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("before", "after", "within_s"), [(50, 1_050, 0.1), (600, 2_000, 0.055)])
def test_a_burst_takes_the_core_more_at_once(before, after, within_s, seed):
    node = yielding(2, jump(before, after, 10.5)).copy(seed)
    assert node.run(1.0).suppressed_after(10.5, 1) <= within_s


def test_queued_online_tasks_spread_at_once():
    waiting = jump(0, 0.4, 10.0, lasts=0.15)
    node = Node(2, steady(600), noise=0.3, stall=waiting, yields=True).run(12)
    assert [node.box_at(second) for second in (9.9, 10.15, 10.5)] == [2, 1, 2]
