"""The audit's sentence holds every figure: the size of the box can be derived from it alone."""

import json
import math
import re
from typing import Any

import pytest

from nri_coloc.model.lending import Binding
from nri_coloc.model.readings import Signal
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.sentence import Grounds, because, inputs
from nri_coloc.reclaim.stall import Stall
from nri_coloc.reclaim.verdict import Lent, Scene, decide
from nri_coloc.reclaim.yielded import Yielded
from tests.unit.reclaim.node_model import Node, jump

NOW = 100.0
BEFORE = Lent(milli=3_000, cpus=3, cut_at=0.0, grown_at=0.0, hold_s=1.0)
SCENE = Scene(NOW, 8, 1, True, 2_000, 500, 3_000, 1.0, 0.0, 0.0, 0.0, 0.02, Stall())


def said(before: Lent = BEFORE, **scene: Any) -> str:
    seen = SCENE._replace(**scene)
    return because(Grounds(before, decide(before, seen, ReclaimTuning()), seen, ReclaimTuning()))


def test_growth_is_told_with_both_headrooms():
    assert said() == (
        "growth_step: 8 CPUs x 0.95 - online 2000m - system 500m - reserve 0m leaves 5100m, the peak of 1.0 s (3000m)"
        " leaves 4600m; lent 4000m after 3000m (step 1000m, dead band 200m): 4 of 8 CPUs after 3, in cores of 1 from"
        " 0.1 on"
    )


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (
            {"stall": Stall(0.4, 0.2, 0.03)},
            (
                "online_stall: online pods waited 0.400 of the time beyond 0.200 of their own making (PSI), more than"
                " 0.1: cut to 0.5; 8 CPUs"
            ),
        ),
        (
            {"stall": Stall(0.4, 0.2, 0.03, Signal.RUN_DELAY)},
            (
                "online_stall: online pods waited 0.400 of the time beyond 0.200 of their own making"
                " (run-queue delay), more than 0.1:"
            ),
        ),
        ({"late_s": 0.05}, "late_tick: tick 0.050 s late for 0.02 s: no growth; 8 CPUs x"),
        (
            {"measured": False, "age_s": 0.3},
            "stale_readings: no new rate, the last is 0.300 s old: no growth; 8 CPUs x",
        ),
        ({"known_since": 99.5}, "dwell: last cut 100.00 s ago, use known for 0.50 s, dwell 1.0 s; 8 CPUs x"),
        (
            {"known_since": -math.inf},
            "learning: no rate yet, it takes two readings: the floor, 1 of 8 CPUs after 3",
        ),
        (
            {"known_since": -math.inf, "learns_until": NOW + 1},
            "learning: no rate yet, it takes two readings: as it was found, 3 of 8 CPUs after 3",
        ),
        (
            {"age_s": 1.5},
            "stale_readings: last rate 1.50 s old, more than 1.0 s: the floor, 1 of 8 CPUs after 3",
        ),
        ({"late_s": 2.0}, "late_tick: tick 2.00 s late, more than 1.0 s: the floor, 1 of 8 CPUs after 3"),
    ],
)
def test_what_the_sum_does_not_show_is_said_first(scene, words):
    assert said(**scene).startswith(words)


@pytest.mark.parametrize(
    ("before", "scene", "words"),
    [
        (BEFORE, {}, "; its tasks yield and 0.5 of a core is left: 1 more, 5 in all"),
        (BEFORE, {"rise": 600}, "; none more for 1.00 s, use rose by 600m"),
        (
            BEFORE._replace(cpus=1, milli=400), {"online": 6_600, "peak": 7_100},
            "; its tasks yield, none more without 0.5 of a core and the dead band",
        ),
    ],
)  # fmt: skip
def test_a_box_whose_tasks_yield_says_what_it_has_beyond_the_sum(before, scene, words):
    assert said(before, yields=True, **scene).endswith(words)


def test_who_weighs_as_little_as_the_box_is_named_where_nothing_more_is_lent():
    words = said(BEFORE, equal="shop/day")
    assert words.endswith(
        "4 of 8 CPUs after 3, in cores of 1 from 0.1 on; none more: shop/day weighs as little as the box"
    )


def test_behind_an_equal_of_the_box_a_stall_counts_as_behind_any_weight():
    waits = Stall(0.4, 0.2, 0.03)
    assert said(stall=waits, equal="shop/day").startswith(
        "online_stall: online pods waited 0.400 of the time beyond 0.200"
    )
    assert "online pods waited" not in said(stall=waits, yields=True)


def test_a_stall_that_takes_the_core_more_only_says_so():
    words = said(BEFORE._replace(more=Yielded(cpus=1)), yields=True, stall=Stall(0.4, 0.0, 0.06))
    assert words.startswith(
        "online_stall: online pods waited 0.060 of the time over 0.5 s beyond 0.000 of their own making (PSI),"
        " more than"
    )
    assert " 0.05: the core more away for 0.1 s; 8 CPUs x" in words
    assert words.endswith("; none more for 0.10 s, use rose by 0m")


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (2, "from 0.1 on; pools.reclaim.maxCPUs lets it have 2 CPUs and 2000m of that"),
        (4, "from 0.1 on"),
        (0, "from 0.1 on"),
    ],
)
def test_what_an_operator_lets_the_box_have_is_said_where_it_is_less(most, words):
    assert said(most=most).endswith(words)


