"""The controller on a real API server, with the rights of its manifests: orders of nodes become evictions.

No kubelet runs, so an evicted pod stays in deletion: its grace begins, and nothing ends it.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
import structlog

from nri_coloc.core.settings import Tuning
from nri_coloc.kubernetes import presets
from nri_coloc.kubernetes.api import Api, ApiRefused
from nri_coloc.kubernetes.controller import Controller
from nri_coloc.kubernetes.eviction import Rules
from nri_coloc.kubernetes.leadership import Leadership
from nri_coloc.kubernetes.rate import NODE
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node, pod
from tests.rig import vitals
from tests.rig.waiting import PATIENCE_SECONDS, becomes, wait_until

ONLY_NEWEST = True

ON = Rules(may_evict=True, tuning=Tuning())
OFF = Rules(may_evict=False, tuning=Tuning())
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
"""As a kubelet reports it. No budget protects a pending pod."""

Connect = Callable[[], Api]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/nri-coloc-controller"


class Replica:
    """A running replica of the controller, with connections of its own: it closes them at its end."""

    def __init__(self, connect: Connect, rules: Rules, identity: str) -> None:
        self._stop = Event()
        self.controller = Controller(
            connect(),
            identity=identity,
            rules=lambda: rules,
            preset=lambda: presets.DEFAULT,
            log=structlog.get_logger(),
        )
        self._thread = Thread(target=self.controller.run, args=(self._stop,))
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Return whether its metric says that it leads."""
        return self.controller.registry.get_sample_value("nri_coloc_controller_leader") == 1

    def stop(self) -> None:
        """End it as SIGTERM does."""
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def admin(server: ApiServer) -> Iterator[Api]:
    """The administrator's API, with nodes and the manifests."""
    found = server.admin()
    kit.apply(server)
    for name in ("a", "b"):
        found.create("/api/v1/nodes", node(name))
        found.create(kit.OBJECTS, kit.colocation_node(name))
    yield found
    found.close()


@pytest.fixture(scope="module")
def controller_api(server: ApiServer, admin: Api) -> Iterator[Api]:
    """The API with the controller's own token."""
    found = kit.controller(server, admin)
    yield found
    found.close()


@pytest.fixture
def connect(server: ApiServer, admin: Api) -> Connect:
    """Return a function that connects with the controller's own token."""
    return partial(kit.controller, server, admin)


@contextmanager
def running(connect: Connect, rules: Rules = ON, identity: str = "one") -> Iterator[Replica]:
    """Run a replica that leads."""
    replica = Replica(connect, rules, identity)
    try:
        wait_until(lambda: replica.leads, 20, "a leader")
        yield replica
    finally:
        replica.stop()


@pytest.fixture
def replica(connect: Connect) -> Iterator[Replica]:
    with running(connect) as found:
        yield found


@pytest.fixture
def made(admin: Api) -> Iterator[Callable[..., dict[str, Any]]]:
    """Make pods that are gone after the test."""
    names: list[str] = []

    def make(name: str, on: str = "a", **fields: Any) -> dict[str, Any]:
        names.append(name)
        admin.create(kit.PODS, pod(name, on=on, **fields))
        return admin.merge(f"{kit.PODS}/{name}/status", {"status": RUNNING})

    yield make
    for name in names:
        _remove(admin, name)
    for name in ("a", "b"):
        admin.merge(f"{kit.OBJECTS}/{name}", {"spec": {"evictions": []}})


def _remove(admin: Api, name: str) -> None:
    try:
        kit.delete(admin, f"{kit.PODS}/{name}", {"gracePeriodSeconds": 0})
    except ApiRefused as error:
        if error.status != 404:
            raise


def order(of: dict[str, Any], seconds: float = 600, **fields: Any) -> dict[str, Any]:
    """Return an order for a pod; it expires late, for a machine may stand still."""
    metadata = of["metadata"]
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    return {
        "id": metadata["uid"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "expiresAt": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **fields,
    }


def place(admin: Api, *orders: dict[str, Any], on: str = "a") -> None:
    """Write orders as the companion of a node does."""
    admin.merge(f"{kit.OBJECTS}/{on}", {"spec": {"evictions": list(orders)}})


def outcomes(admin: Api, on: str = "a") -> dict[str, str]:
    """Return the outcomes of the orders that are there, by pod."""
    found = admin.get(f"{kit.OBJECTS}/{on}")
    names = {each["id"]: each["name"] for each in found["spec"]["evictions"]}
    results = found.get("status", {}).get("results", [])
    return {names[each["id"]]: each["outcome"] for each in results if each["id"] in names}


def is_leaving(admin: Api, name: str) -> bool:
    """Return whether a pod is being deleted."""
    return "deletionTimestamp" in admin.get(f"{kit.PODS}/{name}")["metadata"]


def noticed(admin: Api, name: str) -> bool:
    """Return whether a pod has the notice of its eviction."""
    return "coloc.nri.io/evict-at" in admin.get(f"{kit.PODS}/{name}")["metadata"].get("annotations", {})


def test_an_order_evicts_a_reclaimed_pod(replica, admin, made):
    place(admin, order(made("render")))
    becomes(lambda: outcomes(admin), {"render": "accepted"})
    assert is_leaving(admin, "render")
    assert noticed(admin, "render")


def test_a_pod_of_another_node_stays(replica, admin, made):
    place(admin, order(made("render", on="b")))
    becomes(lambda: outcomes(admin), {"render": "refused"})
    assert not is_leaving(admin, "render")


def test_an_online_pod_stays(replica, admin, made):
    online = made("web", annotations={"coloc.nri.io/qos-class": "shared"})
    place(admin, order(online, byOperator=True))
    becomes(lambda: outcomes(admin), {"web": "refused"})
    assert not is_leaving(admin, "web")


def test_another_pod_of_the_name_stays(replica, admin, made):
    place(admin, order(made("render"), uid="another"))
    becomes(lambda: outcomes(admin), {"render": "gone"})
    assert not is_leaving(admin, "render")


def test_a_deleted_pod_is_gone(replica, admin, made):
    first = made("render")
    _remove(admin, "render")
    place(admin, order(first))
    becomes(lambda: outcomes(admin), {"render": "gone"})


def test_a_budget_is_respected(replica, admin, made):
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "render"}}}
    admin.create(budgets, {"metadata": {"name": "render"}, "spec": spec})
    place(admin, order(made("render", labels={"app": "render"}), byOperator=True))
    becomes(lambda: outcomes(admin), {"render": "budget"})
    assert not is_leaving(admin, "render")
    assert not noticed(admin, "render")
    kit.delete(admin, f"{budgets}/render")


