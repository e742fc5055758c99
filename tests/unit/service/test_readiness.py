"""The daemon is ready when all required checks are ok, on a clock that the test sets."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import ContainerGone
from nri_coloc.core.knobs import NO_KNOBS
from nri_coloc.core.report import Drift
from nri_coloc.core.seams import Change
from nri_coloc.core.settings import Tuning
from nri_coloc.errors import TransportLost
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from nri_coloc.repair.neighbours import NAMED, REMEMBERED_S, Neighbours
from nri_coloc.runtime.comparison import (
    COMPARE_AFTER_S,
    COMPARE_AGAIN_S,
    ENDS_WITHIN_S,
    RESYNCHRONISE_S,
    RETRY_S,
    UNLISTED_FOR_S,
    Comparison,
)
from nri_coloc.runtime.connection import Connection
from nri_coloc.service import readiness
from nri_coloc.service.readiness import Check, Finding, Readiness, Reading
from tests.unit.parts import Cgroups, a_node, a_report, an_actuator, create
from tests.unit.placing import kit

BEGAN = 1000.0

SURE_S = COMPARE_AFTER_S + RETRY_S


class FakeTrunk:
    def __init__(self) -> None:
        self.connected = True
        self.obstacle = ""
        self.synchronized_at = BEGAN
        self.dropped: list[str] = []

    def drop(self, why: str) -> None:
        self.dropped.append(why)


class Listing:
    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.fails = False
        self.asked = 0

    def states(self) -> dict[str, str]:
        self.asked += 1
        if self.fails:
            raise TransportLost("no answer")
        return self.found


class Rig:
    def __init__(self) -> None:
        self.node = a_node()
        self.report, self.heard = a_report(self.node)
        self.trunk = FakeTrunk()
        self.listing = Listing()
        self.actuator = an_actuator(self.node, Cgroups().as_writer(), self.report)
        self.ended: list[str] = []
        self.spawn: Callable[[Callable[[], None]], None] = lambda work: work()
        self.comparison = Comparison(
            self.node,
            cast("Connection", self.trunk),
            self.report,
            listing=self.listing,
            after=(self.changed, self.report.changed),
            spawn=self.spawned,
        )

    def changed(self, change: Change) -> None:
        self.ended += change.ended

    def spawned(self, work: Callable[[], None]) -> None:
        self.spawn(work)

    def at(self, seconds: float) -> bool:
        """Poll `seconds` after the registration; return whether the daemon is synchronised."""
        self.comparison.poll(BEGAN + seconds)
        return readiness.synchronised(self.comparison).ok

    @property
    def detail(self) -> str:
        return readiness.synchronised(self.comparison).detail


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    create(rig.node, "app")
    rig.listing.found = {"app": "running"}
    return rig


def test_it_is_ready_only_after_the_comparison(rig):
    assert not rig.at(COMPARE_AFTER_S - 0.1)
    assert rig.listing.asked == 0
    assert rig.at(COMPARE_AFTER_S)
    assert rig.heard.said() == [("runtime.compare", "complete")]


def test_it_says_when_it_is_due(rig):
    assert rig.comparison.due_in(BEGAN) == 0.0, "of a registration that it does not know yet"
    rig.at(0.5)
    assert rig.comparison.due_in(BEGAN + 1) == COMPARE_AFTER_S - 1
    assert rig.comparison.due_in(BEGAN + COMPARE_AFTER_S + 1) == 0.0
    rig.at(COMPARE_AFTER_S)
    assert rig.comparison.due_in(BEGAN + COMPARE_AFTER_S) == COMPARE_AGAIN_S


def test_where_no_thread_can_be_had_it_is_asked_another_time(rig):
    def spawn(_work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    comparing, rig.spawn = rig.spawn, spawn
    asked: Future[str] = Future()
    rig.comparison.hasten(asked)
    with pytest.raises(RuntimeError):
        rig.at(COMPARE_AFTER_S)
    rig.spawn = comparing
    assert rig.at(COMPARE_AFTER_S + RETRY_S)
    assert asked.result(0) == ""


def test_nothing_is_due_while_cri_is_asked_or_nobody_synchronised_us(rig):
    rig.spawn = lambda _work: None
    rig.at(COMPARE_AFTER_S)
    assert rig.comparison.due_in(BEGAN + 100) == inf
    other = Rig()
    other.trunk.synchronized_at = 0.0
    assert other.comparison.due_in(BEGAN) == inf


def test_a_comparison_is_made_again_now_and_then_and_said_once(rig):
    for seconds in range(0, 100, 1):
        rig.at(seconds)
    assert rig.listing.asked == 1 + int((100 - COMPARE_AFTER_S) // COMPARE_AGAIN_S)
    assert rig.heard.said() == [("runtime.compare", "complete")]


def test_a_new_registration_must_be_compared_anew(rig):
    assert rig.at(COMPARE_AFTER_S)
    rig.trunk.synchronized_at = BEGAN + 5
    assert not rig.at(5)
    assert not rig.at(5 + COMPARE_AFTER_S - 0.1)
    assert rig.at(5 + COMPARE_AFTER_S)


def test_without_a_registration_it_is_not_synchronised(rig):
    rig.trunk.synchronized_at = 0.0
    assert not rig.at(100)
    assert rig.detail == "the runtime has not sent its list"
    assert rig.listing.asked == 0


def test_an_unavailable_cri_is_asked_again_after_a_pause(rig):
    rig.listing.fails = True
    assert not rig.at(COMPARE_AFTER_S)
    assert "cannot compare with CRI: no answer" in rig.detail
    for tenth in range(int(RETRY_S * 10)):
        rig.at(COMPARE_AFTER_S + tenth / 10)
    assert rig.listing.asked == 1
    rig.listing.fails = False
    assert rig.at(COMPARE_AFTER_S + RETRY_S)


def test_a_missing_container_causes_one_reconnection_a_minute(rig):
    rig.listing.found["hidden"] = "running"
    assert not rig.at(COMPARE_AFTER_S)
    assert not rig.at(SURE_S)
    assert "the runtime's list lacks 1 container of CRI's list: hidden" in rig.detail
    assert rig.trunk.dropped == ["containers were missing from Synchronize"]
    for tenth in range(1, int(RESYNCHRONISE_S * 10)):
        rig.at(SURE_S + tenth / 10)
    assert len(rig.trunk.dropped) == 1
    assert len(rig.heard.records) <= RESYNCHRONISE_S / RETRY_S, "not said at every look"
    rig.at(SURE_S + RESYNCHRONISE_S + RETRY_S)
    assert len(rig.trunk.dropped) == 2


def test_an_ending_container_does_not_cost_the_connection(rig):
    assert rig.at(COMPARE_AFTER_S)
    rig.listing.found["ending"] = "running"
    assert rig.at(COMPARE_AFTER_S + COMPARE_AGAIN_S), "one look is no proof"
    rig.listing.found["ending"] = "exited"
    assert rig.at(COMPARE_AFTER_S + COMPARE_AGAIN_S + RETRY_S)
    assert rig.trunk.dropped == []


@pytest.mark.parametrize("state", ["exited", "unknown"])
def test_what_does_not_live_is_not_missed(state, rig):
    rig.listing.found["dead"] = state
    assert rig.at(COMPARE_AFTER_S)


def test_a_container_that_has_exited_unseen_is_released(rig):
    rig.listing.found["app"] = "exited"
    rig.at(COMPARE_AFTER_S)
    assert "app" not in rig.node.state.containers
    assert ("container.release", "vanished") in rig.heard.said()


def test_whoever_vanished_is_told_of_for_no_hook_will_come(rig):
    rig.listing.found["app"] = "exited"
    rig.at(COMPARE_AFTER_S)
    assert rig.ended == ["app"]


def test_containers_that_ended_while_cri_failed_are_forgotten(rig):
    rig.listing.fails = True
    for number in range(50):
        create(rig.node, f"guest{number}")
        rig.at(COMPARE_AFTER_S + 2 * number)
        rig.node.decide(ContainerGone(f"guest{number}"))
    assert len(rig.comparison._known_at) <= 1 + ENDS_WITHIN_S / 2, (
        "the lasting container, and a minute's short ones"
    )


def test_an_unlisted_container_is_kept_a_while_for_its_creation(rig):
    create(rig.node, "coming", kit.DEDICATED, 2000, on="db")
    rig.at(COMPARE_AFTER_S)
    assert "coming" in rig.node.state.containers
    rig.at(COMPARE_AFTER_S + COMPARE_AGAIN_S)
    assert "coming" not in rig.node.state.containers


def test_quick_looks_keep_a_container_in_creation(rig):
    create(rig.node, "coming", kit.DEDICATED, 2000, on="db")
    rig.listing.found["hidden"] = "running"  # so the comparison runs again after every pause
    for tenth in range(int((UNLISTED_FOR_S - 1) * 10)):
        rig.at(COMPARE_AFTER_S + tenth / 10)
    assert rig.listing.asked > 2
    assert "coming" in rig.node.state.containers


def test_one_that_was_listed_in_between_begins_anew(rig):
    create(rig.node, "coming", on="db")
    rig.at(COMPARE_AFTER_S)
    rig.listing.found["coming"] = "created"
    rig.at(COMPARE_AFTER_S + COMPARE_AGAIN_S)
    del rig.listing.found["coming"]
    rig.at(COMPARE_AFTER_S + 2 * COMPARE_AGAIN_S)
    assert "coming" in rig.node.state.containers


def test_only_one_comparison_is_under_way_at_a_time(rig):
    waiting: list[Callable[[], None]] = []
    rig.spawn = waiting.append
    rig.at(COMPARE_AFTER_S)
    rig.at(COMPARE_AFTER_S + 60)
    assert len(waiting) == 1
    waiting[0]()
    assert rig.at(COMPARE_AFTER_S + 60)


# ---- the map of checks ----


def shown(*checks: tuple[str, bool, bool]) -> dict[str, Any]:
    """Return the body of `/readyz` for checks of (name, is ok, is required)."""
    return Readiness([Check(name, partial(Finding, ok, "why"), must) for name, ok, must in checks]).checks()


def test_each_check_is_shown_with_its_detail():
    assert shown(("connected", True, True), ("state", True, False)) == {
        "ready": True,
        "checks": {"connected": {"ok": True, "detail": "why"}, "state": {"ok": True, "detail": "why"}},
    }


@pytest.mark.parametrize(("required", "ready"), [(True, False), (False, True)])
def test_only_required_checks_keep_from_being_ready(required, ready):
    body = shown(("connected", True, True), ("state", False, required))
    assert (body["ready"], body["checks"]["state"]["ok"]) == (ready, False)


@pytest.mark.parametrize(
    ("connected", "obstacle", "finding"),
    [
        (True, "", Finding(ok=True)),
        (False, "", Finding(ok=False, detail="no connection to the runtime")),
        (False, "another daemon has the lock", Finding(ok=False, detail="another daemon has the lock")),
    ],
)
def test_a_missing_connection_names_its_obstacle(connected, obstacle, finding, rig):
    rig.trunk.connected, rig.trunk.obstacle = connected, obstacle
    assert readiness.connected(rig.trunk) == finding


SWEPT = Reading("cgroups were last read", lambda: 0.0, 20.0)
READINGS = (
    Reading("the fast loop last measured", lambda: 93.0, 5.0),
    Reading("the last snapshot of the node was taken", lambda: 93.0, 60.0),
)


@pytest.mark.parametrize(
    ("observe", "stale"),
    [
        (False, "the fast loop last measured 7 s ago; cgroups were last read: not yet"),
        (True, "the fast loop last measured 7 s ago"),
    ],
)
def test_stale_readings_are_named_with_their_age(observe, stale):
    node = a_node(Tuning(observe=observe))
    assert readiness.fresh(READINGS, SWEPT, node, lambda: 100.0) == Finding(ok=False, detail=stale)


def test_fresh_readings_are_ok():
    assert readiness.fresh(READINGS[1:], SWEPT, a_node(Tuning(observe=True)), lambda: 100.0) == Finding(
        ok=True
    )


@pytest.mark.parametrize(
    ("problem", "finding"),
    [
        ("", Finding(ok=True, detail="an I/O weight acts on sda; no admin socket")),
        ("line 3 is wrong", Finding(ok=False, detail="line 3 is wrong")),
    ],
)
def test_remarks_do_not_fail_the_configuration(problem, finding):
    remarks = (lambda: "an I/O weight acts on sda", lambda: "", lambda: "no admin socket")
    assert readiness.config(lambda: problem, remarks) == finding


# ---- other writers ----


def repaired(times: int, *names: str) -> Neighbours:
    known = Neighbours()
    for name in names:
        known.repaired(name, Drift(NO_KNOBS, NO_KNOBS, "found", times=times), 100.0)
    return known


def test_a_single_repair_names_no_other_writer():
    assert readiness.neighbours(repaired(1, "shop/web/app"), str, lambda: 100.0) == Finding(ok=True)


def test_a_cgroup_that_is_contested_is_named():
    found = readiness.neighbours(repaired(REPAIRS_PER_MINUTE, "shop/web/app"), str, lambda: 101.0)
    assert not found.ok
    assert found.detail.startswith(
        "another writer keeps changing our values of shop/web/app (6 repairs in 60 s)"
    )


def test_many_contested_cgroups_are_counted():
    known = repaired(REPAIRS_PER_MINUTE, *(f"pod{number}" for number in range(NAMED + 2)))
    assert "pod2, pod3, pod4 and 2 more" in readiness.neighbours(known, str, lambda: 101.0).detail


def test_a_rival_that_is_silent_is_forgotten():
    known = repaired(REPAIRS_PER_MINUTE, "shop/web/app")
    assert readiness.neighbours(known, str, lambda: 100.0 + REMEMBERED_S).ok


# ---- an ordered comparison ----


def asked(rig: Rig) -> "Future[str]":
    future: Future[str] = Future()
    rig.comparison.hasten(future)
    return future


def test_an_ordered_comparison_does_not_wait_for_its_turn(rig):
    assert rig.at(COMPARE_AFTER_S)
    answer = asked(rig)
    rig.at(COMPARE_AFTER_S + 0.1)
    assert (rig.listing.asked, answer.result(0)) == (2, "")


def test_an_ordered_comparison_makes_nobody_ready_before_the_time(rig):
    answer = asked(rig)
    assert not rig.at(COMPARE_AFTER_S - 0.1)
    assert not answer.done()
    assert rig.at(COMPARE_AFTER_S)
    assert answer.result(0) == ""


def test_what_is_missing_is_the_answer(rig):
    assert rig.at(COMPARE_AFTER_S)
    rig.listing.found["hidden"] = "running"
    answer = asked(rig)
    rig.at(COMPARE_AFTER_S + 0.1)
    assert "the runtime's list lacks 1 container of CRI's list; comparing again" in answer.result(0)


def test_without_a_registration_that_is_the_answer(rig):
    rig.trunk.synchronized_at = 0.0
    answer = asked(rig)
    rig.at(100)
    assert answer.result(0) == "the runtime has not sent its list"


def test_who_asks_while_one_is_under_way_gets_the_next_one(rig):
    waiting: list[Callable[[], None]] = []
    rig.spawn = waiting.append
    rig.at(COMPARE_AFTER_S)
    answer = asked(rig)
    rig.at(COMPARE_AFTER_S + 0.1)
    waiting.pop()()
    assert not answer.done()
    rig.at(COMPARE_AFTER_S + 0.2)
    waiting.pop()()
    assert answer.result(0) == ""


def test_who_was_sent_away_gets_no_answer(rig):
    answer = asked(rig)
    answer.cancel()
    assert rig.at(COMPARE_AFTER_S)
