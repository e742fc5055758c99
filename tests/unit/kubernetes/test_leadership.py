"""A replica of the controller leads as long as the Lease is its own; the API server is on a real socket."""

from typing import Any

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
