"""Rare answers of the API server to the executor: conflicts, storms of 429, refusals, objects of another shape."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from nri_coloc.core.evictions import Outcome
from nri_coloc.kubernetes import executor
from nri_coloc.kubernetes.api import ApiUnreachable
from nri_coloc.kubernetes.executor import COLLECTION
from tests.rig.waiting import wait_until
from tests.unit.kubernetes.fake_api import Reply
from tests.unit.kubernetes.played_executor import FOUND, OBJECT, PAST, POD, Play, Ran, Server, playing


@pytest.fixture
def run(tmp_path) -> Iterator[Play]:
    with playing(tmp_path) as play:
        yield play


def test_a_conflict_of_the_result_evicts_once(run):
    server = Server()
    server.replies[f"PATCH {OBJECT}/status"] = [Reply(409), Reply(409), Reply()]
    ran = run(server, turns=3)
    assert ran.asked("POST", f"{POD}/eviction") == 1
    assert (ran.outcomes, ran.written()) == ([Outcome.ACCEPTED], ["accepted"])


@pytest.mark.parametrize("status", [401, 409, 429, 500, 503])
def test_a_passing_refusal_is_tried_again(run, status):
    server = Server()
    server.replies[f"POST {POD}/eviction"] = [Reply(status), Reply(status), Reply(201)]
    ran = run(server, turns=3)
    assert ran.asked("POST", f"{POD}/eviction") == 3
    assert ran.outcomes == [Outcome.ACCEPTED]


@pytest.fixture
def impatient(monkeypatch) -> None:
    """A node that failed is due again at once, unless the API server asks for a wait."""
    monkeypatch.setattr(executor, "SPACING_S", 0.0)


BUSY = Reply(429, {"message": "too many requests"}, headers=(("Retry-After", "60"),))

REQUESTS = sorted(Server().replies)


@pytest.mark.parametrize("refused", REQUESTS)
def test_a_busy_api_server_gets_its_wait(run, impatient, refused):
    server = Server(reason="schedule" if refused == f"PATCH {POD}/status" else "io_stall")
    server.replies[refused] = [BUSY]
    ran = run(server, turns=0)
    ran.note()
    for _ in range(4):
        ran.turn()
    assert ran.asked(*refused.split(" ")) == 1


def among_others(run: Play, reply: Reply, *names: str) -> Ran:
    """Return an executor with orders of some nodes, whose objects have this answer, before its own node's."""
    server = Server()
    server.replies |= {f"GET {COLLECTION}/{name}": [reply, Reply(404)] for name in names}
    ran = run(server, 0)
    ran.list_after(*({"metadata": {"name": name}, "spec": server.node["spec"]} for name in names))
    return ran


def test_a_busy_api_server_ends_the_turn(run):
    ran = among_others(run, BUSY, *"bcde")
    ran.turn()
    ran.turn()
    assert (ran.requests(), len(ran.errors)) == (1, 1)


def test_an_api_server_that_is_away_ends_the_turn(run, monkeypatch):
    def away(path):
        raise ApiUnreachable(f"GET {path}: no answer")

    ran = among_others(run, BUSY, *"bcde")
    monkeypatch.setattr(ran.executor._api, "get", away)
    ran.turn()
    ran.turn()
    assert len(ran.errors) == 1


def test_the_orders_of_others_follow_a_busy_answer(run):
    ran = among_others(run, Reply(429), "b")
    wait_until(lambda: ran.turn() == [Outcome.ACCEPTED], 10, "the order of the other node")


def test_a_refusal_for_one_node_ends_no_turn(run):
    assert among_others(run, Reply(500), *"bcde").turn() == [Outcome.ACCEPTED]


def test_a_pod_deleted_before_its_eviction_is_gone(run):
    server = Server()
    server.replies[f"POST {POD}/eviction"] = [Reply(404)]
    assert run(server).outcomes == [Outcome.GONE]