def test_a_box_never_cut_has_a_finite_age_of_its_last_cut():
    assert said(BEFORE._replace(cut_at=-math.inf), known_since=99.5).startswith(
        "dwell: last cut 999.00 s ago"
    )


def test_lending_that_is_disabled_says_so():
    assert because(None) == "lending is disabled: the box has all CPUs of share"


FIGURES = re.compile(
    r"(?P<lendable>\d+) CPUs x (?P<watermark>[\d.]+) - online (?P<online>\d+)m - system (?P<system>\d+)m"
    r" - reserve (?P<reserve>\d+)m leaves (?P<now>\d+)m, the peak of [\d.]+ s \((?P<peak>\d+)m\) leaves"
    r" (?P<bearable>\d+)m; lent (?P<lent>\d+)m after (?P<before>\d+)m \(step (?P<step>\d+)m, dead band"
    r" (?P<band>\d+)m\): (?P<cpus>\d+) of \d+ CPUs after (?P<had>\d+), in cores of (?P<threads>\d+) from"
    r" (?P<part>[\d.]+) on"
)


def derived(f: dict[str, float]) -> tuple[int, int]:
    """Return lent milli-CPU and CPUs, worked out from the figures as a reader would."""
    whole = round(f["lendable"] * 1000 * f["watermark"])
    now = max(0, whole - f["online"] - f["system"] - f["reserve"])
    bearable = max(0, whole - f["peak"] - f["reserve"])
    assert (now, bearable) == (f["now"], f["bearable"])

    def cores(milli: float) -> int:
        core = 1000 * f["threads"]
        rounded = math.floor(milli / core) + (1 if milli % core >= core * f["part"] else 0)
        return int(max(min(rounded * f["threads"], f["lendable"]), min(f["threads"], f["lendable"])))

    if now < f["before"]:
        return int(now), min(int(f["had"]), cores(now))
    lent = max(f["before"], min(bearable, f["before"] + f["step"]))
    return int(lent), max(int(f["had"]), cores(lent - f["band"]))


@pytest.mark.parametrize("threads", [1, 2])
def test_every_change_can_be_derived_from_its_sentence(threads):
    node = Node(8, jump(1_500, 6_000, 8.0, lasts=1.5), threads=threads, noise=0.3).run(14)
    told = [
        m.tick for m in node.moments if m.change != "keep" and m.tick.target.binding is not Binding.LEARNING
    ]
    assert len(told) >= 5
    for tick in told:
        words = because(tick.grounds)
        found = FIGURES.search(words)
        assert found is not None, words
        figures = {name: float(value) for name, value in found.groupdict().items()}
        assert derived(figures) == (figures["lent"], tick.target.cpus), words


def test_a_growth_that_waits_for_its_turn_says_for_what():
    assert said(BEFORE._replace(grown_at=NOW - 0.1)).startswith(
        "growth_step: last growth 0.10 s ago, a step every 0.25 s; 8 CPUs x"
    )


def test_every_figure_of_the_sentence_is_there_by_name():
    grounds = Grounds(BEFORE, decide(BEFORE, SCENE, ReclaimTuning()), SCENE, ReclaimTuning())
    found = inputs(grounds)
    assert found["binding"] == "growth_step"
    said = FIGURES.search(because(grounds))
    assert said is not None
    named = (
        "lendable_cpus", "watermark", "online_milli", "system_milli", "reserve_milli", "left_milli", "peak_milli",
        "left_by_peak_milli", "after_milli", "before_milli", "step_milli", "dead_band_milli", "after_cpus",
        "before_cpus", "threads_per_core", "whole_core_from",
    )  # fmt: skip
    assert [found[name] for name in named] == [float(value) for value in said.groups()]


def test_what_never_was_is_told_as_nothing_so_that_it_can_be_written_as_json():
    never = BEFORE._replace(cut_at=-math.inf, grown_at=-math.inf)
    scene = SCENE._replace(known_since=-math.inf, age_s=math.inf)
    found = inputs(Grounds(never, decide(never, scene, ReclaimTuning()), scene, ReclaimTuning()))
    assert {name for name, value in found.items() if value is None} == {
        "cut_ago_s", "grown_ago_s", "known_for_s", "rate_age_s",
    }  # fmt: skip
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_lending_that_is_disabled_has_no_inputs():
    assert inputs(None) == {}


def test_a_pause_is_told_in_its_own_words():
    paused = ReclaimTuning(paused="lending is paused until noon")
    grounds = Grounds(BEFORE, decide(BEFORE, SCENE, paused), SCENE, paused)
    assert because(grounds) == "lending_paused: lending is paused until noon: the floor, 1 of 8 CPUs after 3"
