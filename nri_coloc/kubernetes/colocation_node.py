"""Write the companion's ColocationNode: figures of its node for people, and eviction orders.

The object belongs to the Node object, as the kubelet's Lease does, so that Kubernetes deletes it with the node. The
companion says so only when it creates the object: a later change of the owner needs the right to delete the object
where the admission plugin OwnerReferencesPermissionEnforcement is on.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, Object

OBJECTS: Final = "/apis/coloc.nri.io/v1alpha1/colocationnodes"


class ColocationNode:
    """The object of one node.

    uid: returns the UID of the Node object; empty while there is none.
    """

    def __init__(self, api: Api, node: str, uid: Callable[[], str]) -> None:
        self._api = api
        self._node = node
        self._uid = uid

    def write(self, spec: Mapping[str, Any], *, creates: bool = True) -> Object:
        """Change some fields of `spec`, and return the object. creates: create a missing object; else return {}."""
        try:
            return self._api.merge(f"{OBJECTS}/{self._node}", {"spec": spec})
        except ApiRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        return self._create(spec) if creates else {}

    def _create(self, spec: Mapping[str, Any]) -> Object:
        uid = self._uid()
        if not uid:
            raise ApiError(
                f"POST {OBJECTS}: not sent: there is no Node {self._node} to which the object belongs"
            )
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}
        body = {
            "apiVersion": "coloc.nri.io/v1alpha1",
            "kind": "ColocationNode",
            "metadata": {"name": self._node, "ownerReferences": [owner]},
            "spec": spec,
        }
        return self._api.create(OBJECTS, body)


def problem(error: Exception) -> str:
    """Return why a ColocationNode was not written, with the remedy where it is known."""
    status = error.status if isinstance(error, ApiRefused) else 0
    remedies: dict[int, str] = {
        HTTPStatus.FORBIDDEN: "; let the service account create and patch colocationnodes (deploy/cluster/rights.yaml)",
        HTTPStatus.NOT_FOUND: "; apply deploy/cluster/colocationnodes.yaml",
    }
    return f"{error}{remedies.get(status, '')}"