def test_another_pod_under_an_id_takes_no_result(run):
    server = Server()
    server.replies[f"PATCH {OBJECT}/status"] = [Reply(409), Reply()]
    ran = run(server)
    server.node["spec"]["evictions"][0]["uid"] = "u2"
    ran.play(1)
    assert (ran.outcomes, ran.written()) == ([Outcome.ACCEPTED, Outcome.GONE], ["gone"])


def test_a_budget_uses_up_no_rate(run):
    server = Server()
    causes = {"message": "no", "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 1"}]}}
    server.replies[f"DRY {POD}/eviction"] = [Reply(429, causes)] * 30 + [Reply(201)]
    ran = run(server, turns=0)
    for number in range(31):
        server.node["spec"]["evictions"][0]["id"] = f"n{number}"
        ran.play(1)
    assert ran.outcomes == [Outcome.BUDGET] * 30 + [Outcome.ACCEPTED]


@pytest.mark.parametrize(("status", "reason"), [(409, "io_stall"), (503, "schedule")])
def test_an_order_counts_in_the_rate_once(run, status, reason):
    server = Server(reason=reason)
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran = run(server, turns=6)
    assert (ran.outcomes, len(ran.notices())) == ([], 6)


def test_another_pod_under_an_id_counts_again(run):
    server = Server()
    server.replies[f"PATCH {POD}/status"] = [Reply(409)]
    ran = run(server, turns=0)
    for number in range(5):
        uid = server.node["spec"]["evictions"][0]["uid"] = f"u{number}"
        server.replies[f"GET {POD}"] = [Reply(body={**FOUND, "metadata": {**FOUND["metadata"], "uid": uid}})]
        ran.play(1)
    assert ran.outcomes == [Outcome.REFUSED]


def test_vanished_orders_count_no_longer(run):
    server = Server()
    server.replies[f"PATCH {POD}/status"] = [Reply(409)]
    ran = run(server)
    server.node["spec"]["evictions"] = []
    ran.play(1)
    assert not ran.executor._counted.get("a")


def test_a_node_without_orders_costs_no_memory(run, impatient):
    server = Server()
    server.replies[f"GET {OBJECT}"] = [Reply(404)]
    ran = run(server)
    ran.turn()
    kept = {**vars(ran.executor), **vars(ran.executor._pauses)}
    assert [name for name, each in kept.items() if isinstance(each, dict) and "a" in each] == []


@pytest.mark.parametrize(("kind", "result"), [("MODIFIED", "o1"), ("DELETED", "")], ids=["done", "deleted"])
def test_the_next_leader_asks_for_open_orders_alone(run, kind, result):
    server = Server()
    ran = run(server, turns=0)
    ran.leads = False
    ran.note()
    server.node["status"] = {"results": [{"id": result}]}
    ran.note(kind)
    ran.leads = True
    ran.turn()
    assert ran.asked("GET", OBJECT) == 0


def test_the_next_leader_carries_out_an_open_order(run):
    ran = run(Server(), turns=0)
    ran.leads = False
    ran.note()
    ran.leads = True
    assert ran.turn() == [Outcome.ACCEPTED]


def test_nothing_is_written_before_there_is_a_result(run):
    server = Server()
    server.replies[f"POST {POD}/eviction"] = [Reply(503)]
    assert run(server).asked("PATCH", f"{OBJECT}/status") == 0


def test_a_pod_that_cannot_be_read_lets_its_order_expire(run):
    server = Server(expires=PAST)
    server.replies[f"GET {POD}"] = [Reply(403)]
    assert run(server).outcomes == [Outcome.UNREACHABLE]


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_fast_clock_expires_no_order(run):
    ran = run(Server(expires=_in(-550)), turns=0)
    ran.set_clock(-600)
    ran.play(1)
    assert ran.outcomes == [Outcome.ACCEPTED]


