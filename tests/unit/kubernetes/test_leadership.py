"""A replica of the controller leads as long as the Lease is its own; the API server is on a real socket."""

import time
from threading import Event
from typing import Any

import pytest

from nri_coloc.kubernetes import lease
from nri_coloc.kubernetes.leadership import Leadership
from tests.unit.kubernetes.fake_api import Asked, Reply, serving


class Store:
    """An API server with one Lease, or none."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {}
        self._version = 0

    def put(self, spec: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = {"metadata": {"name": "x", "resourceVersion": str(self._version)}, "spec": spec}
        return self.lease

    def answers(self, asked: Asked) -> Reply:
        if asked.method != "GET":
            return Reply(body=self.put(asked.body["spec"]))
        return Reply(body=self.lease) if self.lease else Reply(404, {"message": "not found"})


def test_two_replicas_never_lead_at_once(tmp_path):
    store = Store()
    with serving(tmp_path, store.answers) as server:
        first = Leadership(server.connect(), "a", lambda _: None)
        second = Leadership(server.connect(), "b", lambda _: None)
        first.turn()
        assert first.leads
        store.lease = {}  # an operator deletes it
        second.turn()
        first.turn()
        assert (first.leads, second.leads) == (False, True)


def test_a_replica_leads_on_while_its_lease_is_unreadable(tmp_path):
    store = Store()
    with serving(tmp_path, store.answers) as server:
        replica = Leadership(server.connect(), "a", lambda _: None)
        replica.turn()
        store.put({"holderIdentity": 7})
        replica.turn()
        assert replica.leads
        assert replica.problem.endswith("; delete it")


@pytest.mark.parametrize("step_s", [3600.0, -3600.0], ids=["forward", "back"])
def test_a_set_clock_moves_no_lease(tmp_path, monkeypatch, step_s):
    store, now = Store(), time.time
    with serving(tmp_path, store.answers) as server:
        first = Leadership(server.connect(), "a", lambda _: None)
        second = Leadership(server.connect(), "b", lambda _: None)
        first.turn()
        second.turn()
        monkeypatch.setattr(time, "time", lambda: now() + step_s)  # also the API server's, in its header Date
        second.turn()
        first.turn()
        second.turn()
        assert (first.leads, second.leads) == (True, False)


@pytest.mark.parametrize("spec", [[1], {"holderIdentity": 7}], ids=["list", "number"])
def test_an_unreadable_lease_does_not_prevent_the_end(tmp_path, spec):
    store, stop = Store(), Event()
    with serving(tmp_path, store.answers) as server:
        replica = Leadership(server.connect(), "a", lambda _: None)
        replica.turn()
        store.put(spec)
        stop.set()
        replica.run(stop)
        assert not replica.leads


def test_the_end_releases_the_lease(tmp_path):
    store, stop = Store(), Event()
    with serving(tmp_path, store.answers) as server:
        replica = Leadership(server.connect(), "a", lambda _: None)
        replica.turn()
        stop.set()
        replica.run(stop)
    assert store.lease["spec"]["holderIdentity"] == ""


def pauses(tmp_path, monkeypatch, *replies: Reply) -> list[float]:
    """Return the longest pauses after these answers of the API server."""
    monkeypatch.setattr("random.random", lambda: 1.0)
    answers, stop, found_s = iter(replies), Event(), list[float]()

    def wait(pause_s: float) -> None:
        found_s.append(pause_s)
        if len(found_s) == len(replies):
            stop.set()

    monkeypatch.setattr(stop, "wait", wait)
    with serving(tmp_path, lambda _: next(answers)) as server:
        Leadership(server.connect(), "a", lambda _: None).run(stop)
    return found_s


BUSY = Reply(429, {"message": "busy"})
THEIRS = Reply(
    body={"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "b", "leaseDurationSeconds": 15}}
)
UNREADABLE = Reply(body={"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": 7}})


@pytest.mark.parametrize("reply", [BUSY, UNREADABLE], ids=["busy", "unreadable"])
def test_a_lease_that_fails_is_tried_less_often(tmp_path, monkeypatch, reply):
    assert pauses(tmp_path, monkeypatch, *[reply] * 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_busy_api_server_is_left_alone(tmp_path, monkeypatch):
    busy = BUSY._replace(headers=(("Retry-After", "20"),))
    assert pauses(tmp_path, monkeypatch, busy) == [40]


def test_a_lease_that_works_again_is_tried_as_before(tmp_path, monkeypatch):
    assert pauses(tmp_path, monkeypatch, BUSY, BUSY, THEIRS, BUSY) == [0.5, 1, lease.RETRY_S, 0.5]


def test_a_leader_that_fails_has_several_tries(tmp_path, monkeypatch):
    until_s = lease.RENEW_WITHIN_S - lease.RETRY_S
    assert sum(pauses(tmp_path, monkeypatch, *[BUSY] * 4)) <= until_s
