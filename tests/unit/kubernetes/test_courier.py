"""kubernetes/courier.py: eviction orders into the ColocationNode of the node, and their results back."""

from datetime import datetime

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.kubernetes import courier, eviction
from nri_coloc.kubernetes.api import ApiRefused, ApiUnreachable
from nri_coloc.kubernetes.colocation_node import OBJECTS, ColocationNode
from nri_coloc.kubernetes.courier import Courier

NOW = 1_800_000_000.0
EVICTION = pb.Eviction(
    namespace="shop", pod="batch", uid="uid-1", reason="operator", text="why", by_operator=True
)


def told(*ids, expires_s=60, now_s=0):
    """Return entries of the orders of a daemon."""
    return courier.entries((pb.Order(id=each, expires_s=expires_s, eviction=EVICTION) for each in ids), now_s)


class Server:
    """An API server with one ColocationNode, None while there is none; `error` is raised by each call.

    passed_s: seconds since NOW.
    """

    def __init__(self, found=None):
        self.object = {"metadata": {"name": "a"}} if found is None else found
        self.error = None
        self.invalid: frozenset[str] = frozenset()
        self.calls = 0
        self.passed_s = 0

    def now(self):
        return NOW + self.passed_s

    def merge(self, path, body):
        self.called(path, f"{OBJECTS}/a")
        self.validate(body["spec"]["evictions"])
        if self.object is None:
            raise ApiRefused("no such object", 404)
        self.object["spec"] = {**self.object.get("spec", {}), **body["spec"]}
        return self.object

    def validate(self, evictions):
        """Refuse a list with an entry whose id is in `invalid`, as the API server does."""
        wrong = [number for number, each in enumerate(evictions) if each["id"] in self.invalid]
        causes = [{"field": f"spec.evictions[{number}].name", "message": "Too long"} for number in wrong]
        if causes:
            raise ApiRefused("PATCH: 422: is invalid", 422, body={"details": {"causes": causes}})

    def create(self, path, body):
        self.called(path, OBJECTS)
        self.object = body
        return body

    def called(self, path, expected):
        assert path == expected
        self.calls += 1
        if self.error is not None:
            raise self.error

    def decide(self, outcome="accepted", **more):
        """Write a result of each order, as the controller does."""
        listed = [
            {"id": each["id"], "outcome": outcome, "detail": "words", **more} for each in self.evictions
        ]
        self.object["status"] = {"results": listed}

    @property
    def evictions(self):
        return self.object["spec"]["evictions"]


def courier_of(server):
    return Courier(server, ColocationNode(server, "a", lambda: "uid-a"))


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def carrier(server):
    return courier_of(server)


def test_the_controller_can_read_an_order(server, carrier):
    carrier.turn(told("e1"), 0)
    (order,) = eviction.orders(server.object)
    assert order == eviction.Order(
        "e1", "shop", "batch", "uid-1", NOW + 60 - courier.MARGIN_S, by_operator=True, reason="operator"
    )


def test_a_result_is_returned(server, carrier):
    carrier.turn(told("e1"), 0)
    server.decide("budget", retryAfterSeconds=10)
    assert carrier.turn(told("e1"), 1) == {"e1": Result("e1", Outcome.BUDGET, "words", 10)}


def test_a_closed_order_is_removed(server, carrier):
    carrier.turn(told("e1"), 0)
    server.decide()
    carrier.turn(told("e1"), 1)
    assert carrier.turn((), 2) == {}
    assert server.evictions == []


def test_an_order_with_a_result_costs_nothing(server, carrier):
    carrier.turn(told("e1"), 0)
    server.decide()
    for second in range(1, 100):
        carrier.turn(told("e1"), second)
    assert server.calls == 2


def test_without_orders_there_is_one_call(server, carrier):
    for second in range(100):
        carrier.turn((), second)
    assert server.calls == 1


def test_the_end_of_an_order_stays(server, carrier):
    carrier.turn(told("e1", expires_s=60), 0)
    first, server.passed_s = server.evictions, 1
    carrier.turn(told("e1", expires_s=40), 1)
    assert server.evictions == first


def test_a_clock_that_is_heard_late_changes_no_order(server, carrier):
    carrier.turn(told("e1"), 0)
    first, server.passed_s = server.evictions, 0.1
    carrier.turn(told("e1"), 1)
    assert (server.calls, server.evictions) == (2, first)


def test_an_order_follows_a_clock_that_was_set(server, carrier):
    carrier.turn(told("e1"), 0)
    server.passed_s = 601
    carrier.turn(told("e1"), 1)
    (order,) = eviction.orders(server.object)
    assert order.expires_at == NOW + 600 + 60 - courier.MARGIN_S


