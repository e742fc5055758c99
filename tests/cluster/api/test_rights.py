"""A companion's token, on a real API server: its own node and our keys, and nothing else.

The token is bound to a pod on node "a", as the kubelet's own are. The manifests of deploy/cluster give its rights.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nri_coloc.kubernetes import api, presets
from nri_coloc.kubernetes.api import Api, ApiRefused
from nri_coloc.kubernetes.colocation_node import ColocationNode
from nri_coloc.kubernetes.figures import Figures
from nri_coloc.kubernetes.publication import SUMMARY_S
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node, pod
from tests.cluster.companion_rig import OFFER
from tests.rig.waiting import wait_until

REPORT = kit.report()
CPU, MEMORY = presets.DEFAULT
DENIED = (403, 422)
RENDER_STATUS = f"{kit.PODS}/render-1/status"

Call = Callable[[Api], object]


@pytest.fixture(scope="module")
def admin(server: ApiServer) -> Iterator[Api]:
    """The administrator's API, with nodes, pods and the manifests."""
    found = server.admin()
    kit.apply(server)
    for name in ("a", "b"):
        found.create("/api/v1/nodes", node(name))
        found.create("/api/v1/namespaces/kube-system/pods", kit.companion_pod(name))
    found.create("/api/v1/namespaces/default/pods", pod("render-1", on="a"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def companion(server: ApiServer, admin: Api) -> Iterator[Api]:
    """The API with the token of the companion on node "a"; its rights are in force."""
    found = kit.companion_on(server, admin, "a")
    wait_until(lambda: _status_of(_own_report(found)) == 200, 10, "the rights of the companion")
    wait_until(lambda: _status_of(_mode(found)) in DENIED, 10, "the policy for nodes")
    wait_until(lambda: _status_of(_finalizer(found)) in DENIED, 10, "the policy for ColocationNodes")
    wait_until(lambda: _status_of(_foreign_event(found)) in DENIED, 10, "the policy for Events")
    yield found
    found.close()


def _own_report(client: Api) -> Call:
    return lambda _: client.merge(kit.status("a"), REPORT)


def _mode(client: Api) -> Call:
    body = _labels("coloc.nri.io/mode", "observe")
    return lambda _: client.merge(kit.status("a"), body, dryRun="All")


def _finalizer(client: Api) -> Call:
    body = kit.colocation_node("a", finalizers=["example.com/never"])
    return lambda _: client.create(kit.OBJECTS, body, dryRun="All")


def _foreign_event(client: Api) -> Call:
    return lambda _: client.create(kit.EVENTS, kit.event(on="b"), dryRun="All")


def _labels(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {key: value}}}


def _annotations(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def _capacity(key: str, value: str | None) -> dict[str, Any]:
    return {"status": {"capacity": {key: value}}}


def _status_of(call: Call) -> int:
    try:
        call(None)  # type: ignore[arg-type]  # these calls have their client already
    except ApiRefused as error:
        return error.status
    return 200


# ---- its own node and object ----


def test_its_own_report_is_accepted(companion, admin):
    companion.merge(kit.status("a"), REPORT)
    found = admin.get("/api/v1/nodes/a")
    assert found["status"]["allocatable"]["coloc.nri.io/open"] == "110"
    assert found["metadata"]["labels"]["coloc.nri.io/lending"] == "on"


def test_its_whole_node_is_accepted(companion, admin):
    whole = {CPU: "8000", MEMORY: "16Gi"}
    companion.merge(kit.status("a"), {"status": {"capacity": whole, "allocatable": whole}})
    assert admin.get("/api/v1/nodes/a")["status"]["allocatable"][CPU] == "8k"


def test_it_can_close_its_node(companion, admin):
    companion.merge(kit.status("a"), REPORT)
    closed = {key: {"coloc.nri.io/open": None} for key in ("capacity", "allocatable")}
    companion.merge(kit.status("a"), {"status": closed})
    assert "coloc.nri.io/open" not in admin.get("/api/v1/nodes/a")["status"]["capacity"]


def test_it_can_write_its_own_object(companion, admin):
    companion.create(kit.OBJECTS, kit.colocation_node("a"))
    order = {
        "id": "d-1",
        "namespace": "default",
        "name": "render-1",
        "uid": "u",
        "expiresAt": "2026-11-26T10:00:00Z",
    }
    companion.merge(f"{kit.OBJECTS}/a", {"spec": {"evictions": [order]}})
    assert admin.get(f"{kit.OBJECTS}/a")["spec"]["evictions"] == [order]
    kit.delete(admin, f"{kit.OBJECTS}/a")


def test_its_deleted_object_returns_with_unchanged_figures(companion, admin):
    uid = admin.get("/api/v1/nodes/a")["metadata"]["uid"]
    figures, path = Figures(ColocationNode(companion, "a", lambda: uid)), f"{kit.OBJECTS}/a"
    figures.turn(OFFER, 0)
    first = admin.get(path)
    figures.turn(OFFER, SUMMARY_S)
    assert admin.get(path) == first  # the API server stores no write that changes nothing
    kit.delete(admin, path)
    figures.turn(OFFER, 2 * SUMMARY_S)
    again = admin.get(path)
    assert again["spec"] == first["spec"]
    assert [each["uid"] for each in again["metadata"]["ownerReferences"]] == [uid]
    kit.delete(admin, path)


def test_it_can_write_and_change_its_own_event(companion, admin):
    body = kit.event()
    companion.create(kit.EVENTS, body)
    path = f"{kit.EVENTS}/{body['metadata']['name']}"
    changed = {"count": 7, "lastTimestamp": "2027-01-15T09:00:00Z", "message": "worse value"}
    companion.merge(path, changed)
    found = admin.get(path)
    assert {key: found[key] for key in changed} == changed
    assert found["firstTimestamp"] == body["firstTimestamp"]


def test_it_can_write_an_event_of_its_node(companion):
    companion.create(kit.EVENTS, kit.node_event("a"))


# ---- anything else ----

NODE_B = {"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "b"}
SECRET = {"apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "x"}
EVENT_ATTACKS: dict[str, dict[str, Any]] = {
    "another node's source": kit.event(on="b"),
    "another source": {**kit.event(), "source": {"component": "kubelet", "host": "a"}},
    "another reporter": {**kit.event(), "reportingComponent": "kubelet"},
    "another reason": {**kit.event(), "reason": "Killing"},
    "a control character": kit.event(message="a\x1b[2J"),
    "a reversed text": kit.event(message="a\u202eb"),
    "a long message": kit.event(message="x" * 513),
    "another node": {**kit.node_event("a"), "involvedObject": NODE_B},
    "a secret": {**kit.event(), "involvedObject": SECRET},
    "an action": {**kit.event(), "action": "x"},
    "a label": {**kit.event(), "metadata": {**kit.event()["metadata"], "labels": {"a": "b"}}},
}


@pytest.mark.parametrize("attack", EVENT_ATTACKS)
def test_any_other_event_is_refused(companion, attack):
    body = EVENT_ATTACKS[attack]
    with pytest.raises(ApiRefused) as refused:
        companion.create(f"/api/v1/namespaces/{body['metadata']['namespace']}/events", body)
    assert refused.value.status in DENIED
    assert "nri-coloc-events" in str(refused.value)


@pytest.mark.parametrize("reporter", ["kubelet", "nri-coloc"])
def test_an_event_of_another_writer_stays(companion, admin, reporter):
    body = kit.event(on="b", pod=f"of-{reporter}") | {"reportingComponent": reporter}
    admin.create(kit.EVENTS, body)
    mine = kit.event(pod=f"of-{reporter}")
    path = f"{kit.EVENTS}/{body['metadata']['name']}"
    for change in ({"message": "nothing happened"}, mine):
        with pytest.raises(ApiRefused) as refused:
            companion.merge(path, change)
        assert refused.value.status in DENIED
    assert admin.get(path)["message"] == "bad value"


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "render-1"}}

ATTACKS: dict[str, Call] = {
    "another node's report": lambda it: it.merge(kit.status("b"), REPORT),
    "another node's label": lambda it: it.merge(kit.status("b"), _labels("coloc.nri.io/lending", "off")),
    "CPUs": lambda it: it.merge(kit.status("a"), _capacity("cpu", "800")),
    "removed memory": lambda it: it.merge(kit.status("a"), _capacity("memory", None)),
    "allocatable pods": lambda it: it.merge(kit.status("a"), {"status": {"allocatable": {"pods": "9999"}}}),
    "a foreign resource": lambda it: it.merge(kit.status("a"), _capacity("example.com/gpu", "8")),
    "a key that begins as ours": lambda it: it.merge(kit.status("a"), _capacity("coloc.nri.io/x", "8")),
    "lent CPUs beyond int64": lambda it: it.merge(kit.status("a"), _capacity(CPU, "12E")),
    "lent CPUs of three nodes": lambda it: it.merge(kit.status("a"), _capacity(CPU, "24000")),
    "a part of a lent milli-CPU": lambda it: it.merge(kit.status("a"), _capacity(CPU, "1500m")),
    "a negative amount": lambda it: it.merge(kit.status("a"), _capacity(CPU, "-1")),
    "lent memory of three nodes": lambda it: it.merge(kit.status("a"), _capacity(MEMORY, "48Gi")),
    "allocatable memory of three nodes": lambda it: it.merge(
        kit.status("a"), {"status": {"allocatable": {MEMORY: "48Gi"}}}
    ),
    "a gate for a million pods": lambda it: it.merge(
        kit.status("a"), _capacity("coloc.nri.io/open", "1000001")
    ),
    "a foreign label": lambda it: it.merge(kit.status("a"), _labels("topology.kubernetes.io/zone", "z")),
    "the label mode": lambda it: it.merge(kit.status("a"), _labels("coloc.nri.io/mode", "observe")),
    "a removed label": lambda it: it.merge(kit.status("a"), _labels("kubernetes.io/hostname", None)),
    "a foreign annotation": lambda it: it.merge(kit.status("a"), _annotations("example.com/x", "y")),
    "a long annotation": lambda it: it.merge(
        kit.status("a"), _annotations("coloc.nri.io/reported-at", "x" * 65)
    ),
    "a finalizer of the node": lambda it: it.merge(
        kit.status("a"), {"metadata": {"finalizers": ["example.com/never"]}}
    ),
    "an owner of the node": lambda it: it.merge(
        kit.status("a"),
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
    ),
    "a condition": lambda it: it.merge(
        kit.status("a"), {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ),
    "an address": lambda it: it.merge(
        kit.status("a"), {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}}
    ),
    "the node's spec": lambda it: it.merge("/api/v1/nodes/a", {"spec": {"unschedulable": True}}),
    "a label by the node itself": lambda it: it.merge(
        "/api/v1/nodes/a", _labels("coloc.nri.io/lending", "on")
    ),
    "a replaced status": lambda it: it.replace(kit.status("a"), node("a")),
    "a new node": lambda it: it.create("/api/v1/nodes", node("c")),
    "a deleted node": lambda it: kit.delete(it, "/api/v1/nodes/a"),
    "an eviction": lambda it: it.create(f"{kit.PODS}/render-1/eviction", EVICTION),
    "a deleted pod": lambda it: kit.delete(it, f"{kit.PODS}/render-1"),
    "a changed pod": lambda it: it.merge(f"{kit.PODS}/render-1", _labels("x", "y")),
    "a new pod": lambda it: it.create(kit.PODS, pod("mine", on="a")),
    "an annotation of a pod": lambda it: it.merge(RENDER_STATUS, _annotations("example.com/owner", "me")),
    "a label of a pod": lambda it: it.merge(RENDER_STATUS, _labels("app", "web")),
    "the status of a pod": lambda it: it.merge(RENDER_STATUS, {"status": {"phase": "Failed"}}),
    "the spec of a pod": lambda it: it.merge(f"{kit.PODS}/render-1", _annotations("a", "b")),
    "another node's object": lambda it: it.create(kit.OBJECTS, kit.colocation_node("b")),
    "another object's orders": lambda it: it.merge(f"{kit.OBJECTS}/b", {"spec": {"evictions": []}}),
    "an object with a finalizer": lambda it: it.create(
        kit.OBJECTS, kit.colocation_node("a", finalizers=["example.com/x"])
    ),
    "an object of another owner": lambda it: it.create(
        kit.OBJECTS,
        kit.colocation_node(
            "a", ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "x"}]
        ),
    ),
    "a deleted object": lambda it: kit.delete(it, f"{kit.OBJECTS}/b"),
    "results of its own": lambda it: it.merge(f"{kit.OBJECTS}/b/status", {"status": {"results": []}}),
    "a token": lambda it: it.create(
        f"/api/v1/namespaces/kube-system/serviceaccounts/{kit.COMPANION}/token", {"spec": {}}
    ),
    "a deleted Event": lambda it: kit.delete(it, f"{kit.EVENTS}/x"),
    "Events of others": lambda it: it.get(kit.EVENTS),
    "an Event of another API": lambda it: it.create(
        "/apis/events.k8s.io/v1/namespaces/default/events", {"metadata": {"name": "x"}}
    ),
    "secrets": lambda it: it.get("/api/v1/secrets"),
    "config maps": lambda it: it.get("/api/v1/configmaps"),
    "a lease": lambda it: it.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"),
    "a shell in a pod": lambda it: it.create(f"{kit.PODS}/render-1/exec", {}),
    "a pod's log": lambda it: it.get(f"{kit.PODS}/render-1/log"),
    "the kubelet": lambda it: it.get("/api/v1/nodes/a/proxy/pods"),
    "another binding": lambda it: it.create(f"{kit.PODS}/render-1/binding", {}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_anything_else_is_refused(companion, admin, attack):
    with_b = kit.colocation_node("b")
    _status_of(lambda _: admin.create(kit.OBJECTS, with_b))
    with pytest.raises(ApiRefused) as refused:
        ATTACKS[attack](companion)
    assert refused.value.status in DENIED


def test_a_refusal_names_both_nodes(companion):
    with pytest.raises(ApiRefused, match="the token belongs to node a, not to b"):
        companion.merge(kit.status("b"), REPORT)


def test_a_token_without_a_pod_may_write_nothing(server, companion, admin):
    unbound = api.connect(str(server.kubeconfig("unbound", kit.token(admin, kit.COMPANION))))
    with pytest.raises(ApiRefused, match="the token belongs to node , not to a"):
        unbound.merge(kit.status("a"), REPORT)
    unbound.close()


def test_each_token_has_its_own_node(server, companion, admin):
    other = kit.companion_on(server, admin, "b")
    other.merge(kit.status("b"), REPORT)
    with pytest.raises(ApiRefused):
        other.merge(kit.status("a"), REPORT)
    other.close()


def test_the_kubelet_is_not_limited(companion, admin):
    found = admin.merge(kit.status("a"), _capacity("example.com/gpu", "8"))
    assert found["status"]["capacity"]["example.com/gpu"] == "8"
    admin.merge(kit.status("a"), _capacity("example.com/gpu", None))


# ---- the controller ----


CONTROLLER_ATTACKS: dict[str, Call] = {
    "CPUs": lambda it: it.merge(kit.status("b"), _capacity("cpu", "800")),
    "a foreign label": lambda it: it.merge(kit.status("b"), _labels("topology.kubernetes.io/zone", "z")),
    "a condition": lambda it: it.merge(
        kit.status("b"), {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ),
    "a deleted pod": lambda it: kit.delete(it, f"{kit.PODS}/render-1"),
    "orders of a node": lambda it: it.create(kit.OBJECTS, kit.colocation_node("c")),
    "another Lease": lambda it: it.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a"),
    "secrets": lambda it: it.get("/api/v1/secrets"),
    "a new pod": lambda it: it.create(kit.PODS, pod("mine", on="a")),
}


@pytest.fixture(scope="module")
def controller(server: ApiServer, companion: Api, admin: Api) -> Iterator[Api]:
    """The API with the token of the controller."""
    found = kit.controller(server, admin)
    yield found
    found.close()


def test_the_controller_corrects_any_node(controller, admin):
    controller.merge(kit.status("b"), _capacity("kubernetes.io/batch-cpu", "1"))
    assert admin.get("/api/v1/nodes/b")["status"]["capacity"]["kubernetes.io/batch-cpu"] == "1"


def test_an_unreadable_amount_keeps_no_node_open(controller, admin):
    admin.merge(kit.status("b"), {"status": {"capacity": {CPU: "12E", "coloc.nri.io/open": "110"}}})
    controller.merge(kit.status("b"), _capacity("coloc.nri.io/open", None))
    assert "coloc.nri.io/open" not in admin.get("/api/v1/nodes/b")["status"]["capacity"]


def test_the_controller_gives_notice_to_a_pod(controller, admin):
    controller.merge(RENDER_STATUS, _annotations("coloc.nri.io/evict-at", "2026-11-26T20:00:00Z"))
    found = admin.get(f"{kit.PODS}/render-1")["metadata"]["annotations"]
    assert found["coloc.nri.io/evict-at"] == "2026-11-26T20:00:00Z"


@pytest.mark.parametrize("attack", CONTROLLER_ATTACKS)
def test_the_controller_does_nothing_else(controller, attack):
    with pytest.raises(ApiRefused) as refused:
        CONTROLLER_ATTACKS[attack](controller)
    assert refused.value.status in DENIED