def test_a_slow_clock_prolongs_no_order(run):
    ran = run(Server(expires=_in(590)), turns=0)
    ran.set_clock(600)
    ran.play(1)
    assert ran.outcomes == [Outcome.UNREACHABLE]


def test_a_refused_read_is_logged_and_tried_again(run):
    server = Server()
    server.replies[f"GET {POD}"] = [Reply(403), Reply(body=FOUND)]
    ran = run(server, turns=2)
    assert (len(ran.errors), ran.outcomes) == (1, [Outcome.ACCEPTED])


def test_a_pod_of_another_shape_is_refused(run):
    server = Server()
    server.replies[f"GET {POD}"] = [Reply(body={**FOUND, "spec": []})]
    assert run(server).outcomes == [Outcome.REFUSED]


def test_an_unreadable_answer_costs_no_other_result(run):
    server = Server()
    orders = server.node["spec"]["evictions"]
    orders.append({**orders[0], "id": "o2", "name": "odd"})
    odd = {**FOUND, "metadata": {**FOUND["metadata"], "name": "odd"}}
    server.replies[f"GET {POD[:-6]}odd"] = [Reply(body=odd)]
    server.replies[f"DRY {POD[:-6]}odd/eviction"] = [Reply(400, {"message": []})]
    ran = run(server)
    assert ran.written() == ["accepted", "refused"]


@pytest.mark.parametrize(
    ("wrong", "written"),
    [({"id": "o0", "name": "../x"}, ["refused", "accepted"]), ({"id": ""}, ["accepted"])],
    ids=["no name", "no id"],
)
def test_an_unreadable_order_costs_no_other(run, wrong, written):
    server = Server()
    orders = server.node["spec"]["evictions"]
    orders.insert(0, {**orders[0], **wrong})
    ran = run(server)
    assert ran.outcomes == [Outcome.REFUSED, Outcome.ACCEPTED]
    assert ran.written() == written


def test_an_unreadable_object_costs_no_result(run):
    server = Server()
    server.replies[f"PATCH {OBJECT}/status"] = [Reply(409), Reply()]
    broken = {**server.node, "spec": {"evictions": "all"}}
    server.replies[f"GET {OBJECT}"] = [Reply(body=server.node), Reply(body=broken), Reply(body=server.node)]
    ran = run(server, turns=3)
    assert ran.asked("POST", f"{POD}/eviction") == 1
    assert ran.written() == ["accepted"]


def test_a_deleted_object_is_forgotten(run):
    server = Server()
    server.replies[f"GET {OBJECT}"] = [Reply(404)]
    ran = run(server)
    assert (ran.errors, ran.asked("GET", POD)) == ([], 0)


def test_an_object_that_cannot_be_read_is_logged(run):
    server = Server()
    server.node["spec"] = {"evictions": "all"}
    assert "ColocationNode a cannot be read" in run(server).errors[0]


@pytest.mark.parametrize("metadata", [[1], {}, {"name": "../x"}], ids=["shape", "no name", "path"])
def test_an_unreadable_object_costs_no_other_node(run, metadata):
    ran = run(Server(), turns=0)
    ran.list_after({"metadata": metadata})
    assert ran.turn() == [Outcome.ACCEPTED]
    assert "metadata" in ran.errors[0]


def test_results_of_vanished_orders_are_dropped(run):
    server = Server(expires=PAST)
    server.replies[f"PATCH {OBJECT}/status"] = [Reply(409)]
    ran = run(server)
    for number in range(20):
        server.node["spec"]["evictions"][0]["id"] = f"n{number}"
        ran.play(1)
    assert list(ran.executor._results["a"]) == [("n19", "u1")]


def test_an_unexpected_error_is_one_nodes(run):
    server = Server()
    ran = run(server, turns=0)
    ran.may_evict = lambda: bool(1 // 0)
    ran.play(1)
    assert "ZeroDivisionError" in ran.errors[0]
    ran.may_evict = lambda: True
    ran.play(1)
    assert ran.outcomes == [Outcome.ACCEPTED]
