"""Tokens that the kubelet renews beside a running companion and controller (`make soak-cluster`).

A token lives for ten minutes, the least that Kubernetes gives, and the kubelet renews its file at 80 % of that time.
"""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from nri_coloc.kubernetes.api import WATCH_LATE_S, WATCH_S
from nri_coloc.kubernetes.presets import REPORTED_AT
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import COMPANION, CONTROLLER, Colocation, reclaimed
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.product import NAMESPACE
from tests.cluster.running import Pods

pytestmark = pytest.mark.tier("soak")

ONLY_NEWEST = True
LIFE_S: Final = 600
LEEWAY_S: Final = 60
"""Seconds for which the API server accepts a token after its end."""

LOOK_EVERY_S: Final = 10
FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
WORKLOADS: Final = {f"daemonset/{COMPANION}": "companion", f"deployment/{CONTROLLER}": "controller"}


@pytest.fixture
def short_lived(cluster: Cluster, colocation: Colocation) -> Iterator[Colocation]:
    """Companion and controllers with tokens of ten minutes."""
    for workload, container in WORKLOADS.items():
        patch = {"spec": {"template": {"spec": mounted(container)}}}
        order(cluster, "patch", workload, "--type=strategic", f"--patch={json.dumps(patch)}")
        order(cluster, "rollout", "status", workload, "--timeout=180s")
    colocation.wait_ready()
    yield colocation
    for workload in WORKLOADS:
        order(cluster, "rollout", "undo", workload)


def order(cluster: Cluster, *words: str) -> str:
    """Return the output of kubectl about an object of ours."""
    return cluster.kubectl(f"--namespace={NAMESPACE}", *words)


def mounted(container: str) -> dict[str, Any]:
    """Return the part of a pod's spec that mounts a token of ten minutes as Kubernetes mounts one of an hour."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": LIFE_S}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    mount = {"name": "token", "mountPath": FOLDER, "readOnly": True}
    return {
        "automountServiceAccountToken": False,
        "volumes": [{"name": "token", "projected": {"sources": sources}}],
        "containers": [{"name": container, "volumeMounts": [mount]}],
    }


class Programs:
    """Companion and controllers: their containers, which must stay, and their tokens, which must change."""

    def __init__(self, cluster: Cluster, colocation: Colocation) -> None:
        self._cluster = cluster
        self._colocation = colocation

    def tokens(self) -> dict[str, str]:
        """Return the token that each program would read now, by the pod's name."""
        return {
            name: order(self._cluster, "exec", name, "--", "cat", f"{FOLDER}/token") for name in self._names()
        }

    def containers(self) -> dict[str, str]:
        """Return the containers of all pods; a restart makes another one."""
        states = [state for each in self._pods() for state in each["status"]["containerStatuses"]]
        return {f"{state['name']} {state['containerID']}": str(state["restartCount"]) for state in states}

    def complaints(self) -> dict[str, list[str]]:
        """Return the lines of each log that are no information."""
        lines = {name: self._colocation.log(name).splitlines() for name in self._names()}
        return {
            name: [each for each in found if not re.match(r"\S+ info ", each)]
            for name, found in lines.items()
        }

    def _names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self._pods()]

    def _pods(self) -> list[dict[str, Any]]:
        return self._colocation.pods(COMPANION) + self._colocation.pods(CONTROLLER)


def is_accepted(cluster: Cluster, token: str) -> bool:
    """Return whether the API server accepts a token."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = cluster.kubectl("create", "-f", "-", "--output=json", stdin=json.dumps(review))
    return bool(json.loads(answer)["status"].get("authenticated"))


def reported_at(cluster: Cluster) -> str:
    """Return the time of the node's last report."""
    return str(cluster.get("node", NODE_NAME)["metadata"]["annotations"][REPORTED_AT])


def test_renewed_tokens_need_no_restart(cluster: Cluster, short_lived: Colocation, pods: Pods):
    programs = Programs(cluster, short_lived)
    tokens, containers, complaints = programs.tokens(), programs.containers(), programs.complaints()
    assert all(is_accepted(cluster, each) for each in tokens.values())
    end_s = time.monotonic() + LIFE_S + LEEWAY_S + LOOK_EVERY_S
    while any(is_accepted(cluster, each) for each in tokens.values()):
        assert time.monotonic() < end_s, "the first tokens are accepted for too long"
        time.sleep(LOOK_EVERY_S)
    before = reported_at(cluster)
    time.sleep(WATCH_S + WATCH_LATE_S)  # each watch has begun again
    assert reported_at(cluster) > before
    pods.run(reclaimed("late"))
    cluster.wait(lambda: short_lived.product.container("late")["facts"], "facts about a new pod")
    assert tokens.items().isdisjoint(programs.tokens().items())
    assert (programs.containers(), programs.complaints()) == (containers, complaints)
