"""Names of the lent amounts, as API server, quota controller and kubelet treat them: the table of docs/kubernetes.md.

The node shows an amount of each name; no companion reports here.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pytest

from nri_coloc.kubernetes.presets import OPEN, PRESETS, Preset
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import container, pod
from tests.cluster.running import Pods
from tests.rig import RigError

ONLY_NEWEST = True
NAMES: Final[Mapping[str, Preset]] = {
    **PRESETS,
    "own": Preset("example.com/lent-cpu", "example.com/lent-memory"),
}
AMOUNTS: Final = {name: "1500" for preset in NAMES.values() for name in preset} | {OPEN: "110"}
NATIVE: Final = "koordinator"
"""The preset whose names are in the domain kubernetes.io, so that they are no extended resources."""

QUOTA: Final = "lent"


@pytest.fixture(scope="module")
def shown(shared_cluster: Cluster) -> Iterator[None]:
    """The node shows 1500 of each name."""
    show(shared_cluster, AMOUNTS)
    yield
    show(shared_cluster, dict.fromkeys(AMOUNTS))


@pytest.fixture(scope="module")
def quota(shared_cluster: Cluster) -> Iterator[str]:
    """A namespace that may request 100 of each name; the quota controller has counted."""
    hard = {f"requests.{preset.cpu}": "100" for preset in NAMES.values()}
    shared_cluster.kubectl("create", "namespace", QUOTA)
    found = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA, "namespace": QUOTA}}
    shared_cluster.apply({**found, "spec": {"hard": hard}})
    counted = {f"requests.{preset.cpu}" for name, preset in NAMES.items() if name != NATIVE}
    shared_cluster.wait(lambda: set(used(shared_cluster)) == counted, "a counted quota")
    shared_cluster.wait(lambda: shared_cluster.get("serviceaccount", "default", QUOTA), "an account for pods")
    yield QUOTA
    shared_cluster.kubectl("delete", "namespace", QUOTA, "--wait=false")


def used(cluster: Cluster) -> dict[str, str]:
    """Return the amounts that the quota controller has counted."""
    found: dict[str, str] = cluster.get("resourcequota", QUOTA, QUOTA).get("status", {}).get("used", {})
    return found


def show(cluster: Cluster, amounts: Mapping[str, str | None]) -> None:
    """Patch the node's capacity and allocatable."""
    patch = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    cluster.kubectl("patch", "node", NODE_NAME, "--subresource=status", "--type=merge", f"--patch={patch}")


def refusal(cluster: Cluster, manifest: Mapping[str, Any]) -> str:
    """Return why the API server refuses a pod; empty if it accepts it."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    except RigError as error:
        return str(error)
    return ""


def asking(preset: str, request: str, limit: str, namespace: str = "default") -> dict[str, Any]:
    """Return a pod that requests lent CPU, and one place on an open node."""
    name = NAMES[preset].cpu
    app = container(requests={name: request, OPEN: "1"}, limits={name: limit, OPEN: "1"})
    return pod(f"of-{preset}", app, namespace=namespace)


@pytest.mark.parametrize("preset", NAMES)
def test_limit_above_request(cluster: Cluster, shown: None, preset: str):
    found = refusal(cluster, asking(preset, "100", "200"))
    assert ("must be equal" in found) is (preset != NATIVE)


@pytest.mark.parametrize("preset", NAMES)
def test_quota(cluster: Cluster, shown: None, quota: str, preset: str):
    def is_exceeded() -> bool:
        return "exceeded quota" in refusal(cluster, asking(preset, "200", "200", quota))

    cluster.becomes(is_exceeded, preset != NATIVE, "the quota's answer")


def test_kubelet_restart(cluster: Cluster, shown: None, pods: Pods):
    pods.run(*(asking(preset, "100", "100") for preset in NAMES))
    cluster.restart("kubelet")
    pods.run(pod("after", container()))
    runs_on(cluster, pods, NAMES)
    assert allocatable(cluster) == AMOUNTS
    show(cluster, dict.fromkeys(AMOUNTS))
    cluster.restart("kubelet")
    pods.run(pod("at-last", container()))
    runs_on(cluster, pods, [each for each in NAMES if each != NATIVE])


def runs_on(cluster: Cluster, pods: Pods, presets: Collection[str]) -> None:
    """Wait until the pods of these presets run and no other one; a restarted kubelet reports them one by one."""
    cluster.becomes(
        lambda: {preset: pods.is_running(f"of-{preset}") for preset in NAMES},
        {preset: preset in presets for preset in NAMES},
        "the pods that the kubelet keeps",
    )


def test_machine_that_was_made_again(cluster: Cluster, shown: None):
    show(cluster, AMOUNTS)
    cluster.node.terminate("kubelet")
    cluster.node.forget_devices()
    cluster.start_kubelet()
    cluster.wait(cluster.is_ready, "a ready node")
    assert allocatable(cluster) == AMOUNTS


def allocatable(cluster: Cluster) -> dict[str, str]:
    """Return our resources of the node."""
    found: dict[str, str] = cluster.get("node", NODE_NAME)["status"]["allocatable"]
    return {name: amount for name, amount in found.items() if name in AMOUNTS}
