"""The companion with its own token on a real API server, and the stock scheduler beside it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.kubernetes.api import Api
from nri_coloc.kubernetes.event_reasons import NODE as NODE_SUBJECT
from nri_coloc.kubernetes.event_reasons import EventReason, Occurrence
from nri_coloc.kubernetes.event_writer import COMPONENT
from nri_coloc.kubernetes.presets import REPORTED_AT, Amounts
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.pods import quantity
from nri_coloc.pods.keys import EVICT_AT
from tests.cluster import credentials
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node
from tests.cluster.binaries import PAIRS, in_time
from tests.cluster.companion_rig import GIB, OFFER, CompanionRig, reporting_for
from tests.rig import installed, vitals
from tests.rig.eviction_orders import an_order
from tests.rig.waiting import becomes, wait_until

NODE = "node"
RENAMED = "renamed"
OPEN = "coloc.nri.io/open"
CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
SOON_S = 60
MOST_MIB = 44
"""Of its own memory. Files that other processes have mapped too count for it less or more as those come and go."""

RENEWED_MILLI = 1700
"""An offer that no other test has."""

PODS = "/api/v1/namespaces/default/pods"
PROBES = count()


@pytest.fixture(scope="module")
def control() -> Iterator[ApiServer]:
    """The newest API server whose programs are there."""
    if os.geteuid() != 0:
        pytest.skip("the programs of Kubernetes are installed as root")
    installed.have({"openssl": "openssl"})
    found = ApiServer((in_time() or PAIRS)[-1].kubernetes, Path(tempfile.mkdtemp(prefix="api-server-")))
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def admin(control: ApiServer) -> Iterator[Api]:
    """The administrator's API, with the manifests, a scheduler and a node."""
    found = control.admin()
    control.kubectl("apply", *(f"--filename={kit.MANIFESTS / name}" for name in kit.FILES))
    found.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    found.create("/api/v1/namespaces/kube-system/pods", kit.companion_pod(NODE))
    control.start_scheduler()
    register(found)
    yield found
    found.close()


def register(admin: Api, name: str = NODE) -> None:
    """Register the node as a kubelet does, ready for pods."""
    admin.create("/api/v1/nodes", node(name))
    admin.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    admin.merge(f"/api/v1/nodes/{name}/status", {"status": {"conditions": ready}})


@pytest.fixture
def rig(control: ApiServer, admin: Api) -> Iterator[CompanionRig]:
    """A companion whose node is open; pods of the test are deleted."""
    kit.companion_on(control, admin, NODE).close()
    with reporting_for(NODE, control.folder / f"companion-{NODE}.kubeconfig") as found:
        wait_until(
            lambda: lent_cpu(admin) == 2000 and OPEN in allocatable(admin),
            SOON_S,
            "an open node",
        )
        yield found
    control.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def allocatable(admin: Api, name: str = NODE) -> dict[str, str]:
    found: dict[str, str] = admin.get(f"/api/v1/nodes/{name}")["status"]["allocatable"]
    return found


def lent_cpu(admin: Api) -> int:
    """Return the lent CPU of the node, milli-CPU; the API server writes 2000 as 2k."""
    return quantity.whole_bytes(allocatable(admin).get(CPU, "0"))


def pod(admin: Api, name: str, requests: dict[str, str], **annotations: str) -> None:
    """Create a pod with requests; the limits are equal."""
    resources = {"requests": requests, "limits": requests}
    container = {"name": "main", "image": "none", "resources": resources}
    metadata = {"name": name, "annotations": annotations}
    admin.create(PODS, {"metadata": metadata, "spec": {"containers": [container]}})


def lent(cpu: str = "500") -> dict[str, str]:
    return {CPU: cpu, MEMORY: "1048576", OPEN: "1"}


