"""daemon/lending_clock.py: a result is kept while it holds, and never longer."""

import pytest

from nri_coloc.core.settings import ScheduleTuning, Tuning
from nri_coloc.daemon import lending_clock
from nri_coloc.daemon.lending_clock import KEPT_S, LendingClock
from nri_coloc.daemon.report import Report
from tests.unit.daemon import kit
from tests.unit.schedule.kit import NIGHT, in_berlin

EVENING_S = in_berlin("2026-11-26T21:00").timestamp()
OPENS_S = in_berlin("2026-11-26T22:00").timestamp()


class Rig:
    """A clock that is looked at."""

    def __init__(self, schedule: ScheduleTuning, report: Report) -> None:
        self.now_s = EVENING_S
        self.schedule, self.report = schedule, report
        self.clock = LendingClock(schedule, lambda: self.now_s)

    def look(self, now_s: float) -> bool:
        self.now_s = now_s
        return self.clock.look(self.schedule, self.report)


@pytest.fixture
def rig() -> Rig:
    report, _ = kit.a_report(kit.a_node())
    return Rig(NIGHT, report)


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
    assert lending_clock.shown(rig.clock.lending)["until"] == "2026-11-26T21:00:00.000000Z"
