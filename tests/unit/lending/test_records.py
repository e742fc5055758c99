"""Ticks become records: none without a change, one a second in one direction, one a minute of a swing."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.lending import Change
from nri_coloc.core.report import ONE_WAY_S, SWING_S, Cadence, Extent
from nri_coloc.lending.pool_size import Grounds
from nri_coloc.lending.records import Folding, Record, Step, fold
from tests.unit.lending.test_sentence import grounds

TICK_S = 0.02
SLACK_S = 1e-6


class Teller:
    """Ticks at 20 ms of a pool that begins with four CPUs; `records` keeps its records."""

    def __init__(self, cpus: int = 4, now: float = 10.0) -> None:
        self.folding, self.now, self.cpus = Folding(), now, cpus
        self.records: list[Record] = []

    def tick(
        self,
        cpus: int,
        *,
        online: int = 1_000,
        headroom: int = 4_000,
        stall: float = 0.0,
        own_stall: float = 0.0,
        grounds: Grounds | None = None,
        after_s: float = TICK_S,
    ) -> "Teller":
        self.now = round(self.now + after_s, 6)
        step = Step(
            before=mask(self.cpus),
            after=mask(cpus),
            online=online,
            headroom=headroom,
            stall=stall,
            own_stall=own_stall,
            grounds=grounds,
        )
        self.folding, record = fold(self.folding, step, self.now)
        self.records += [record] if record else []
        self.cpus = cpus
        return self

    def ticks(self, count: int, cpus: int) -> "Teller":
        for _ in range(count):
            self.tick(cpus)
        return self

    def told(self) -> list[tuple[Change, int, int]]:
        return [(r.direction, r.before.bit_count(), r.after.bit_count()) for r in self.records]


def mask(cpus: int) -> int:
    return (1 << cpus) - 1


def test_a_pool_that_keeps_its_size_leaves_no_record():
    assert Teller().ticks(500, 4).records == []


def test_the_first_change_is_written_at_once():
    assert Teller().tick(3).told() == [(Change.SUPPRESS, 4, 3)]


def test_changes_one_way_are_gathered_for_a_second():
    teller = Teller().tick(3).tick(2).tick(1).ticks(46, 1)
    assert teller.told() == [(Change.SUPPRESS, 4, 3)]
    assert teller.ticks(2, 1).told() == [(Change.SUPPRESS, 4, 3), (Change.SUPPRESS, 3, 1)]


def test_a_turn_is_written_at_once():
    teller = Teller().tick(3).tick(2).tick(5)
    assert teller.told() == [(Change.SUPPRESS, 4, 3), (Change.GROW, 3, 5)]
    assert (teller.records[1].cpus, teller.records[1].turns) == (Extent(2, 5), 1)


def test_a_burst_and_its_end_are_written_at_once():
    teller = Teller().tick(2).tick(4, after_s=20.0)
    assert teller.told() == [(Change.SUPPRESS, 4, 2), (Change.GROW, 2, 4)]


@pytest.mark.parametrize("ticks", [0, 1, 20])
def test_a_change_by_another_cause_is_no_part_of_a_record(ticks):
    teller = Teller(8).ticks(ticks, 8)
    teller.cpus = 4
    assert teller.tick(6).told() == [(Change.GROW, 4, 6)]
    assert teller.records[0].cpus == Extent(4, 6)


def test_nor_is_one_between_two_changes():
    teller = Teller(4).tick(5).tick(6)
    teller.cpus = 2
    teller.tick(3).ticks(50, 3)
    assert teller.told() == [(Change.GROW, 4, 5), (Change.GROW, 2, 3)]


def test_a_swing_is_one_record_a_minute_with_its_extremes():
    teller = Teller()
    for number in range(200):
        teller.tick((2, 6)[number % 2], after_s=3.0)
    swung = [record for record in teller.records if record.turns > 1]
    assert len(swung) == len(teller.records) - 3
    assert min(b.at - a.at for a, b in pairwise(teller.records[2:])) >= SWING_S
    assert {(record.cpus, record.turns) for record in swung} == {(Extent(2, 6), 20)}


def test_a_swing_that_ends_is_written_a_minute_later():
    teller = Teller()
    for number in range(8):
        teller.tick((2, 6)[number % 2], after_s=1.0)
    written = len(teller.records)
    teller.tick(6, after_s=SWING_S - 10)
    assert len(teller.records) == written
    teller.tick(6, after_s=10.0)
    assert (len(teller.records), teller.records[-1].after) == (written + 1, mask(6))


def test_the_rest_can_be_had_at_the_end():
    teller = Teller().tick(3).tick(1)
    rest = teller.folding.rest
    assert rest is not None
    assert (rest.before, rest.after) == (mask(3), mask(1))


def test_a_record_holds_the_extremes_since_the_last_one():
    teller = (
        Teller().tick(3).tick(2, online=3_000, stall=0.3).tick(1, headroom=100, own_stall=0.2).ticks(60, 1)
    )
    record = teller.records[1]
    assert (record.cpus, record.online, record.headroom) == (
        Extent(1, 3),
        Extent(1_000, 3_000),
        Extent(100, 4_000),
    )
    assert (record.stall, record.own_stall) == (0.3, 0.2)


def test_a_record_has_the_grounds_of_its_last_change():
    first, last, later = (grounds(online=online) for online in (2_000, 2_001, 2_002))
    teller = Teller().tick(3).tick(2, grounds=first).tick(1, grounds=last)
    for _ in range(60):
        teller.tick(1, grounds=later)
    assert teller.records[1].grounds == last


@pytest.mark.parametrize(("sizes", "direction"), [((5, 6, 5), Change.SUPPRESS), ((3, 2, 3), Change.GROW)])
def test_equal_ends_have_the_direction_of_the_last_change(sizes, direction):
    teller = Teller()
    for cpus in sizes:
        teller.tick(cpus)
    assert teller.told()[1] == (direction, sizes[0], sizes[0])


def test_a_record_reaches_back_a_second_before_its_change():
    teller = Teller().tick(4, online=9_000).ticks(99, 4).tick(3)
    assert teller.records[0].online == Extent(1_000, 1_000)
    assert teller.records[0].ticks <= 51


def test_a_record_holds_the_use_just_before_its_change():
    teller = Teller().tick(4, online=9_000).ticks(9, 4).tick(3)
    assert (teller.records[0].online, teller.records[0].ticks) == (Extent(1_000, 9_000), 11)


def test_a_clock_that_went_back_holds_nothing_up():
    assert Cadence(written_at=1e9).is_due(10.0)


SIZES = st.lists(st.tuples(st.integers(1, 8), st.floats(0.01, 90.0)), min_size=1, max_size=300)


def lived(sizes: list[tuple[int, float]]) -> Teller:
    teller = Teller()
    for cpus, after_s in sizes:
        teller.tick(cpus, after_s=after_s)
    return teller


@given(SIZES)
def test_one_way_never_more_than_a_record_a_second(sizes):
    for one, other in pairwise(lived(sizes).records):
        if other.turns == 0:
            assert other.at - one.at >= ONE_WAY_S - SLACK_S


@given(st.lists(st.floats(0.01, SWING_S - 0.1), min_size=3, max_size=300))
def test_a_swing_never_more_than_a_record_a_minute(gaps):
    teller = lived([((2, 6)[number % 2], gap) for number, gap in enumerate(gaps)])
    assert all(b.at - a.at >= SWING_S - SLACK_S for a, b in pairwise(teller.records[2:]))


@given(SIZES)
def test_no_change_is_lost_between_records(sizes):
    teller = lived(sizes)
    rest = teller.folding.rest
    chain = [*teller.records, *([rest] if rest else [])]
    assert all(one.after == other.before for one, other in pairwise(chain))
    assert (chain[0].before if chain else mask(4)) == mask(4)
    assert (chain[-1].after if chain else mask(4)) == mask(sizes[-1][0])


@given(SIZES)
def test_every_size_lies_within_the_extremes(sizes):
    teller = lived(sizes)
    rest = teller.folding.rest
    for cpus, _ in sizes:
        assert (
            any(r.cpus.low <= cpus <= r.cpus.high for r in (*teller.records, *([rest] if rest else [])))
            or cpus == 4
        )


@pytest.mark.parametrize("cpus", [0b0011, 0b1100])
def test_other_cpus_are_a_change(cpus):
    assert (
        Step(before=0b0011, after=cpus, online=0, headroom=0, stall=0.0, own_stall=0.0, grounds=None).change
        is Change.KEEP
    ) is (cpus == 0b0011)
