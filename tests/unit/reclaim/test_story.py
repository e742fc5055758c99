"""Ticks become records: none while nothing changes, one at each turn, one a second at most otherwise."""

from itertools import pairwise

import pytest

from nri_coloc.model.lending import Binding, Change, CPUTarget, Headroom
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.loop import LoopMemory, Tick
from nri_coloc.reclaim.sentence import Grounds
from nri_coloc.reclaim.stall import Stall
from nri_coloc.reclaim.story import Extent, Record, Story, is_felt, tell
from nri_coloc.reclaim.verdict import Lent, Scene, Verdict

SCENE = Scene(0.0, 8, 1, True, 0, 0, 0, 1.0, 0.0, 0.0, 0.0, 0.02, Stall())
START = Story(told_at=0.0, direction=Change.GROW, cpus=4)


class Teller:
    """Ticks at 20 ms; collects what is written."""

    def __init__(self, story: Story = START, now: float = 10.0) -> None:
        self.story, self.now = story, now
        self.records: list[Record] = []

    def tick(
        self, cpus: int, *, online: int = 1_000, milli: int = 4_000, stall: Stall | None = None
    ) -> "Teller":
        self.now = round(self.now + 0.02, 6)
        before = self.story.cpus
        change = Change.KEEP if cpus == before else Change.GROW if cpus > before else Change.SUPPRESS
        target = CPUTarget(cpus, change, Binding.ONLINE_USE)
        verdict = Verdict(Lent(cpus=cpus), Binding.ONLINE_USE)
        grounds = Grounds(Lent(cpus=before), verdict, SCENE, ReclaimTuning())
        tick = Tick(LoopMemory(), target, Headroom(milli, 0, online), 0.02, stall or Stall(), grounds)
        self.story, told = tell(self.story, tick, self.now)
        self.records += told
        return self

    def decided(self, number: int) -> tuple[int, int]:
        """Return the box before and after the tick whose grounds a record has."""
        grounds = self.records[number].grounds
        assert grounds is not None
        return grounds.before.cpus, grounds.verdict.lent.cpus

    def ticks(self, count: int, cpus: int) -> "Teller":
        for _ in range(count):
            self.tick(cpus)
        return self

    def told(self) -> list[tuple[Change, int, int]]:
        return [(r.change, r.before, r.after) for r in self.records]


def test_a_box_that_keeps_its_size_is_not_told():
    assert Teller().ticks(500, 4).records == []


def test_the_first_decision_is_told():
    assert Teller(Story()).tick(1).told() == [(Change.GROW, 0, 1)]


def test_a_change_of_direction_is_told_at_once():
    teller = Teller().tick(3)
    assert teller.told() == [(Change.SUPPRESS, 4, 3)]
    assert teller.decided(0) == (4, 3)


def test_further_changes_in_that_direction_are_gathered_for_a_second():
    teller = Teller().tick(4 - 1).tick(2).tick(1).ticks(47, 1)
    assert teller.told() == [(Change.SUPPRESS, 4, 3)]
    assert teller.ticks(1, 1).told() == [(Change.SUPPRESS, 4, 3), (Change.SUPPRESS, 3, 1)]
    assert teller.decided(1) == (2, 1)


def test_a_turn_tells_first_what_was_gathered():
    teller = Teller().tick(3).tick(2).tick(5)
    assert teller.told() == [(Change.SUPPRESS, 4, 3), (Change.SUPPRESS, 3, 2), (Change.GROW, 2, 5)]


def test_the_same_direction_after_a_while_is_told_at_once():
    assert Teller().ticks(100, 4).tick(5).told() == [(Change.GROW, 4, 5)]


def test_a_record_holds_the_extremes_since_the_last_one():
    teller = (
        Teller()
        .tick(3)
        .tick(2, online=3_000, stall=Stall(0.3, 0.1))
        .tick(1, milli=100, stall=Stall(0.2, 0.4))
    )
    teller.ticks(50, 1)
    record = teller.records[1]
    assert (record.cpus, record.online, record.headroom) == (
        Extent(1, 2),
        Extent(1_000, 3_000),
        Extent(100, 4_000),
    )
    assert (record.stall, record.own_stall) == (0.3, 0.4)
    assert (record.since, record.at, record.ticks) == (10.04, 11.02, 50)


def test_a_record_reaches_back_a_second_at_most_before_its_change():
    teller = Teller().tick(4, online=9_000).ticks(99, 4).tick(3)
    assert teller.records[0].online == Extent(1_000, 1_000)
    assert teller.records[0].ticks <= 51


def test_never_more_than_one_record_a_second_in_one_direction():
    teller = Teller(Story(told_at=0.0, direction=Change.GROW, cpus=1))
    for cpus in range(2, 202):
        teller.tick(cpus)
    gaps = [b.at - a.at for a, b in pairwise(teller.records)]
    assert len(teller.records) == 4
    assert min(gaps) >= 1.0


@pytest.mark.parametrize(
    ("least", "most", "sizes"),
    [
        pytest.param(0, 0, 2, id="no bounds"),
        pytest.param(0, 6, 2, id="some of it allowed"),
        pytest.param(8, 8, 1, id="one size allowed"),
        pytest.param(0, 4, 1, id="all of it more than allowed"),
        pytest.param(8, 0, 1, id="all of it less than there always is"),
    ],
)
def test_a_change_that_the_operators_bounds_leave_without_effect_is_not_felt(
    least: int, most: int, sizes: int
):
    changed = Teller().tick(8).records[-1]._replace(cpus=Extent(4, 8))
    assert is_felt(changed, least, most) is (sizes > 1)
