"""The notices of the executor: one before each eviction, and none of a pod that stays."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from nri_coloc.core.evictions import Outcome
from nri_coloc.kubernetes import eviction, executor
from tests.rig.waiting import wait_until
from tests.unit.kubernetes.fake_api import Reply
from tests.unit.kubernetes.played_executor import FOUND, OBJECT, POD, Play, Ran, Server, playing


@pytest.fixture
def run(tmp_path) -> Iterator[Play]:
    with playing(tmp_path) as play:
        yield play


def test_the_notice_comes_before_the_eviction(run):
    ran = run(Server())
    assert ran.sent() == [
        f"GET {POD}",
        f"DRY {POD}/eviction",
        f"PATCH {POD}/status",
        f"POST {POD}/eviction",
    ]
    (notice,) = ran.notices()
    assert notice["uid"] == "u1"
    assert datetime.fromisoformat(notice["annotations"]["coloc.nri.io/evict-at"]) <= datetime.now(UTC)


@pytest.fixture
def short(monkeypatch) -> None:
    """Evictions follow a quarter of a second after their notice."""
    monkeypatch.setattr(eviction, "NOTICE_S", dict.fromkeys(eviction.NOTICE_S, 0.25))


def test_a_notice_names_a_later_time(run):
    ran = run(Server(reason="schedule"), turns=2)
    assert (ran.asked("DRY", f"{POD}/eviction"), ran.asked("POST", f"{POD}/eviction")) == (1, 0)
    (notice,) = ran.notices()
    named = datetime.fromisoformat(notice["annotations"]["coloc.nri.io/evict-at"])
    assert named > datetime.now(UTC) + timedelta(seconds=20)


def test_the_eviction_follows_at_its_time(run, short):
    ran = run(Server(reason="schedule"), turns=0)
    ran.note()
    wait_until(lambda: ran.turn() == [Outcome.ACCEPTED], 10.0, "an eviction")
    assert (len(ran.notices()), ran.asked("POST", f"{POD}/eviction")) == (1, 1)


@pytest.mark.parametrize(
    "reply", [Reply(404), Reply(body={**Server().node, "spec": {"evictions": 3}})], ids=["gone", "unreadable"]
)
def test_an_unreadable_answer_to_a_withdrawal_ends_no_thread(run, reply):
    server = Server(reason="schedule")
    ran = run(server)
    server.replies[f"GET {OBJECT}"] = [reply]
    server.replies[f"PATCH {POD}/status"] = [Reply(raw=b"<html>")]
    ran.play(1)
    assert len(ran.notices()) == 2


def test_a_pod_that_stays_loses_its_notice(run, short):
    server = Server(reason="schedule")
    server.replies[f"POST {POD}/eviction"] = [Reply(403)]
    ran = run(server, turns=0)
    ran.note()
    wait_until(lambda: ran.turn() == [Outcome.REFUSED], 10.0, "a refusal")
    assert ran.notices()[-1]["annotations"] == {"coloc.nri.io/evict-at": None}


@pytest.mark.parametrize(
    "reply", [Reply(404), Reply(body={**FOUND, "metadata": {**FOUND["metadata"], "uid": "u2"}})]
)
def test_a_pod_deleted_after_its_notice_is_gone(run, reply):
    server = Server(reason="schedule")
    ran = run(server)
    server.replies[f"GET {POD}"] = [reply]
    ran.play(1)
    assert (ran.outcomes, ran.asked("POST", f"{POD}/eviction")) == ([Outcome.GONE], 0)


def _vanish(server: Server) -> None:
    server.node["spec"]["evictions"] = []


def _delete(server: Server) -> None:
    server.replies[f"GET {OBJECT}"] = [Reply(404)]


def _break(server: Server) -> None:
    server.node["spec"] = {"evictions": "all"}


@pytest.mark.parametrize("end", [_vanish, _delete, _break])
def test_a_vanished_order_loses_its_notice(run, end):
    server = Server(reason="schedule")
    ran = run(server)
    end(server)
    ran.play(2)
    assert len(ran.notices()) == 2
    assert ran.notices()[-1] == {"uid": "u1", "annotations": {"coloc.nri.io/evict-at": None}}


def withdrawals(ran: Ran) -> int:
    """Return the number of tries to withdraw a notice."""
    return sum(each["annotations"] == {"coloc.nri.io/evict-at": None} for each in ran.notices())


@pytest.fixture
def impatient(monkeypatch) -> None:
    """A node that failed is due again at once."""
    monkeypatch.setattr(executor, "SPACING_S", 0.0)


@pytest.mark.parametrize("end", [_vanish, _delete, _break])
def test_a_failed_withdrawal_is_tried_again(run, impatient, end):
    server = Server(reason="schedule")
    ran = run(server)
    end(server)
    server.replies[f"PATCH {POD}/status"] = [Reply(503), Reply(503), Reply()]
    ran.note()
    wait_until(lambda: ran.turn() == [] and withdrawals(ran) == 3, 10.0, "a withdrawal")
    ran.play(1)
    assert withdrawals(ran) == 3


@pytest.mark.parametrize("status", [403, 404, 409, 422])
def test_a_refused_withdrawal_is_tried_once(run, status):
    server = Server(reason="schedule")
    ran = run(server)
    _vanish(server)
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran.play(2)
    assert withdrawals(ran) == 1


def test_a_pod_that_stays_loses_its_notice_later(run, short, impatient):
    server = Server(reason="schedule")
    ran = run(server)
    server.replies[f"POST {POD}/eviction"] = [Reply(403)]
    server.replies[f"PATCH {POD}/status"] = [Reply(503), Reply()]
    ran.note()
    wait_until(lambda: ran.turn() == [Outcome.REFUSED] and withdrawals(ran) == 2, 10.0, "a withdrawal")


def test_a_busy_answer_to_a_withdrawal_gets_its_wait(run, impatient):
    server = Server(reason="schedule")
    ran = run(server)
    _vanish(server)
    server.replies[f"PATCH {POD}/status"] = [Reply(429, headers=(("Retry-After", "60"),))]
    ran.note("MODIFIED")
    wait_until(lambda: ran.turn() == [] and withdrawals(ran) == 1, 10.0, "a withdrawal")
    assert ran.executor._pauses.resume_s >= time.monotonic() + 50


def test_a_further_notice_ends_a_withdrawal(run):
    server = Server(reason="schedule")
    ran = run(server)
    server.node["spec"]["evictions"][0]["id"] = "o2"
    server.replies[f"PATCH {POD}/status"] = [Reply(503), Reply()]
    ran.play(3)
    assert (withdrawals(ran), len(ran.notices())) == (1, 3)


def test_the_next_leader_withdraws_again(run, impatient):
    server = Server(reason="schedule")
    ran = run(server)
    _vanish(server)
    server.replies[f"PATCH {POD}/status"] = [Reply(503), Reply()]
    ran.play(1)
    ran.leads = False
    ran.note("MODIFIED")
    ran.leads = True
    wait_until(lambda: ran.turn() == [] and withdrawals(ran) == 2, 10.0, "a withdrawal")


def test_withdrawals_without_an_answer_are_bounded(run):
    server = Server(reason="schedule")
    ran = run(server)
    _vanish(server)
    server.replies[f"PATCH {POD}/status"] = [Reply(503)]
    ran.play(1)
    (order,) = ran.executor._withdrawals["a"].values()
    for number in range(100):
        ran.executor._withdraw("a", order._replace(uid=f"n{number}"))
    assert list(ran.executor._withdrawals["a"]) == [f"n{number}" for number in range(84, 100)]


@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
def test_a_vanished_order_is_noted_at_once(run, kind):
    server = Server(reason="schedule")
    ran = run(server)
    _vanish(server)
    ran.executor.take(kind, server.node)
    wait_until(lambda: ran.turn() == [] and len(ran.notices()) == 2, 10.0, "a withdrawal")


def test_a_second_order_keeps_its_pods_notice(run):
    server = Server(reason="schedule")
    orders = server.node["spec"]["evictions"]
    orders.append({**orders[0], "id": "o2"})
    ran = run(server)
    del orders[0]
    ran.play(1)
    assert all(each["annotations"]["coloc.nri.io/evict-at"] for each in ran.notices())


def test_another_pod_under_an_id_gets_notice(run, short):
    server = Server(reason="schedule")
    ran = run(server)
    server.node["spec"]["evictions"][0]["uid"] = "u2"
    server.replies[f"GET {POD}"] = [Reply(body={**FOUND, "metadata": {**FOUND["metadata"], "uid": "u2"}})]
    time.sleep(0.3)
    ran.play(1)
    assert (ran.asked("DRY", f"{POD}/eviction"), ran.asked("POST", f"{POD}/eviction")) == (2, 0)
    assert [each["uid"] for each in ran.notices()] == ["u1", "u1", "u2"]


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_pod_that_stays_gets_no_notice(run, status):
    server = Server()
    server.replies[f"DRY {POD}/eviction"] = [Reply(status)]
    ran = run(server)
    assert (ran.notices(), ran.asked("POST", f"{POD}/eviction")) == ([], 0)


@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_notice_protects_no_pod(run, status):
    server = Server()
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran = run(server)
    assert (ran.outcomes, ran.asked("POST", f"{POD}/eviction")) == ([Outcome.ACCEPTED], 1)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_failing_notice_delays_no_urgent_eviction(run, status):
    server = Server(reason="memory_short")
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran = run(server)
    assert (ran.outcomes, ran.asked("POST", f"{POD}/eviction")) == ([Outcome.ACCEPTED], 1)


def test_a_failing_notice_delays_a_later_eviction(run):
    server = Server(reason="schedule")
    server.replies[f"PATCH {POD}/status"] = [Reply(503)]
    assert run(server, turns=2).asked("POST", f"{POD}/eviction") == 0


@pytest.mark.parametrize(("status", "outcomes"), [(404, [Outcome.GONE]), (409, [])])
def test_a_changed_pod_gets_no_eviction(run, status, outcomes):
    server = Server()
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran = run(server)
    assert (ran.outcomes, ran.asked("POST", f"{POD}/eviction")) == (outcomes, 0)


def test_a_notice_names_the_api_servers_time(run):
    ran = run(Server(), turns=0)
    ran.set_clock(-600)
    ran.play(1)
    (notice,) = ran.notices()
    named = datetime.fromisoformat(notice["annotations"]["coloc.nri.io/evict-at"])
    assert 590 <= (datetime.now(UTC) - named).total_seconds() <= 620


CLOCK_STEPS_S = (-86400.0, -3600.0, 3600.0, 86400.0)


@pytest.mark.parametrize("step_s", CLOCK_STEPS_S)
def test_a_set_clock_evicts_no_earlier(run, step_s):
    ran = run(Server(reason="schedule"))
    ran.set_clock(step_s)
    ran.play(2)
    assert (len(ran.notices()), ran.asked("POST", f"{POD}/eviction"), ran.outcomes) == (1, 0, [])


@pytest.mark.parametrize("step_s", CLOCK_STEPS_S)
def test_a_set_clock_evicts_no_later(run, short, step_s):
    ran = run(Server(reason="schedule"))
    ran.set_clock(step_s)
    wait_until(lambda: ran.turn() == [Outcome.ACCEPTED], 10.0, "an eviction")


def test_an_order_that_a_set_clock_ends_evicts_none(run):
    ends = datetime.now(UTC) + timedelta(seconds=60)
    ran = run(Server(expires=ends.isoformat(timespec="seconds"), reason="schedule"))
    ran.set_clock(3600)
    ran.play(2)
    assert (ran.outcomes[:1], ran.asked("POST", f"{POD}/eviction")) == ([Outcome.UNREACHABLE], 0)
    assert ran.notices()[-1]["annotations"] == {"coloc.nri.io/evict-at": None}


def test_an_order_that_becomes_unreadable_loses_its_notice(run):
    server = Server(reason="schedule")
    ran = run(server)
    server.node["spec"]["evictions"][0]["name"] = "../x"
    ran.play(1)
    assert [each["uid"] for each in ran.notices()] == ["u1", "u1"]
    assert ran.notices()[-1]["annotations"] == {"coloc.nri.io/evict-at": None}