def is_bound(admin: Api, name: str) -> bool:
    return bool(admin.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def is_refused(admin: Api, name: str, resource: str) -> bool:
    """Return whether the scheduler found no node because of a resource."""
    conditions: list[dict[str, Any]] = admin.get(f"{PODS}/{name}")["status"].get("conditions", [])
    return any(f"Insufficient {resource}" in condition.get("message", "") for condition in conditions)


def wait_closed(admin: Api) -> None:
    """Wait until the node is closed and the scheduler knows it: its watches of nodes and pods are two streams."""
    wait_until(lambda: OPEN not in allocatable(admin), SOON_S, "a closed node")
    wait_until(lambda: _knows_closed(admin), SOON_S, "a scheduler that knows the closed node")


def _knows_closed(admin: Api) -> bool:
    """Return whether the scheduler counts no place for a new pod, which is too large for every node."""
    name = f"probe-{next(PROBES)}"
    pod(admin, name, lent("1000000"))
    wait_until(lambda: is_refused(admin, name, CPU), SOON_S, "a refusal of a pod that is too large")
    return is_refused(admin, name, OPEN)


def test_the_offer_is_capacity_and_allocatable(rig, admin):
    status = admin.get(f"/api/v1/nodes/{NODE}")["status"]
    assert status["capacity"] == status["allocatable"]
    assert status["allocatable"][MEMORY] == str(4 * GIB)


def test_the_stock_scheduler_uses_lent_amounts(rig, admin):
    pod(admin, "one", lent("1500"))
    wait_until(lambda: is_bound(admin, "one"), SOON_S, "a node for the pod")
    pod(admin, "two", lent("1500"))
    wait_until(lambda: is_refused(admin, "two", CPU), SOON_S, "a refusal for want of lent CPU")


def test_a_closed_node_gets_no_reclaimed_pod(rig, admin):
    rig.state = OFFER._replace(lending=Lending.OFF)
    wait_closed(admin)
    pod(admin, "late", lent())
    pod(admin, "online", {"cpu": "1"})
    wait_until(lambda: is_bound(admin, "online"), SOON_S, "a node for the online pod")
    wait_until(lambda: is_refused(admin, "late", OPEN), SOON_S, "a refusal for want of an open node")
    assert CPU in allocatable(admin)


def test_a_closed_node_opens_again(rig, admin):
    rig.state = OFFER._replace(lending=Lending.COOLING)
    wait_closed(admin)
    pod(admin, "waits", lent())
    wait_until(lambda: is_refused(admin, "waits", OPEN), SOON_S, "a refusal for want of an open node")
    rig.state = OFFER
    wait_until(lambda: is_bound(admin, "waits"), SOON_S, "a node for the pod")


def test_a_report_stays_above_its_pods(rig, admin):
    pod(admin, "one", lent("1500"))
    wait_until(lambda: is_bound(admin, "one"), SOON_S, "a node for the pod")
    rig.state = OFFER._replace(offer=Amounts(100, GIB))
    floor = {CPU: "1500", OPEN: None}
    becomes(lambda: {name: allocatable(admin).get(name) for name in floor}, floor)


def test_no_text_of_a_pod_hides_it_from_the_watch(rig, admin):
    pod(admin, "odd", lent("1500"), note="the API server sends \x85 as it is")
    wait_until(lambda: is_bound(admin, "odd"), SOON_S, "a node for the pod")
    rig.state = OFFER._replace(offer=Amounts(100, GIB))
    floor = {CPU: "1500", OPEN: None}
    becomes(lambda: {name: allocatable(admin).get(name) for name in floor}, floor)


def test_no_depth_of_a_pod_hides_it_from_the_list(rig, admin, control):
    pod(admin, "deep", lent("1500"))
    wait_until(lambda: is_bound(admin, "deep"), SOON_S, "a node for the pod")
    fields = '{"f:a":' * 2000 + "{}" + "}" * 2000
    kind = '"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"'
    entry = f'{{{kind}, "fieldsV1": {fields}}}'
    patch = control.folder / "deep.json"
    patch.write_text(f'{{"metadata": {{"managedFields": [{entry}]}}}}')
    control.kubectl("patch", "pod", "deep", "--type=merge", f"--patch-file={patch}")
    rig.state = OFFER._replace(offer=Amounts(100, GIB))
    floor = {CPU: "1500", OPEN: None}
    becomes(lambda: {name: allocatable(admin).get(name) for name in floor}, floor)


def test_a_restarted_api_server_gets_the_report(rig, admin, control):
    control.stop_server()
    rig.state = OFFER._replace(lending=Lending.OFF)
    control.start_server()
    wait_until(lambda: OPEN not in allocatable(admin), SOON_S, "a closed node")


def test_a_node_made_again_is_reported_again(rig, admin, control):
    control.kubectl("delete", "node", NODE)
    register(admin)
    wait_until(lambda: CPU in allocatable(admin), SOON_S, "a report on the new node")


@contextmanager
def renamed(admin: Api) -> Iterator[None]:
    """Register the node under another name, and the companion's pod on it."""
    register(admin, RENAMED)
    companion = admin.create(kit.COMPANIONS, kit.companion_pod(RENAMED))["metadata"]["name"]
    try:
        yield
    finally:
        kit.delete(admin, f"{kit.COMPANIONS}/{companion}", {"gracePeriodSeconds": 0})
        kit.delete(admin, f"/api/v1/nodes/{RENAMED}")


def reported_at(admin: Api) -> str:
    return str(admin.get(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"][REPORTED_AT])


def test_a_renamed_node_reports_by_its_new_name(rig, admin, control):
    assert rig.stop_companion() == 0
    before = reported_at(admin)
    with renamed(admin):
        kit.companion_on(control, admin, RENAMED).close()
        with reporting_for(RENAMED, control.folder / f"companion-{RENAMED}.kubeconfig"):
            wait_until(lambda: OPEN in allocatable(admin, RENAMED), SOON_S, "an open node")
    assert reported_at(admin) == before


def test_an_ended_token_is_read_again(admin, control):
    token, file = kit.companion_token(admin, NODE), control.folder / "token"
    file.write_text(credentials.ended(token, control.accounts_key))
    with reporting_for(NODE, control.kubeconfig_of_file("renewed", file)) as rig:
        wait_until(lambda: "401: Unauthorized" in rig.log(), SOON_S, "the refusal of the ended token")
        rig.state = OFFER._replace(offer=Amounts(RENEWED_MILLI, 4 * GIB))
        assert lent_cpu(admin) != RENEWED_MILLI
        renew(file, token)
        wait_until(lambda: lent_cpu(admin) == RENEWED_MILLI, SOON_S, "a report with the new token")


def renew(file: Path, token: str) -> None:
    """Replace a file at once, as the kubelet does with a projected token."""
    other = file.with_name("renewed")
    other.write_text(token)
    other.replace(file)


def test_a_silent_daemon_closes_its_node(rig, admin):
    rig.stop_daemon()
    wait_until(lambda: OPEN not in allocatable(admin), SOON_S, "a closed node")


def described(control: ApiServer, pod: str) -> list[str]:
    """Return the lines that `kubectl describe pod` has on annotations."""
    lines = control.kubectl("describe", "pod", pod).splitlines()
    return [line for line in lines if "AnnotationInvalid" in line]


def test_describe_shows_an_event_with_its_count(rig, admin, control):
    pod(admin, "wrong", lent())
    uid = admin.get(f"{PODS}/wrong")["metadata"]["uid"]
    record = {
        "event": "annotation.invalid",
        "reason": "bad_value",
        "namespace": "default",
        "pod": "wrong",
        "pod_uid": uid,
        "container": "main",
        "because": "",
        "key": "coloc.nri.io/qos-class",
        "value": "dedicatd\x1b[2J\n\u202e",
        "allowed": "dedicated, shared, reclaimed, system",
        "used": "shared",
    }
    for _ in range(3):
        rig.events.record(record)
    wait_until(lambda: "(x3 over" in str(described(control, "wrong")), 2 * SOON_S, "an Event of three")
    [line] = described(control, "wrong")
    assert line.split()[:2] == ["Warning", "AnnotationInvalid"]
    assert '"dedicatd\\u001b[2J\\n\\u202e" does not count' in line
    assert line.isprintable()


def shown(control: ApiServer, kind: str, name: str) -> dict[str, str]:
    """Return the messages of our Events in `kubectl describe`, by reason."""
    lines = control.kubectl("describe", kind, name).partition("\nEvents:")[2].splitlines()
    ours = (line.partition(f" {COMPONENT} ") for line in lines)
    return {head.split()[1]: message.strip() for head, found, message in ours if found}


def test_describe_shows_an_eviction_and_its_budget(rig, admin, control):
    pod(admin, "hog", lent())
    named = {"namespace": "default", "pod": "hog", "pod_uid": admin.get(f"{PODS}/hog")["metadata"]["uid"]}
    record = {"event": AuditEvent.POD_EVICT, "container": "", "because": "memory is short", **named}
    rig.events.record({**record, "reason": Reason.MEMORY_SHORT})
    rig.events.record({**record, "reason": Reason.BUDGET, "inputs": {"detail": "the budget needs 1 pod"}})
    expected = {
        "EvictionOrdered": f"memory is short; the pod's annotation {EVICT_AT} has the time",
        "EvictionBlocked": "not evicted: the budget needs 1 pod",
    }
    becomes(lambda: shown(control, "pod", "hog"), expected)


def test_describe_shows_a_failed_check(rig, control):
    text = "check neighbours of /readyz fails: another plugin"
    rig.events.occurred(Occurrence(NODE_SUBJECT, EventReason.CHECK_FAILED, text, "neighbours"))
    wait_until(lambda: shown(control, "node", NODE).get("CheckFailed") == text, SOON_S, "the failed check")


def test_figures_for_people_are_shown(rig, admin, control):
    shown = ("get", "colocationnodes", NODE, "--no-headers", "--ignore-not-found")
    becomes(lambda: control.kubectl(*shown).split()[:3], [NODE, "on", "2000"])
    outlook = admin.get(f"{kit.OBJECTS}/{NODE}")["spec"]["summary"]["outlook"]
    assert [tuple(each.values()) for each in outlook] == list(OFFER.summary.outlook)


def test_a_companion_ends_without_a_trace(rig, admin):
    before = allocatable(admin)
    assert rig.stop_companion() == 0
    assert allocatable(admin) == before


def test_a_companion_takes_little_memory(rig):
    assert 0 < vitals.look(rig.pid).anon_kib / 1024 <= MOST_MIB


def evictions(admin: Api) -> list[str]:
    """Return the ids of the orders in the node's object."""
    for each in admin.get(kit.OBJECTS)["items"]:  # the companion makes the object with the first order
        if each["metadata"]["name"] == NODE:
            return [order["id"] for order in each.get("spec", {}).get("evictions", [])]
    return []


def test_orders_and_results_pass_the_api_server(rig, admin):
    rig.orders.orders = (an_order("e1"), an_order("e2"))
    wait_until(lambda: evictions(admin) == ["e1", "e2"], SOON_S, "orders")
    result = {"id": "e1", "outcome": "budget", "detail": "not now", "retryAfterSeconds": 10}
    admin.merge(f"{kit.OBJECTS}/{NODE}/status", {"status": {"results": [result]}})
    wait_until(lambda: evictions(admin) == ["e2"], SOON_S, "the end of the first order")
    assert rig.orders.results == [Result("e1", Outcome.BUDGET, "not now", 10)]
    rig.orders.orders = ()
    wait_until(lambda: not evictions(admin), SOON_S, "the end of the other")
