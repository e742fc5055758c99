"""Rare answers of the API server to the executor: conflicts, storms of 429, refusals, objects of another shape."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nri_coloc.core.evictions import Outcome
from nri_coloc.core.settings import Tuning
from nri_coloc.kubernetes import eviction, executor
from nri_coloc.kubernetes.eviction import Rules
from nri_coloc.kubernetes.executor import Executor
from nri_coloc.kubernetes.watching import Problems, Unreadable
from tests.rig.waiting import wait_until
from tests.unit.kubernetes.fake_api import Asked, FakeApi, Reply, serving

OBJECT = "/apis/coloc.nri.io/v1alpha1/colocationnodes/a"
POD = "/api/v1/namespaces/jobs/pods/render"
NEVER, PAST = "2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
FOUND: dict[str, Any] = {
    "metadata": {"uid": "u1", "namespace": "jobs", "name": "render", "resourceVersion": "5"},
    "spec": {"nodeName": "a", "containers": [{"name": "main"}]},
    "status": {"phase": "Running", "qosClass": "BestEffort"},
}


def _method(asked: Asked) -> str:
    return "DRY" if asked.query.get("dryRun") else asked.method


class Server:
    """The answers: a list for each method and path, of which the last one repeats."""

    def __init__(self, expires: str = NEVER, reason: str = "io_stall") -> None:
        order = {"id": "o1", "namespace": "jobs", "name": "render", "uid": "u1", "expiresAt": expires}
        order["reason"] = reason
        node: dict[str, Any] = {
            "metadata": {"name": "a", "resourceVersion": "7"},
            "spec": {"evictions": [order]},
        }
        self.node = node
        self.replies: dict[str, list[Reply]] = {
            f"GET {OBJECT}": [Reply(body=node)],
            f"GET {POD}": [Reply(body=FOUND)],
            f"DRY {POD}/eviction": [Reply(201)],
            f"PATCH {POD}/status": [Reply()],
            f"POST {POD}/eviction": [Reply(201)],
            f"PATCH {OBJECT}/status": [Reply()],
        }

    def __call__(self, asked: Asked) -> Reply:
        found = self.replies[f"{_method(asked)} {asked.path}"]
        return found.pop(0) if len(found) > 1 else found[0]


@pytest.fixture
def run(tmp_path) -> Iterator[Callable[[Server, int], "Ran"]]:
    """Play some turns of the executor against prepared answers."""
    rans: list[Ran] = []

    def play(server: Server, turns: int = 1) -> Ran:
        rans.append(Ran(tmp_path, server))
        rans[-1].play(turns)
        return rans[-1]

    yield play
    for each in rans:
        each.close()


class Ran:
    """An executor after some turns: its outcomes, its errors, and the requests that it sent."""

    def __init__(self, folder: Any, server: Server) -> None:
        self.outcomes: list[Outcome] = []
        self.errors: list[str] = []
        self._node = server.node
        self._serving = serving(folder, server)
        self._api: FakeApi = self._serving.__enter__()
        self.may_evict: Callable[[], bool] = lambda: True
        self.executor = Executor(
            self._api.connect(),
            rules=lambda: Rules(may_evict=self.may_evict(), tuning=Tuning()),
            leads=lambda: True,
            carried=lambda _node, _order, result: self.outcomes.append(result.outcome),
            problems=Problems(self.errors.append, Unreadable("ColocationNode", self.errors.append)),
        )

    def set_clock(self, ahead_s: float) -> None:
        """Set the API server's clock, seconds ahead of the controller's."""
        self._api.set_clock(ahead_s)

    def play(self, turns: int) -> None:
        for _ in range(turns):
            self.executor.serve("a")

    def list_after(self, *others: Any) -> None:
        """Give the executor a list of other objects and its own, as its watch does."""
        self.executor.replace(iter([*others, self._node]))

    def note(self) -> None:
        """Tell the executor of the object, as its watch does."""
        self.executor.take("ADDED", self._node)

    def turn(self) -> list[Outcome]:
        """Carry out what is due, and return all outcomes."""
        self.executor.turn()
        return self.outcomes

    def asked(self, method: str, path: str) -> int:
        return sum((_method(each), each.path) == (method, path) for each in self._api.asked)

    def sent(self) -> list[str]:
        """Return all requests about the pod, in order."""
        return [f"{_method(each)} {each.path}" for each in self._api.asked if each.path.startswith(POD)]

    def notices(self) -> list[dict[str, Any]]:
        return [each.body["metadata"] for each in self._api.asked if each.path == f"{POD}/status"]

    def written(self) -> list[str]:
        """Return the outcomes of the last result that was written."""
        patches = [each.body for each in self._api.asked if each.method == "PATCH"]
        return [each["outcome"] for each in patches[-1]["status"]["results"]]

    def close(self) -> None:
        self._serving.__exit__(None, None, None)


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


def test_a_pod_deleted_before_its_eviction_is_gone(run):
    server = Server()
    server.replies[f"POST {POD}/eviction"] = [Reply(404)]
    assert run(server).outcomes == [Outcome.GONE]


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


def test_another_pod_under_an_id_takes_no_result(run):
    server = Server()
    server.replies[f"PATCH {OBJECT}/status"] = [Reply(409), Reply()]
    ran = run(server)
    server.node["spec"]["evictions"][0]["uid"] = "u2"
    ran.play(1)
    assert (ran.outcomes, ran.written()) == ([Outcome.ACCEPTED, Outcome.GONE], ["gone"])


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_pod_that_stays_gets_no_notice(run, status):
    server = Server()
    server.replies[f"DRY {POD}/eviction"] = [Reply(status)]
    ran = run(server)
    assert (ran.notices(), ran.asked("POST", f"{POD}/eviction")) == ([], 0)


def test_a_budget_uses_up_no_rate(run):
    server = Server()
    causes = {"message": "no", "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 1"}]}}
    server.replies[f"DRY {POD}/eviction"] = [Reply(429, causes)] * 30 + [Reply(201)]
    ran = run(server, turns=0)
    for number in range(31):
        server.node["spec"]["evictions"][0]["id"] = f"n{number}"
        ran.play(1)
    assert ran.outcomes == [Outcome.BUDGET] * 30 + [Outcome.ACCEPTED]


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
    assert ran.executor._counted["a"] == set()


@pytest.mark.parametrize(("status", "outcomes"), [(404, [Outcome.GONE]), (409, [])])
def test_a_changed_pod_gets_no_eviction(run, status, outcomes):
    server = Server()
    server.replies[f"PATCH {POD}/status"] = [Reply(status)]
    ran = run(server)
    assert (ran.outcomes, ran.asked("POST", f"{POD}/eviction")) == (outcomes, 0)


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


def test_a_notice_names_the_api_servers_time(run):
    ran = run(Server(), turns=0)
    ran.set_clock(-600)
    ran.play(1)
    (notice,) = ran.notices()
    named = datetime.fromisoformat(notice["annotations"]["coloc.nri.io/evict-at"])
    assert 590 <= (datetime.now(UTC) - named).total_seconds() <= 620


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


def test_an_order_that_becomes_unreadable_loses_its_notice(run):
    server = Server(reason="schedule")
    ran = run(server)
    server.node["spec"]["evictions"][0]["name"] = "../x"
    ran.play(1)
    assert [each["uid"] for each in ran.notices()] == ["u1", "u1"]
    assert ran.notices()[-1]["annotations"] == {"coloc.nri.io/evict-at": None}


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
