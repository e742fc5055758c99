"""The values that the daemon writes on containers and along their path, repairs and restores."""

from typing import Any

from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import (
    QOS,
    assert_unhurt,
    daemon_of,
    dedicated,
    file,
    pod,
    reclaimed,
    served,
    settled,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import poll, wait_until

MI = 1 << 20


def test_v2_values_stand_on_the_container_and_its_pod(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        wanted = {"memory-high": "64Mi", "io-weight": "300"}
        pod_id = pod(node_v2, "web", "shared", {f"coloc.nri.io/{key}": text for key, text in wanted.items()})
        app = node_v2.run_container(pod_id, ContainerRequest("app", native(100, None, 128 * MI)))
        assert file(node_v2, app, "memory.high") == str(64 * MI)
        for owner in (app, pod_id):
            assert (file(node_v2, owner, "io.weight") or "").removeprefix("default ") == "300"
            assert (file(node_v2, owner, "io.bfq.weight") or "").removeprefix("default ") == "118"
        assert_unhurt(daemon)


ANCESTORS = ("kubepods/burstable", "kubepods")


def protected(node: Node, name: str, amount: int) -> str:
    """Run a Burstable pod that gets some protection in any case: its kubelet's score says a request of a half."""
    wanted = {"coloc.nri.io/memory-min": str(amount), "coloc.nri.io/memory-low": str(2 * amount)}
    pod_id = pod(node, name, "shared", wanted)
    return node.run_container(pod_id, ContainerRequest("app", native(100), oom_score_adj=500))


def sums(node: Node, name: str) -> list[str | None]:
    return [node.tree.read(path, name) for path in ANCESTORS]


def stay(node: Node, name: str, amount: int) -> bool:
    """Return whether the files above the pods keep a value while the daemon reads them."""
    return not poll(lambda: sums(node, name) != [str(amount)] * 2, 3)


def test_protections_are_sums_and_are_restored_at_release(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        first, second = protected(node_v2, "a", MI), protected(node_v2, "b", 3 * MI)
        assert file(node_v2, first, "memory.min") == str(MI)
        wait_until(lambda: sums(node_v2, "memory.min") == [str(4 * MI)] * 2, 20, "the sums")
        wait_until(lambda: sums(node_v2, "memory.low") == [str(8 * MI)] * 2, 20, "the lower sums")
        pod_b = node_v2.pod("shop/b")
        wait_until(lambda: file(node_v2, pod_b, "memory.min") == str(3 * MI), 20, "the pod's own")
        node_v2.remove_pod(node_v2.pod("shop/b"))
        wait_until(lambda: sums(node_v2, "memory.min") == [str(MI)] * 2, 20, "the second pod's part to go")
        node_v2.runtime.stop(first)
        wait_until(lambda: sums(node_v2, "memory.low") == ["0"] * 2, 20, "all values to be restored")
        assert second not in node_v2.runtime.containers
        assert_unhurt(daemon)


def test_kubelets_memory_qos_is_kept(node_v2):
    """The kubelet writes the sum of all requests above the pods, whenever a pod comes or goes."""
    with daemon_of(node_v2) as daemon:
        served(daemon)
        protected(node_v2, "a", MI)
        wait_until(lambda: sums(node_v2, "memory.min") == [str(MI)] * 2, 20, "our sums")
        for requests in (8 * MI, 4 * MI):
            for path in ANCESTORS:
                node_v2.tree.write(path, "memory.min", str(requests))
            assert stay(node_v2, "memory.min", requests)
        node_v2.remove_pod(node_v2.pod("shop/a"))
        wait_until(lambda: sums(node_v2, "memory.low") == ["0"] * 2, 20, "our protection to go")
        assert sums(node_v2, "memory.min") == [str(4 * MI)] * 2
        assert daemon.audit("drift.repair") == []


def test_protections_of_pods_ended_meanwhile_are_restored(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        protected(node_v2, "a", MI)
        wait_until(lambda: sums(node_v2, "memory.min") == [str(MI)] * 2, 20, "the sums")
        daemon.kill()
        node_v2.remove_pod(node_v2.pod("shop/a"))
        daemon.start()
        served(daemon)
        wait_until(
            lambda: sums(node_v2, "memory.min") == ["0"] * 2, 20, "the protection of a previous process"
        )


def test_a_reclaimed_pod_is_limited_before_its_first_container(node, daemon):
    dedicated(node)
    pod_id = pod(node, "batch", kube=KubeQoS.BEST_EFFORT)
    assert file(node, pod_id, "cpuset.cpus") == "2-7"
    weight = ("cpu.shares", "2") if node.tree.version == 1 else ("cpu.weight", "1")
    assert file(node, pod_id, weight[0]) == weight[1]
    container_id = node.run_container(pod_id, ContainerRequest("app"))
    assert cpuset.render(node.cpus(container_id)) == "2-7"
    assert node.runtime.containers[container_id].resources.cpu.cpus == ""


def test_a_pod_leaving_the_box_gets_cpus_and_weight(node, daemon):
    name = "cpu.shares" if node.tree.version == 1 else "cpu.weight"
    annotations = {QOS: "reclaimed", f"{QOS}.main": "shared"}
    pod_id = node.run_pod(PodRequest("mixed", "shop", KubeQoS.BURSTABLE, annotations, shares=1024))
    wanted = node.tree.weight(1024)[1]
    batch = node.run_container(pod_id, ContainerRequest("batch"))
    assert file(node, pod_id, name) != wanted
    owner = dedicated(node)
    node.run_container(pod_id, ContainerRequest("main"))
    wait_until(lambda: file(node, pod_id, name) == wanted, 20, "the weight to come back")
    everything = "0-7" if node.tree.version == 1 else ""
    wait_until(lambda: (file(node, pod_id, "cpuset.cpus") or "").strip() == everything, 20, "the CPUs too")
    wait_until(lambda: not node.cpus(batch) & node.cpus(owner), 20, "its offline container to stay off")
    assert_unhurt(daemon)


def test_the_best_effort_class_itself_is_never_written(node, daemon):
    names = ("cpu.shares", "cpu.weight", "cpuset.cpus", "io.weight", "blkio.bfq.weight", "memory.min")
    before = [node.tree.read("kubepods/besteffort", name) for name in names]
    dedicated(node)
    reclaimed(node)
    assert [node.tree.read("kubepods/besteffort", name) for name in names] == before


def test_a_pods_reset_weights_are_repaired_and_recorded(node, daemon):
    request = PodRequest("reset", "shop", KubeQoS.BEST_EFFORT)
    cgroup = node.runtime.containers[
        node.run_container(node.run_pod(request), ContainerRequest("app"))
    ].pod.cgroup
    settled(daemon)
    name, light = node.tree.weight(2)
    io = "blkio.bfq.weight" if node.tree.version == 1 else "io.weight"
    wait_until(
        lambda: (node.tree.read(cgroup, name), said_weight(node, cgroup, io)) == (light, "10"), 20, "a box"
    )
    node.tree.write(cgroup, name, node.tree.weight(1024)[1])
    node.tree.write(cgroup, io, "500")
    wait_until(
        lambda: (node.tree.read(cgroup, name), said_weight(node, cgroup, io)) == (light, "10"), 20, "repairs"
    )
    wait_until(lambda: {"shares", "io.weight"} <= found(daemon, "reset").keys(), 20, "both in the audit")
    assert 990 < found(daemon, "reset")["shares"] <= 1024  # the least shares that make this weight
    assert {k: v for r in daemon.audit("drift.repair", pod="reset") for k, v in r["after"].items()} == {
        "shares": 2,
        "io.weight": 10,
    }


def said_weight(node: Node, cgroup: str, name: str) -> str:
    return (node.tree.read(cgroup, name) or "").removeprefix("default ")


def found(daemon: Daemon, pod: str) -> dict[str, Any]:
    """Return the values that the daemon found on a pod and repaired, by knob, from the audit."""
    return {k: v for record in daemon.audit("drift.repair", pod=pod) for k, v in record["before"].items()}


def test_what_somebody_resets_is_repaired_and_said(node, daemon):
    container_id = dedicated(node)
    settled(daemon)
    node.tree.write(node.runtime.containers[container_id].cgroup, "cpuset.cpus", "0-7")
    wait_until(lambda: cpuset.render(node.cpus(container_id)) == "0-1", 20, "the repair")
    assert daemon.audited("drift.repair", container_id=container_id)["after"] == {"cpus": "0-1"}


def test_a_rival_writer_shows_in_readiness(node, daemon):
    batch = reclaimed(node)
    settled(daemon)
    daemon.wait_ready()
    assert {name for name, check in daemon.readyz()["checks"].items() if check["ok"]} == {
        *("connected", "synchronised", "readings", "config", "cgroups", "state", "writes", "neighbours")
    }
    cgroup = node.runtime.containers[batch].pod.cgroup

    def contested() -> bool:
        node.tree.write(cgroup, *node.tree.weight(1024))
        return not daemon.check("neighbours")["ok"]

    wait_until(contested, 120, "the other writer to be named")
    assert "our values of shop/batch (6 repairs" in daemon.check("neighbours")["detail"]
    assert daemon.readyz()["ready"]


def test_the_audit_claims_no_value_that_the_machine_has_nothing_for(lasting):
    node, daemon = lasting.emptied(), lasting.daemon
    shared(node)  # a pod shows which files exist
    wanted = {"coloc.nri.io/memory-high": "64Mi", "coloc.nri.io/rdt-class": "gold"}
    app = shared(node, "web", qos="shared", namespace="kube-system", annotations=wanted)
    admitted = daemon.audited("container.admit", container_id=app)
    high = {"memory.high": 64 * MI} if node.tree.version == 2 else {}
    assert admitted["after"] == {"cpus": "0-7", **high}
    failed = daemon.audited("write.failed", container_id=app)
    assert (failed["reason"], failed["decision_id"]) == ("no_file", admitted["decision_id"])
    assert failed["inputs"] == {**({} if high else {"memory.high": 64 * MI}), "rdt_class": "gold"}
    assert "rdt_class (" in daemon.check("writes")["detail"]
