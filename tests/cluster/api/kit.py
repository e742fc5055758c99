"""The manifests of deploy/cluster on the API server, tokens of their accounts, and objects of nodes."""

from pathlib import Path
from typing import Any, Final

from nri_coloc.kubernetes import api, event_writer
from nri_coloc.kubernetes.api import Api
from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import NODE, Subject
from tests.cluster.api_server import ApiServer, pod
from tests.rig import RigError
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

MANIFESTS: Final = Path(__file__).parents[3] / "deploy" / "cluster"
FILES: Final = ("colocationnodes.yaml", "rights.yaml", "policies.yaml")
COMPANION: Final = "nri-coloc-cluster"
CONTROLLER: Final = "nri-coloc-controller"
OBJECTS: Final = "/apis/coloc.nri.io/v1alpha1/colocationnodes"
PODS: Final = "/api/v1/namespaces/default/pods"
EVENTS: Final = "/api/v1/namespaces/default/events"
COMPANIONS: Final = "/api/v1/namespaces/kube-system/pods"
RESOURCES: Final = {
    "kubernetes.io/batch-cpu": "4000",
    "kubernetes.io/batch-memory": "64",
    "coloc.nri.io/open": "110",
}
"""The lent amounts of an open node, as `report` has them."""


def apply(server: ApiServer) -> None:
    """Apply all manifests, and make what a controller manager would make. No kubelet starts a pod of them."""
    server.kubectl("apply", f"--kustomize={MANIFESTS.parent}")
    established = ("--for=condition=Established", "crd/colocationnodes.coloc.nri.io")
    server.kubectl("wait", *established, f"--timeout={PATIENCE_SECONDS - 10:g}s")
    wait_until(lambda: serves(server), 10, "the path of ColocationNodes")
    server.kubectl("create", "serviceaccount", "default")


def serves(server: ApiServer) -> bool:
    """Return whether the API server serves ColocationNodes: it may begin a moment after it says so."""
    try:
        server.kubectl("get", f"--raw={OBJECTS}")
    except RigError:
        return False
    return True


def report(at: str = "2026-11-26T10:00:00Z") -> dict[str, Any]:
    """Return a companion's merge patch for an open node."""
    return {
        "metadata": {
            "annotations": {"coloc.nri.io/reported-at": at},
            "labels": {"coloc.nri.io/lending": "on"},
        },
        "status": {key: dict(RESOURCES) for key in ("capacity", "allocatable")},
    }


def delete(caller: Api, path: str, body: dict[str, Any] | None = None) -> None:
    """DELETE an object as this caller; the product deletes nothing. `body` has the options."""
    caller._call("DELETE", path, body)


def status(node: str) -> str:
    """Return the path of a node's status."""
    return f"/api/v1/nodes/{node}/status"


def token(admin: Api, account: str, spec: dict[str, Any] | None = None) -> str:
    """Return a token of an account; `spec` binds it."""
    path = f"/api/v1/namespaces/kube-system/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec or {}}
    return str(admin.create(path, body)["status"]["token"])


def companion_pod(node: str) -> dict[str, Any]:
    """Return the companion's pod on a node."""
    return pod(f"companion-{node}", on=node, namespace="kube-system", account=COMPANION)


def companion_on(server: ApiServer, admin: Api, node: str) -> Api:
    """Return the API with the token of the companion's pod on a node."""
    name = f"companion-{node}"
    return api.connect(str(server.kubeconfig(name, companion_token(admin, node))))


def companion_token(admin: Api, node: str) -> str:
    """Return a token as the kubelet of a node mounts it: bound to the companion's pod there."""
    name = f"companion-{node}"
    uid = admin.get(f"{COMPANIONS}/{name}")["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return token(admin, COMPANION, {"boundObjectRef": bound})


def controller(server: ApiServer, admin: Api) -> Api:
    """Return the API with a token of the controller."""
    return api.connect(str(server.kubeconfig("controller", token(admin, CONTROLLER))))


AT_S: Final = 1_800_000_000.0
_INVALID: Final = Told(
    sequence=1,
    subject=Subject("default", "render-1", "uid-of-the-pod"),
    reason="AnnotationInvalid",
    message="bad value",
    is_warning=True,
    times=1,
    first_s=AT_S,
    last_s=AT_S,
)


def event(on: str = "a", message: str = "bad value", pod: str = "render-1") -> dict[str, Any]:
    """Return an Event on a pod, as the companion of a node writes it."""
    subject = Subject("default", pod, "uid-of-the-pod")
    return event_writer.body_of(_INVALID._replace(subject=subject, message=message), on)


def node_event(node: str) -> dict[str, Any]:
    """Return an Event on a node, as its companion writes it."""
    return event_writer.body_of(_INVALID._replace(subject=NODE, reason="LendingOff"), node)


def colocation_node(name: str, *evictions: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the object of a node with orders."""
    return {
        "apiVersion": "coloc.nri.io/v1alpha1",
        "kind": "ColocationNode",
        "metadata": {"name": name, **metadata},
        "spec": {"evictions": list(evictions)},
    }
