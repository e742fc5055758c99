"""Lent capacity on a real node: the stock scheduler and kubelet count it, also after a restart."""

import json
from collections.abc import Iterator
from typing import IO, Any

import pytest

from nri_coloc.kubernetes.presets import DEFAULT, OPEN
from nri_coloc.kubernetes.reporting import Lending
from tests.cluster.cluster import Cluster
from tests.cluster.companion_rig import OFFER, PROJECT, CompanionRig, reporting_for
from tests.cluster.control_plane import ADMIN, NODE_NAME
from tests.cluster.pods import container, pod
from tests.cluster.running import Pods

LENT = {DEFAULT.cpu: "500", DEFAULT.memory: "67108864", OPEN: "1"}


@pytest.fixture
def rig(cluster: Cluster) -> Iterator[CompanionRig]:
    """A companion whose node is open; its report is removed in the end."""

    def spawn(command: Any, log: IO[bytes]) -> Any:
        return cluster.namespace.spawn(command, log, {"PYTHONPATH": str(PROJECT)})

    with reporting_for(NODE_NAME, cluster.control_plane.kubeconfig(ADMIN), spawn) as found:
        cluster.wait(lambda: OPEN in allocatable(cluster), "an open node")
        yield found
    gone = dict.fromkeys((*DEFAULT, OPEN))
    patch = json.dumps({"status": {"capacity": gone, "allocatable": gone}})
    cluster.kubectl("patch", "node", NODE_NAME, "--subresource=status", "--type=merge", f"--patch={patch}")


def allocatable(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = cluster.get("node", NODE_NAME)["status"]["allocatable"]
    return found


def lent(name: str) -> dict[str, Any]:
    """Return a reclaimed pod that requests lent amounts, and one place on an open node."""
    return pod(name, container(requests=LENT, limits=LENT), qos_class="reclaimed")


def test_a_kubelet_restart_on_a_closed_node_rejects_no_pod(cluster: Cluster, rig: CompanionRig, pods: Pods):
    pods.run(lent("early"))
    before = pods.container_id("early")
    rig.state = OFFER._replace(lending=Lending.OFF)
    cluster.wait(lambda: OPEN not in allocatable(cluster), "a closed node")
    pods.create(lent("late"))
    pods.run(pod("online", container(requests={"cpu": "100m"})))
    cluster.restart("kubelet")
    pods.run(pod("online-2", container(requests={"cpu": "100m"})))
    assert pods.status("early")["phase"] == "Running"
    assert pods.container_id("early") == before
    assert pods.status("late")["phase"] == "Pending"
    rig.state = OFFER
    cluster.wait(lambda: pods.is_running("late"), "the pod that waited for an open node")
