"""service/lending_clock.py: a result is kept while it holds, and never longer."""

from pathlib import Path

import pytest

from nri_coloc.core.settings import ScheduleTuning, Tuning
from nri_coloc.schedule.switch import ON, Clocks, switched_off
from nri_coloc.service import lending_clock
from nri_coloc.service.lending_clock import KEPT_S, LendingClock
from nri_coloc.service.lending_switch import LendingSwitch
from tests.unit import parts
from tests.unit.schedule.kit import NIGHT, in_berlin

EVENING_S = in_berlin("2026-11-26T21:00").timestamp()
OPENS_S = in_berlin("2026-11-26T22:00").timestamp()


class Rig:
    """A clock that is looked at."""

    def __init__(self, schedule: ScheduleTuning, folder: Path) -> None:
        self.now_s = EVENING_S
        self.schedule = schedule
        self.report, self.heard = parts.a_report(parts.a_node())
        self.switch = parts.a_switch(folder, lambda: self.now_s)
        self.clock = LendingClock(schedule, lambda: self.now_s, self.switch)

    def order(self, grace_s: float = 0, *, drain: bool = False) -> bool:
        """Switch lending off, and look."""
        self.switch.put(lambda before, now_s: switched_off(before, now_s, grace_s, drain=drain))
        return self.look(self.now_s)

    def recorded(self) -> list[tuple[str, str]]:
        """Return reason and switch of each record of a state."""
        found = [r for r in self.heard.records if r.event.value == "schedule.state"]
        return [(r.reason.value, (r.extra or {})["inputs"]["switch"]) for r in found]

    def look(self, now_s: float) -> bool:
        self.now_s = now_s
        return self.clock.look(self.schedule, self.report)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(NIGHT, tmp_path)


def test_a_result_is_kept_for_a_minute(rig):
    first = rig.clock.lending
    rig.look(EVENING_S + KEPT_S - 1)
    assert rig.clock.lending is first
    rig.look(EVENING_S + KEPT_S)
    assert rig.clock.lending is not first


def test_a_result_ends_with_its_next_change(rig):
    rig.look(OPENS_S - 10)
    assert not rig.look(OPENS_S - 1)
    assert rig.look(OPENS_S)
    assert rig.clock.lending.factor == 1


def test_a_clock_set_back_is_decided_about(rig):
    assert rig.look(EVENING_S - 16 * 3600)
    assert rig.clock.lending.factor == 1


def test_another_schedule_is_decided_about(rig):
    rig.schedule = ScheduleTuning(outside=30)
    assert rig.look(EVENING_S + 1)
    assert rig.clock.lending.factor == 0.3


def test_the_lent_part_lies_over_the_settings(rig):
    found = rig.clock.over(Tuning(strict=True))
    assert (found.reclaim.lend, found.reclaim.offer, found.strict) == (0, 0, True)


def test_full_lending_leaves_the_settings(rig):
    settings = Tuning()
    rig.look(OPENS_S + 60)
    assert rig.clock.over(settings) is settings


def test_the_next_change_is_shown_in_utc(rig):
    assert lending_clock.shown(rig.clock.lending, ON)["until"] == "2026-11-26T21:00:00.000000Z"


def test_an_order_is_followed_at_the_next_look(rig):
    rig.look(OPENS_S)
    assert rig.order()
    assert (rig.clock.lending.factor, rig.clock.lending.state.value) == (0, "Online")


def test_an_order_lies_over_a_window_that_opens(rig):
    rig.order()
    rig.look(OPENS_S)
    assert rig.clock.lending.factor == 0


def test_an_order_is_recorded_while_nothing_is_lent(rig):
    rig.look(EVENING_S)
    rig.order(drain=True)
    assert rig.recorded() == [("schedule", "on"), ("operator", "drain")]


def test_its_end_is_the_operators_too(rig):
    rig.look(OPENS_S)
    rig.order()
    rig.switch.put(lambda *_: ON)
    rig.look(OPENS_S)
    assert rig.recorded()[-2:] == [("operator", "off"), ("operator", "on")]


def test_a_drain_is_shown_after_its_grace(rig):
    rig.look(OPENS_S)
    rig.order(600, drain=True)
    assert not lending_clock.shown(rig.clock.lending, rig.clock.switch)["drains"]
    rig.look(OPENS_S + 600)
    assert lending_clock.shown(rig.clock.lending, rig.clock.switch)["drains"]


@pytest.mark.parametrize(("drain", "position"), [(True, "drain"), (False, "off")])
def test_the_switch_is_shown(rig, drain, position):
    rig.order(drain=drain)
    assert lending_clock.shown(rig.clock.lending, rig.clock.switch)["switch"] == position


def test_metrics_show_factor_and_switch(rig):
    rig.look(OPENS_S)
    assert b"nri_coloc_lending_factor 1.0\n" in rig.report.metrics.render()
    rig.order()
    shown = rig.report.metrics.render()
    assert b"nri_coloc_lending_factor 0.0\n" in shown
    assert b"nri_coloc_lending_off 1.0\n" in shown


def test_the_first_look_measures(rig):
    rig.schedule = ScheduleTuning(outside=30)
    rig.look(EVENING_S)
    assert b"nri_coloc_lending_factor 0.3\n" in rig.report.metrics.render()


@pytest.mark.parametrize("set_at_s", [0, 300, 580])
@pytest.mark.parametrize("set_by_s", [-86400, -3600, -15, -1, 1, 15, 3600, 86400])
def test_a_wall_clock_that_is_set_keeps_a_grace(set_at_s, set_by_s, tmp_path):
    times = [Clocks("one", 1000.0, EVENING_S)]
    report, _ = parts.a_report(parts.a_node())
    always, switch = ScheduleTuning(), LendingSwitch(str(tmp_path), lambda: times[-1])
    clock = LendingClock(always, lambda: times[-1].wall_s, switch)
    switch.put(lambda before, now_s: switched_off(before, now_s, 600, drain=True))
    found = []
    for since_s in range(0, 660, 20):
        ahead_s = set_by_s if since_s >= set_at_s else 0
        times.append(Clocks("one", 1000.0 + since_s, EVENING_S + ahead_s + since_s))
        clock.look(always, report)
        found.append((clock.lending.factor, clock.lending.drains))
    assert found == [(1, False)] * 30 + [(0, True)] * 3