def test_an_old_order_is_not_carried_out(replica, admin, made):
    place(admin, order(made("render"), seconds=-1))
    becomes(lambda: outcomes(admin), {"render": "unreachable"})
    assert not is_leaving(admin, "render")


def test_a_burst_is_limited(replica, admin, made):
    orders = [order(made(f"render-{number}")) for number in range(8)]
    began_s = time.monotonic()
    place(admin, *orders)
    wait_until(lambda: len(outcomes(admin)) == 8, 20, "all results")
    later = int((time.monotonic() - began_s) / NODE.every_s)
    accepted = list(outcomes(admin).values()).count("accepted")
    assert NODE.burst <= accepted <= NODE.burst + later
    assert list(outcomes(admin).values()).count("refused") == 8 - accepted


def test_orders_of_all_nodes_are_carried_out(replica, admin, made):
    place(admin, order(made("render-a")))
    place(admin, order(made("render-b", on="b")), on="b")
    becomes(
        lambda: outcomes(admin) | outcomes(admin, "b"),
        dict.fromkeys(("render-a", "render-b"), "accepted"),
    )


def test_a_switch_stops_nodes_and_no_operator(connect, admin, made):
    place(admin, order(made("render-1")), order(made("render-2"), byOperator=True))
    with running(connect, OFF):
        becomes(lambda: outcomes(admin), {"render-1": "refused", "render-2": "accepted"})


def test_an_order_waits_for_a_controller(connect, admin, made):
    place(admin, order(made("render")))
    assert outcomes(admin) == {}
    with running(connect):
        becomes(lambda: outcomes(admin), {"render": "accepted"})


def test_an_order_waits_for_the_api_server(replica, server, admin, made):
    first = made("render")
    place(admin, order(first))
    becomes(lambda: outcomes(admin), {"render": "accepted"})
    second = made("render-2")
    server.stop_server()
    server.start_server()
    place(admin, order(second))
    becomes(lambda: outcomes(admin), {"render-2": "accepted"})


def test_one_replica_leads_and_the_next_follows(connect, admin, made):
    first, second = (Replica(connect, ON, name) for name in ("one", "two"))
    wait_until(lambda: first.leads or second.leads, 20, "a leader")
    assert not (first.leads and second.leads)
    leader, other = (first, second) if first.leads else (second, first)
    leader.stop()
    wait_until(lambda: other.leads, 20, "the next leader")
    place(admin, order(made("render")))
    becomes(lambda: outcomes(admin), {"render": "accepted"})
    other.stop()


def test_a_lease_without_renewal_is_taken_over(connect, controller_api):
    dead = Leadership(controller_api, "dead", lambda _: None)

    def leads() -> bool:
        dead.turn()
        return dead.leads

    wait_until(leads, 20, "the Lease")
    with running(connect, identity="next") as found:
        assert found.leads
        dead.turn()
        assert controller_api.get(LEASE)["spec"]["holderIdentity"] == "next"


def test_a_replica_without_its_lease_does_nothing(connect, admin, made):
    with running(connect) as found:
        theirs = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
        wait_until(lambda: _write_lease(admin, theirs) and not found.leads, 30, "the loss of the Lease")
        place(admin, order(made("render")))
        assert outcomes(admin) == {}
        _write_lease(admin, {"holderIdentity": ""})
        becomes(lambda: outcomes(admin), {"render": "accepted"})


def _write_lease(admin: Api, spec: dict[str, Any]) -> bool:
    admin.merge(LEASE, {"spec": spec})
    return True


# ---- the command ----

MOST_MIB = 58
"""Of its own memory. Files that other processes have mapped too count for it less or more as those come and go."""


@pytest.fixture
def command(server, controller_api, tmp_path) -> Iterator["subprocess.Popen[str]"]:
    """`nri-coloc controller` as the Deployment starts it, with evictions switched on."""
    (tmp_path / "config.yaml").write_text("kubernetes: {evict: true}")
    kubeconfig = server.folder / "controller.kubeconfig"
    arguments = [f"--config={tmp_path}/config.yaml", f"--kubeconfig={kubeconfig}", "--http=127.0.0.1:0"]
    program = [sys.executable, "-m", "nri_coloc", "controller", *arguments]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_the_command_evicts_and_ends_at_once(command, admin, made):
    place(admin, order(made("render")))
    becomes(lambda: outcomes(admin), {"render": "accepted"})
    assert 0 < vitals.look(command.pid).anon_kib / 1024 <= MOST_MIB
    command.terminate()
    _, log = command.communicate(timeout=PATIENCE_SECONDS)
    assert (command.returncode, "outcome=accepted" in log) == (0, True), log
    assert admin.get(LEASE)["spec"]["holderIdentity"] == ""
