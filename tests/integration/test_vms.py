"""Kata's pods beside a simulated node: a VM lives in the pod's cgroup, which has the resources of its containers."""

from pathlib import Path
from typing import Any

import pytest

from nri_coloc.cli import main
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import QOS, daemon_of, file, reload, served
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

P = "coloc.nri.io/"
KATA = "runtime: {handlers: {kata: pod}}\n"
MI = 1 << 20
HELD = {f"{P}memory-high": "100Mi", f"{P}memory-low": "64Mi", f"{P}cpu-burst": "50", f"{P}io-weight": "300"}
BATCH = '{"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "1Gi"}}}}'


@pytest.fixture
def node(tmp_path: Path):
    with Node(tmp_path, cgroup=2) as node:
        yield node


@pytest.fixture
def daemon(node: Node):
    with daemon_of(node, config=KATA) as daemon:
        yield served(daemon)


def guest(
    node: Node, name: str, kube: KubeQoS, resources: Resources, annotations: dict[str, str]
) -> tuple[str, str]:
    """Run a VM of one container; return the ids of the pod and of the container."""
    shares = resources.shares or 2
    pod_id = node.run_pod(PodRequest(name, "shop", kube, annotations, shares=shares, handler="kata"))
    return pod_id, node.run_container(pod_id, ContainerRequest("app", resources))


def guaranteed(node: Node) -> tuple[str, str]:
    asked = Resources(2048, 200_000, 100_000, memory_limit=256 * MI)
    return guest(node, "web", KubeQoS.GUARANTEED, asked, HELD)


def dedicated(node: Node, **annotations: str) -> tuple[str, str]:
    return guest(node, "db", KubeQoS.GUARANTEED, native(2000, 2000), {QOS: "dedicated"} | annotations)


def held(node: Node, pod_id: str) -> dict[str, str]:
    names = ("memory.high", "memory.low", "cpu.max.burst", "io.weight")
    return {name: str(file(node, pod_id, name)).split("\n")[0].removeprefix("default ") for name in names}


AS_ASKED = {
    "memory.high": str(100 * MI),
    "memory.low": str(64 * MI),
    "cpu.max.burst": "100000",
    "io.weight": "300",
}
AS_BEFORE = {"memory.high": "max", "memory.low": "0", "cpu.max.burst": "0", "io.weight": "100"}


def shown(daemon: Daemon, container_id: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [each for each in daemon.state()["containers"] if each["id"] == container_id]
    return found


def with_container(daemon: Daemon) -> dict[str, Any]:
    """Wait for the record of the pod's limits that names its container's, and return it."""

    def found() -> list[dict[str, Any]]:
        limits = daemon.audit("pod.limit", pod="web", reason="pool_member")
        return [record for record in limits if "app.cpus" in record["inputs"]]

    wait_until(found, 10, "the container's limits in the audit")
    return found()[-1]


def test_a_vms_container_values_are_on_its_pods_cgroup(node: Node, daemon: Daemon):
    pod_id, container_id = guaranteed(node)
    wait_until(lambda: held(node, pod_id) == AS_ASKED, 10, "the pod's values")
    admitted = daemon.audited("container.admit", 10, container_id=container_id)
    assert "not_set" not in admitted["inputs"]
    told = with_container(daemon)
    asked = {"cpus": "0-7", "burst": 100_000, "memory.limit": 256 * MI, "memory.high": 100 * MI}
    assert {f"app.{name}": value for name, value in asked.items()}.items() <= told["inputs"].items()
    assert told["after"] | {"io.weight": 300} == {
        "cpus": "0-7",
        "burst": 100_000,
        "memory.high": 100 * MI,
        "io.weight": 300,
    }
    assert daemon.audited("pod.limit", 10, pod="web", reason="protected")["after"]["memory.low"] == 64 * MI


def test_somebody_elses_value_on_it_is_put_right(node: Node, daemon: Daemon):
    pod_id, _ = guaranteed(node)
    wait_until(lambda: held(node, pod_id) == AS_ASKED, 10, "the pod's values")
    node.tree.write(node.runtime.pods[pod_id].cgroup, "memory.high", "max")
    node.tree.write(node.runtime.pods[pod_id].cgroup, "cpu.max.burst", "0")
    wait_until(lambda: held(node, pod_id) == AS_ASKED, 20, "the pod's values again")


def test_bound_vm_has_its_memory_on_its_node(node: Node, daemon: Daemon):
    pod_id, container_id = dedicated(node, **{f"{P}numa": "single"})
    wait_until(lambda: shown(daemon, container_id)["actual_cpus"] == "0-1", 10, "its CPUs to be read back")
    assert shown(daemon, container_id)["mems"] == "0"
    assert (file(node, pod_id, "cpuset.mems"), file(node, pod_id, "cpuset.cpus")) == ("0", "0-1")
    told = daemon.audited("pod.limit", 10, pod="db")["after"]
    assert (told["cpus"], told["mems"]) == ("0-1", "0")


def test_a_second_container_of_a_vm_is_read_back_too(node: Node, daemon: Daemon):
    pod_id, _ = dedicated(node)
    second = node.run_container(pod_id, ContainerRequest("side", native(100, 100)))
    wait_until(lambda: shown(daemon, second)["actual_cpus"] == "0-1", 10, "its CPUs to be read back")


def test_a_vm_with_lent_cpus_has_a_quota(node: Node, daemon: Daemon):
    lent = {"node.koordinator.sh/extended-resource-spec": BATCH}
    pod_id, container_id = guest(node, "night", KubeQoS.BEST_EFFORT, Resources(), lent)
    wait_until(lambda: file(node, pod_id, "cpu.max") == "200000 100000", 10, "the pod's quota")
    wait_until(lambda: shown(daemon, container_id)["actual_cpus"] != "", 10, "its CPUs to be read back")
    admitted = daemon.audited("container.admit", 10, container_id=container_id)
    assert admitted["inputs"]["not_set"] == "memory.limit oom_score_adj"


def test_restart_and_removed_handler_keep_the_values(node: Node, daemon: Daemon):
    pod_id, _ = guaranteed(node)
    bound, container_id = dedicated(node, **{f"{P}numa": "single"})
    wait_until(lambda: held(node, pod_id) == AS_ASKED, 10, "the pod's values")
    before = daemon.state()
    daemon.kill()
    daemon.start()
    served(daemon)
    wait_until(lambda: shown(daemon, container_id)["actual_cpus"] == "0-1", 10, "its CPUs to be read back")
    assert daemon.state()["containers"] == before["containers"]
    assert held(node, pod_id) == AS_ASKED
    reload(daemon, "runtime: {handlers: {kata: ignore}}\n")
    wait_until(lambda: held(node, pod_id) == AS_BEFORE, 20, "the pod's own values")
    wait_until(lambda: file(node, bound, "cpuset.mems") == "", 20, "the other's own nodes")


def test_restore_puts_everything_back(node: Node, daemon: Daemon):
    pod_id, _ = guaranteed(node)
    bound, _ = dedicated(node, **{f"{P}numa": "single"})
    wait_until(lambda: held(node, pod_id) == AS_ASKED, 10, "the pod's values")
    wait_until(lambda: file(node, bound, "cpuset.mems") == "0", 10, "the other's nodes")
    daemon.terminate()
    paths = ("--state-dir", str(daemon.state_dir), "--host-root", str(node.host_root), "--files-only")
    assert main.main(["restore", *paths], {}) == 0
    assert held(node, pod_id) == AS_BEFORE
    assert (file(node, bound, "cpuset.mems") or "").strip() == ""
