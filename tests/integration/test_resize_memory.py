"""An annotation asks for a part of a memory limit, which is resized in place beside a simulated runtime."""

from dataclasses import replace

from nri_coloc.core.workload import KubeQoS
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    file,
    pod,
    served,
)
from tests.rig.waiting import wait_until

MI = 1 << 20


def limit_in_spec(node: Node, container_id: str) -> int:
    limit: int = node.runtime.containers[container_id].resources.memory.limit.value
    return limit


def test_a_part_of_the_limit_follows_the_limit(tmp_path):
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        of_limit = {"coloc.nri.io/memory-high": "80%", "coloc.nri.io/memory-low": "50%"}
        sandbox = pod(node, "cache", annotations=of_limit, kube=KubeQoS.GUARANTEED)
        request = replace(native(1000, 1000), memory_limit=1000 * MI)
        web = node.run_container(sandbox, ContainerRequest("app", request))
        assert (file(node, web, "memory.high"), file(node, web, "memory.low")) == (
            str(800 * MI),
            str(500 * MI),
        )
        node.runtime.update(web, replace(request, memory_limit=2000 * MI))
        assert (file(node, web, "memory.high"), file(node, web, "memory.low")) == (
            str(1600 * MI),
            str(1000 * MI),
        )
        wait_until(lambda: file(node, sandbox, "memory.low") == str(1000 * MI), 20, "the pod's protection")
        assert daemon.audited("container.update", container_id=web)["after"]["memory.high"] == 1600 * MI
        assert_unhurt(daemon)


def test_a_limit_that_was_lower_proves_no_request(tmp_path):
    """The OOM score stays that of the creation, and the request may be raised with the limit or not."""
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "cache", annotations={"coloc.nri.io/memory-min": "100%"})
        request = replace(native(1000, 1000), memory_limit=64 << 30)
        web = node.run_container(sandbox, ContainerRequest("app", request, oom_score_adj=700))
        assert int(file(node, web, "memory.min") or "0") > 0
        node.runtime.update(web, replace(request, memory_limit=64 * MI))
        wait_until(lambda: file(node, web, "memory.min") == "0", 20, "the end of the protection")
        node.runtime.update(web, request)
        connects = len(daemon.audit("runtime.connect"))
        node.kill_runtime()
        node.start_runtime()
        wait_until(lambda: len(daemon.audit("runtime.connect")) > connects, 20, "the daemon to be back")
        daemon.wait_synchronised()
        assert (file(node, web, "memory.min"), file(node, sandbox, "memory.min")) == ("0", "0")
        assert_unhurt(daemon)


def test_a_part_of_a_resized_limit_survives_restarts(node, daemon):
    sandbox = pod(node, "cache", annotations={"coloc.nri.io/memory-limit": "50%"})
    request = replace(native(1000, 1000), memory_limit=1000 * MI)
    web = node.run_container(sandbox, ContainerRequest("app", request))
    node.runtime.update(web, replace(request, memory_limit=2000 * MI))
    name = "memory.limit_in_bytes" if node.tree.version == 1 else "memory.max"
    held = file(node, web, name)
    assert (held or "").strip() == str(1000 * MI)
    connects = len(daemon.audit("runtime.connect"))
    node.kill_runtime()
    node.start_runtime()
    wait_until(lambda: len(daemon.audit("runtime.connect")) > connects, 20, "the daemon to be back")
    daemon.wait_synchronised()
    daemon.kill()
    daemon.start()
    served(daemon)
    daemon.audited("runtime.compare")
    assert node.runtime.containers[web].resources.memory.limit.value == 1000 * MI
    assert file(node, web, name) == held
    assert not [r for r in daemon.audit("container.update", container_id=web) if "memory.limit" in r["after"]]
    assert_unhurt(daemon)


def test_share_of_a_limit_survives_every_restart(node, daemon):
    daemon.kill()
    sandbox = pod(node, "cache", annotations={"coloc.nri.io/memory-limit": "50%"})
    request = replace(native(1000, 1000), memory_limit=1000 * MI)
    web = node.run_container(sandbox, ContainerRequest("app", request))
    name = "memory.limit_in_bytes" if node.tree.version == 1 else "memory.max"
    for _ in range(3):
        daemon.start()
        served(daemon)
        wait_until(
            lambda: limit_in_spec(node, web) == 500 * MI, 180, "half of the kubelet's limit in the spec"
        )
        wait_until(lambda: file(node, web, name) == str(500 * MI), 180, "half of it in the file")
        admitted = daemon.audited("container.admit", container_id=web)
        assert admitted["after"]["memory.limit"] == 500 * MI
        assert_unhurt(daemon)
        daemon.kill()


def test_a_pods_own_limit_keeps_its_protection_over_a_restart(tmp_path):
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        wanted = {"coloc.nri.io/memory-min": "100%", "coloc.nri.io/memory-limit": "100Mi"}
        sandbox = pod(node, "cache", annotations=wanted, kube=KubeQoS.GUARANTEED)
        node.tree.write(node.runtime.pods[sandbox].cgroup, "memory.max", str(1000 * MI))
        web = node.run_container(
            sandbox, ContainerRequest("app", replace(native(1000, 1000), memory_limit=1000 * MI))
        )
        wait_until(lambda: file(node, sandbox, "memory.min") == str(1000 * MI), 60, "the pod's protection")
        daemon.kill()
        daemon.start()
        served(daemon)
        admitted = daemon.audited("container.admit", container_id=web)
        assert admitted["after"]["memory.min"] == 1000 * MI
        assert_unhurt(daemon)
