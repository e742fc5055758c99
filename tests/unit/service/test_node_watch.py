"""Events of the node: lending on and off, and checks that fail for long."""

import pytest

from nri_coloc.kubernetes.event_reasons import NODE, EventReason
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.service.node_watch import AGAIN_S, CHECKS_S, FAILING_S, LendingNow, NodeWatch

OK = {"ok": True, "detail": ""}


class Rig:
    """A node whose lending state and checks the test sets; `found` has the Events."""

    def __init__(self):
        self.found = []
        self.lending = Lending.ON
        self.checks = {"neighbours": OK, "config": OK}
        self.is_on = True
        self.looks = 0
        self.watch = NodeWatch(
            self,
            lending=lambda: LendingNow(self.lending, "the cause"),
            checks=self._checks,
            is_on=lambda: self.is_on,
        )

    def occurred(self, occurrence):
        self.found.append(occurrence)

    def _checks(self):
        self.looks += 1
        return {"checks": self.checks}

    def look(self, *times_s):
        for now_s in times_s:
            self.watch.look(now_s)
        return [each.reason for each in self.found]

    def fails(self, name, detail="another writer changes shop/web"):
        self.checks[name] = {"ok": False, "detail": detail}


@pytest.fixture
def rig():
    return Rig()


def test_a_node_that_lends_from_the_start_is_no_event(rig):
    assert rig.look(0.0, 1.0) == []


@pytest.mark.parametrize(
    ("lending", "reason"),
    [
        (Lending.OFF, EventReason.LENDING_OFF),
        (Lending.DRAINING, EventReason.LENDING_DRAINING),
        (Lending.COOLING, EventReason.LENDING_ENDING),
    ],
)
def test_each_change_of_lending_counts_once(rig, lending, reason):
    rig.lending = lending
    assert rig.look(0.0, 1.0) == [reason]
    rig.lending = Lending.ON
    assert rig.look(2.0, 3.0) == [reason, EventReason.LENDING_ON]
    assert rig.found[0].subject == NODE
    assert rig.found[0].text.endswith(": the cause")


def test_a_check_that_fails_for_a_minute_counts(rig):
    rig.fails("neighbours")
    assert rig.look(0.0, FAILING_S - CHECKS_S) == []
    assert rig.look(FAILING_S) == [EventReason.CHECK_FAILED]
    assert rig.found[0].text == "check neighbours of /readyz fails: another writer changes shop/web"


def test_a_check_that_recovers_counts_not(rig):
    rig.fails("neighbours")
    rig.look(0.0)
    rig.checks["neighbours"] = OK
    rig.look(CHECKS_S)
    rig.fails("neighbours")
    assert rig.look(2 * CHECKS_S, FAILING_S + CHECKS_S) == []


def test_a_check_that_goes_on_failing_counts_again(rig):
    rig.fails("neighbours")
    rig.look(0.0, FAILING_S, FAILING_S + AGAIN_S - CHECKS_S)
    assert len(rig.found) == 1
    rig.look(FAILING_S + AGAIN_S)
    assert len(rig.found) == 2


def test_an_invalid_file_has_its_own_event(rig):
    rig.fails("config")
    assert rig.look(0.0, FAILING_S) == []


def test_a_detail_is_printable_and_short(rig):
    rig.fails("writes", "\x1b[2J" + "x" * 5000)
    rig.look(0.0, FAILING_S)
    assert rig.found[0].text.isprintable()
    assert len(rig.found[0].text) < 400


def test_checks_cost_little(rig):
    rig.look(*map(float, range(100)))
    assert rig.looks == 10


def test_without_the_switch_nothing_is_looked_at(rig):
    rig.is_on, rig.lending = False, Lending.OFF
    assert rig.look(0.0, 100.0) == []
    assert rig.looks == 0