def test_results_are_asked_for_ever_more_seldom(server, carrier):
    for second in range(60):
        carrier.turn(told("e1"), second)
    assert 18 <= server.calls <= 22


def test_a_restarted_companion_gets_the_result(server, carrier):
    carrier.turn(told("e1"), 0)
    server.decide()
    again = courier_of(server)
    assert again.turn(told("e1"), 0)["e1"].outcome is Outcome.ACCEPTED


def test_a_restarted_companion_removes_former_orders(server, carrier):
    carrier.turn(told("e1"), 0)
    courier_of(server).turn((), 0)
    assert server.evictions == []


def test_a_missing_object_is_created(carrier, server):
    server.object = None
    carrier.turn(told("e1"), 0)
    assert server.object["metadata"]["name"] == "a"
    assert [each["id"] for each in server.evictions] == ["e1"]


def test_a_missing_object_without_orders_stays_missing(carrier, server):
    server.object = None
    carrier.turn((), 0)
    assert (server.object, carrier.problem) == (None, "")


def test_an_absent_api_makes_an_order_unreachable(carrier, server):
    server.error = ApiUnreachable("PATCH: connection refused")
    assert carrier.turn(told("e1", expires_s=60), 0) == {}
    ended = carrier.turn(told("e1", expires_s=2), 58)["e1"]
    assert (ended.outcome, ended.detail) == (
        Outcome.UNREACHABLE,
        "the order expired: PATCH: connection refused",
    )


def test_an_absent_controller_makes_an_order_unreachable(carrier):
    carrier.turn(told("e1", expires_s=60), 0)
    assert "the controller gave no result" in carrier.turn(told("e1"), 58)["e1"].detail


def test_failed_calls_are_backed_off(carrier, server):
    server.error = ApiRefused("too many", 429, retry_after_s=20)
    for second in range(60):
        carrier.turn(told("e1", f"e{second}"), second)
    assert server.calls <= 3


def test_a_conflict_is_tried_again(carrier, server):
    server.error = ApiRefused("conflict", 409)
    carrier.turn(told("e1"), 0)
    server.error = None
    carrier.turn(told("e1"), 1)
    assert len(server.evictions) == 1


@pytest.mark.parametrize("missing", [False, True], ids=["object", "no object"])
def test_an_invalid_order_costs_no_other(carrier, server, missing):
    server.object = None if missing else server.object
    server.invalid = frozenset({"e2"})
    orders = told("e1", "e2", "e3")
    found = carrier.turn(orders, 0)["e2"]
    carrier.turn(orders, 1)
    assert (found.outcome, found.detail) == (
        Outcome.REFUSED,
        "the API server calls the order invalid: Too long",
    )
    assert ([each["id"] for each in server.evictions], carrier.problem) == (["e1", "e3"], "")
    assert "e2" in carrier.turn(orders, 2)


@pytest.mark.parametrize(
    "body",
    [{}, {"details": 3}, {"details": {"causes": [{"message": "denied"}, {"field": "spec.evictions[9]"}]}}],
    ids=["empty", "other shape", "a policy"],
)
def test_a_refusal_of_no_order_is_backed_off(carrier, server, body):
    server.error = ApiRefused("PATCH: 422: denied", 422, body=body)
    for second in range(10):
        assert carrier.turn(told("e1"), second) == {}
    assert server.calls <= 6


@pytest.mark.parametrize(
    "result",
    [
        {"id": "e1", "outcome": "deleted"},
        {"id": "e1", "outcome": "gone", "detail": "x" * 201},
        {"id": "e1", "outcome": "gone", "retryAfterSeconds": 3601},
        {"id": "e1", "outcome": ["gone"]},
        {"id": "other", "outcome": "gone"},
    ],
)
def test_a_hostile_result_is_ignored(result):
    assert courier.results({"status": {"results": [result]}}, ["e1"]) == {}


@pytest.mark.parametrize("status", [[], {"results": "x"}, {"results": ["x"]}])
def test_a_hostile_object_is_reported(carrier, server, status):
    server.object["status"] = status
    assert carrier.turn(told("e1"), 0) == {}
    assert carrier.problem


def test_a_detail_with_control_characters_is_cleaned():
    found = {"status": {"results": [{"id": "e1", "outcome": "refused", "detail": "a\nb\x1b[2J"}]}}
    assert courier.results(found, ["e1"])["e1"].detail == "a b?[2J"


def test_an_order_of_an_unknown_kind_is_left_out():
    assert courier.entries([pb.Order(id="e1", expires_s=9)], 0) == ()


def test_the_end_has_a_time_zone(server, carrier):
    carrier.turn(told("e1"), 0)
    assert datetime.fromisoformat(server.evictions[0]["expiresAt"]).tzinfo is not None
