"""A folded record in a sentence of 160 characters, and its extremes by name."""

import pytest

from nri_coloc.core.lending import Change
from nri_coloc.core.report import SWINGS_FROM, Extent
from nri_coloc.lending.pool_size import Grounds, Yielded
from nri_coloc.lending.records import Record
from tests.unit.lending.test_sentence import MOST, SITUATIONS, grounds, large


def record(of: Grounds | None, turns: int = 0) -> Record:
    none = Extent(0, 0)
    return Record(
        since=10.0,
        at=70.0,
        ticks=3000,
        turns=turns,
        change=Change.GROW,
        before=0b1,
        after=0b11,
        cpus=Extent(1, 8),
        online=none,
        headroom=none,
        stall=0.4,
        own_stall=0.0,
        grounds=of,
    )


def test_growth_shows_the_figures_that_people_ask_for():
    assert record(grounds()).because == (
        "grow: online use leaves room, one step (online=2 cores, lendable=8, step=1 core, cpus 1 → 2)"
    )


def test_a_swing_shows_its_turns_and_extremes():
    assert record(grounds(), turns=14).because == (
        "swing: 14 turns in 60 s: online use leaves room, one step (online=2 cores, lendable=8, "
        "step=1 core, between 1 and 8, cpus 1 → 2)"
    )


def test_lending_that_is_disabled_says_so():
    assert record(None).because == "grow: lending is disabled (cpus 1 → 2)"


@pytest.mark.parametrize(("before", "scene"), [each[:2] for each in SITUATIONS])
@pytest.mark.parametrize("turns", [0, 1000])
def test_no_sentence_is_over_160_characters(before, scene, turns):
    assert len(record(large(before, **scene), turns).because) <= MOST


def test_the_extremes_are_among_the_inputs():
    found = record(grounds(), turns=14).inputs
    assert (found["cpus_low"], found["cpus_high"], found["turns"], found["worst_stall"]) == (1, 8, 14, 0.4)
    assert found["binding"] == "growth_step"
    assert found["span_s"] == 60.0


@pytest.mark.parametrize(("turns", "word"), [(SWINGS_FROM - 1, "grow"), (SWINGS_FROM, "swing")])
def test_enough_turns_are_a_swing(turns, word):
    assert record(grounds(), turns).because.startswith(word)


def test_the_inputs_say_when_the_extra_core_comes_back():
    found = grounds()
    after = found.verdict.lent._replace(more=Yielded(back_at=found.scene.now + 3))
    later = found._replace(verdict=found.verdict._replace(lent=after))
    assert record(later).inputs["extra_core_back_s"] == 3.0
