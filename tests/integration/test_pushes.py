"""Pushed values arrive in the runtime's spec, between the daemon as a process and a simulated node."""

import json
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import daemon_of, dedicated, file, served, shared
from tests.rig.waiting import becomes, poll, wait_until

SPEC = "node.koordinator.sh/extended-resource-spec"
BATCH = json.dumps(
    {
        "containers": {
            "app": {
                "requests": {"kubernetes.io/batch-cpu": 1000},
                "limits": {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": "256Mi"},
            }
        }
    }
)


def lent(node: Node, name: str = "batch") -> str:
    """Run a pod that was lent a part of the node; return the container's id."""
    pod = node.run_pod(PodRequest(name, "shop", KubeQoS.BEST_EFFORT, {SPEC: BATCH}))
    return node.run_container(pod, ContainerRequest("app", Resources(shares=2)))


def spec(node: Node, container_id: str) -> tuple[int, int, int]:
    """Return the runtime's spec: shares, quota, memory limit."""
    resources = node.runtime.containers[container_id].resources
    return resources.cpu.shares.value, resources.cpu.quota.value, resources.memory.limit.value


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_an_earlier_loan_is_pushed_into_the_runtimes_spec(tmp_path: Path, cgroup: int):
    with Node(tmp_path, cgroup=cgroup) as node:
        job = lent(node)
        assert spec(node, job) == (2, 0, 0)
        with daemon_of(node) as daemon:
            served(daemon)
            wait_until(lambda: spec(node, job) == (1024, 200_000, 256 << 20), 20, "the push")
            quota = node.tree.read(
                node.runtime.containers[job].cgroup, "cpu.max" if cgroup == 2 else "cpu.cfs_quota_us"
            )
            assert (quota or "").split()[0] == "200000"
            assert daemon.audit("push.failed") == []


def test_weight_of_a_newer_runc_is_no_drift(tmp_path: Path):
    with Node(tmp_path, bent_weights=True) as node:
        job = lent(node)
        with daemon_of(node) as daemon:
            served(daemon)
            wait_until(lambda: spec(node, job)[0] == 1024, 20, "the push")
            becomes(lambda: file(node, job, "cpu.weight"), "100")
            assert not poll(lambda: file(node, job, "cpu.weight") != "100", 3)
            assert daemon.audit("drift.repair") == []


def test_each_change_is_pushed_once_and_nothing_else(tmp_path: Path):
    with Node(tmp_path) as node, daemon_of(node, config="runtime: {updatesPerReply: 0}\n") as daemon:
        served(daemon)
        crowd = [shared(node, f"n{i}") for i in range(5)]
        job = lent(node)
        assert spec(node, job) == (1024, 200_000, 256 << 20)
        dedicated(node)
        sets = lambda: {node.runtime.containers[k].resources.cpu.cpus for k in crowd}  # noqa: E731 - asked twice
        wait_until(lambda: sets() == {"2-7"}, 20, "the pushes")
        assert not poll(lambda: updates(node) > 5, 1.5)
        assert daemon.audit("container.update") == []


def test_a_resizes_answer_about_others_is_not_pushed_too(tmp_path: Path):
    with Node(tmp_path) as node, daemon_of(node) as daemon:
        served(daemon)
        neighbour, web = shared(node), dedicated(node)
        node.runtime.update(web, native(4000, 4000))
        assert node.runtime.containers[neighbour].resources.cpu.cpus == "4-7"
        assert not poll(lambda: updates(node) > 1, 1.0), "the kubelet's own is the only one"
        assert daemon.audit("push.failed") == []


def test_over_a_connection_on_which_it_is_safe_updates_go_natively(tmp_path: Path):
    config = "runtime: {updatesPerReply: 0}\n"
    with Node(tmp_path, runtime_version="2.4.0") as node, daemon_of(node, config=config) as daemon:
        served(daemon)
        neighbour = shared(node)
        dedicated(node)
        wait_until(lambda: node.runtime.containers[neighbour].resources.cpu.cpus == "2-7", 20, "the update")
        assert updates(node) == 0
        assert daemon.audit("push.failed") == []


def test_a_delayed_push_gives_no_cpus_that_others_own_now(tmp_path: Path):
    with Node(tmp_path) as node, daemon_of(node, config="runtime: {updatesPerReply: 0}\n") as daemon:
        served(daemon)
        neighbour = shared(node)
        with node.runtime.lock:
            dedicated(node, "first")
            assert not poll(lambda: updates(node) > 0, 1.0), "the push waits for the lock"
            dedicated(node, "second")
        wait_until(lambda: updates(node) > 0, 20, "the push")
        with node.runtime.lock:
            assert node.runtime.containers[neighbour].resources.cpu.cpus == "4-7"
            assert node.cpus(neighbour) == cpuset.parse("4-7")
        assert not poll(lambda: updates(node) > 1, 1.0)
        assert daemon.audit("push.failed") == daemon.audit("drift.repair") == []


def test_a_runtime_that_dies_midway_gets_the_rest_after_its_return(tmp_path: Path):
    with Node(tmp_path) as node, daemon_of(node, config="runtime: {updatesPerReply: 0}\n") as daemon:
        served(daemon)
        crowd = [shared(node, f"n{i}") for i in range(8)]
        web = dedicated(node)
        node.kill_runtime()
        node.start_runtime()
        wait_until(
            lambda: {node.runtime.containers[k].resources.cpu.cpus for k in crowd} == {"2-7"},
            20,
            "the pushes",
        )
        assert node.runtime.containers[web].resources.cpu.cpus == "0-1"


def updates(node: Node) -> int:
    """Return how often the runtime was asked for an update by CRI."""
    return sum(told.kind is HookKind.UPDATE_CONTAINER for told in node.runtime.trace)
