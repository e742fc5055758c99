"""The sentence names the binding term; the size of the pool can be derived again from `inputs`."""

import json
import math
from typing import Any

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import Signal
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.pool_size import Grounds, Lent, Yielded, decide
from nri_coloc.lending.records import Input, because, inputs
from nri_coloc.lending.usage import Stall
from tests.unit.lending.node_model import Node, jump
from tests.unit.lending.scene import CALM, NOW

BEFORE = Lent(milli=3_000, cpus=3, cut_at=0.0, grown_at=0.0, hold_s=1.0)
MOST = 160


def grounds(before: Lent = BEFORE, **scene: Any) -> Grounds:
    seen = CALM._replace(**scene)
    return Grounds(before, decide(before, seen, ReclaimTuning()), seen, ReclaimTuning())


def large(before: Lent, **scene: Any) -> Grounds:
    """Return the grounds of a large machine, whose figures have many digits."""
    return grounds(before, **{"lendable": 768, "online": 700_123, "system": 67_123, **scene})


SITUATIONS: list[tuple[Lent, dict[str, Any], str]] = [
    (BEFORE, {}, "online use leaves room, one step ("),
    (BEFORE, {"online": 7_500}, "online use rose ("),
    (BEFORE, {"online": 0, "system": 7_500}, "system use rose (online=0 cores, system=7.5 cores, "),
    (BEFORE._replace(milli=4_600), {}, "online use fell ("),
    (BEFORE._replace(cpus=5), {"lendable": 4, "online": 0, "system": 0}, "fewer CPUs are lendable ("),
    (BEFORE, {"stall": Stall(0.4, 0.2, 0.03)}, "online pods stalled (stall=0.4, "),
    (
        BEFORE,
        {"stall": Stall(0.4, 0.2, 0.03, Signal.RUN_DELAY)},
        "online pods stalled (stall=0.4, ",
    ),
    (BEFORE, {"late_s": 0.05}, "the tick was 0.05 s late, the pool does not grow ("),
    (BEFORE, {"late_s": 2.0}, "the tick was 2.00 s late, only the floor is lent ("),
    (BEFORE, {"measured": False, "age_s": 0.3}, "readings are 0.30 s old, the pool does not grow ("),
    (BEFORE, {"age_s": 1.5}, "readings are 1.50 s old, only the floor is lent ("),
    (BEFORE, {"known_since": 99.5}, "the last suppression is too recent to grow ("),
    (BEFORE, {"known_since": -math.inf}, "use is not known yet, only the floor is lent ("),
    (
        BEFORE,
        {"known_since": -math.inf, "learns_until": NOW + 1},
        "use is not known yet, size kept as found (",
    ),
    (BEFORE, {"yields": True}, "online use leaves room, one step, extra core granted ("),
    (BEFORE._replace(more=Yielded(cpus=2)), {}, "extra core taken back ("),
    (
        BEFORE._replace(more=Yielded(cpus=1)),
        {"yields": True, "stall": Stall(0.4, 0.0, 0.06)},
        "online pods stalled, extra core taken back (lasting_stall=0.06, ",
    ),
]


@pytest.mark.parametrize(("before", "scene", "cause"), SITUATIONS)
def test_the_binding_term_is_the_cause(before, scene, cause):
    assert because(grounds(before, **scene)).startswith(f"resize: {cause}")


@pytest.mark.parametrize(("before", "scene"), [each[:2] for each in SITUATIONS])
def test_no_sentence_is_over_160_characters(before, scene):
    assert len(because(large(before, **scene))) <= MOST


def test_lending_that_is_disabled_says_so():
    assert because(None) == "resize: lending is disabled, the reclaim pool has all CPUs of share"
    assert inputs(None) == {}


def test_a_pause_is_named_with_its_text_in_inputs():
    paused = ReclaimTuning(paused="lending is paused until noon")
    found = Grounds(BEFORE, decide(BEFORE, CALM, paused), CALM, paused)
    assert because(found).startswith("resize: an operator paused lending (")
    assert inputs(found)["pause"] == "lending is paused until noon"


def derived(f: dict[str, Any]) -> tuple[int, int]:
    """Return lent milli-CPU and CPUs, derived from the inputs as a reader would."""
    whole = round(f["lendable_cpus"] * 1000 * f["watermark"])
    now = max(0, whole - f["online_milli"] - f["system_milli"] - f["reserve_milli"])
    bearable = max(0, whole - f["peak_milli"] - f["reserve_milli"])
    assert (now, bearable) == (f["left_milli"], f["left_by_peak_milli"])
    threads, lendable = f["threads_per_core"], f["lendable_cpus"]

    def cores(milli: float) -> int:
        core = 1000 * threads
        rounded = math.floor(milli / core) + (1 if milli % core >= core * f["whole_core_from"] else 0)
        return int(max(min(rounded * threads, lendable), min(threads, lendable)))

    if now < f["before_milli"]:
        return int(now), min(int(f["before_cpus"]), cores(now))
    lent = max(f["before_milli"], min(bearable, f["before_milli"] + f["step_milli"]))
    return int(lent), max(int(f["before_cpus"]), cores(lent - f["dead_band_milli"]))


@pytest.mark.parametrize("threads", [1, 2])
def test_every_change_can_be_derived_from_its_inputs(threads):
    node = Node(8, jump(1_500, 6_000, 8.0, lasts=1.5), threads=threads, noise=0.3).run(14)
    told = [
        m.tick for m in node.moments if m.change != "keep" and m.tick.target.binding is not Binding.LEARNING
    ]
    assert len(told) >= 5
    for tick in told:
        found: dict[str, Input] = dict(inputs(tick.grounds))
        assert derived(found) == (found["after_milli"], tick.target.cpus), found


def test_times_are_spans_before_the_decision():
    found = inputs(grounds(BEFORE._replace(cut_at=NOW - 5, grown_at=NOW - 3), known_since=NOW - 7))
    assert (found["cut_ago_s"], found["grown_ago_s"], found["known_for_s"]) == (5, 3, 7)


@pytest.mark.parametrize(("yields", "stall"), [(True, "lasting_stall"), (False, "stall")])
def test_a_stall_above_its_bound_can_be_derived(yields, stall):
    found: dict[str, Any] = dict(inputs(grounds(yields=yields, stall=Stall(0.11, 0.0, 0.06))))
    assert found["binding"] == "online_stall"
    assert found[stall] > found["stall_bound"] > found[stall] - 0.02


def test_a_time_that_never_was_is_null_in_json():
    never = BEFORE._replace(cut_at=-math.inf, grown_at=-math.inf)
    scene = CALM._replace(known_since=-math.inf, age_s=math.inf)
    found = inputs(Grounds(never, decide(never, scene, ReclaimTuning()), scene, ReclaimTuning()))
    assert {name for name, value in found.items() if value is None} == {
        "cut_ago_s", "grown_ago_s", "known_for_s", "rate_age_s",
    }  # fmt: skip
    assert json.loads(json.dumps(found, allow_nan=False)) == found
