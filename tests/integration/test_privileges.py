"""The daemon gives a pod no memory protection, OOM score or weight that its request does not give it."""

from typing import Any

import pytest

from nri_coloc.core.workload import KubeQoS
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import assert_unhurt, daemon_of, file, pod, reclaimed, reload, served
from tests.rig import tenants
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

P = "coloc.nri.io/"


def best_effort(node: Node, annotations: dict[str, str], qos: str = "shared") -> str:
    """Run a BestEffort pod with one container, as the kubelet asks for it; return the container's id."""
    pod_id = pod(node, "greedy", qos, annotations, kube=KubeQoS.BEST_EFFORT)
    return node.run_container(pod_id, ContainerRequest("app", oom_score_adj=1000))


def denied(daemon: Daemon, container_id: str) -> dict[str, Any]:
    record = daemon.audited("annotation.denied", container_id=container_id)
    return {name: record[name] for name in ("key", "value", "used")}


def test_a_best_effort_pod_outlives_no_guaranteed_one(node: Node, daemon: Daemon):
    app = best_effort(node, {f"{P}oom-score-adj": "-998"})
    assert denied(daemon, app) == {"key": f"{P}oom-score-adj", "value": "-998", "used": "the kubelet's"}
    assert node.processes.oom_score_adj(node.runtime.containers[app].pid) == 1000
    assert_unhurt(daemon)


def test_a_reclaimed_pod_weighs_no_more_than_an_online_one(node: Node, daemon: Daemon):
    batch = reclaimed(node, annotations={f"{P}io-weight": "10000"})
    assert denied(daemon, batch) == {"key": f"{P}io-weight", "value": "10000", "used": "10"}
    name = "blkio.bfq.weight" if node.tree.version == 1 else "io.bfq.weight"
    weights = [file(node, owner, name) for owner in (batch, node.pod("shop/batch"))]
    assert [(text or "").removeprefix("default ") for text in weights] == ["10", "10"]
    assert_unhurt(daemon)


def test_strict_refuses_a_score_below_the_kubelets(node_v2: Node):
    with daemon_of(node_v2, config="strict: true\n") as daemon:
        served(daemon)
        with pytest.raises(RuntimeRefused, match=r"oom-score-adj='-998' is not allowed"):
            best_effort(node_v2, {f"{P}oom-score-adj": "-998"})
        assert_unhurt(daemon)


@pytest.mark.parametrize("lasting", [2], ids=["v2"], indirect=True)
def test_twenty_sidecars_protect_no_more_than_their_pods_request(node: Node, daemon: Daemon):
    request = sum(each["memory_bytes"] for each in daemon.state()["node"]["numa"]) // 10 // 4096 * 4096
    pod_id = pod(node, "greedy", "shared", {f"{P}memory-min": "100%"})
    for number in range(20):  # they request nothing, and inherit the main container's score
        node.run_container(pod_id, ContainerRequest(f"sidecar-{number}", oom_score_adj=900))
    node.run_container(pod_id, ContainerRequest("main", native(100), oom_score_adj=900))
    above = ("kubepods/burstable", "kubepods")

    def path() -> list[str | None]:
        return [file(node, pod_id, "memory.min"), *(node.tree.read(one, "memory.min") for one in above)]

    wait_until(lambda: len(daemon.state()["containers"]) == 21, 20, "all containers")
    wait_until(lambda: path() == [str(request)] * 3, 20, "the pod's request along the path")
    assert_unhurt(daemon)


DEFAULTS = 'classes: {shared: {oomScoreAdj: 500, memoryMin: "100%"}}\n'


@pytest.mark.parametrize("much", [{}, tenants.foreign()], ids=["alone", "beside an excess"])
def test_a_forged_record_proves_no_request(node_v2: Node, much: dict[str, str]):
    with daemon_of(node_v2, config=DEFAULTS) as daemon:
        served(daemon)
        pod_id = pod(node_v2, "greedy", annotations={**much, f"{P}record": "{}"})
        app = node_v2.run_container(pod_id, ContainerRequest("app", native(100), oom_score_adj=999))
        daemon.kill()
        daemon.start()
        served(daemon)
        assert {file(node_v2, each, "memory.min") for each in (app, pod_id)} == {"0"}
        assert_unhurt(daemon)


def test_a_score_of_former_settings_proves_no_request(node_v2: Node):
    with daemon_of(node_v2, config="classes: {shared: {oomScoreAdj: 500}}\n") as daemon:
        served(daemon)
        pod_id = pod(node_v2, "greedy", annotations={f"{P}memory-min": "100%"})
        app = node_v2.run_container(pod_id, ContainerRequest("app", native(100), oom_score_adj=999))
        reload(daemon, "")
        node_v2.runtime.update(app, native(200))
        assert {file(node_v2, each, "memory.min") for each in (app, pod_id)} == {"0"}
        assert_unhurt(daemon)
