"""A kubelet with a static CPU manager names its default set in every spec; on cgroup v1 only a pod's own CPUs start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest
from tests.integration.harness import assert_unhurt, daemon_of, dedicated, pod, served
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

NAMED = Resources(cpus="0-7")
"""The kubelet's default set, as in the spec of each container that it does not pin."""

PRESERVE = "node: {kubeletCPUManager: preserve-kubelet}\n"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=request.param) as node:
        yield node


def batch(node: Node, name: str = "batch") -> str:
    """Run the sandbox of a reclaimed pod."""
    return pod(node, name, kube=KubeQoS.BEST_EFFORT)


def pod_cpus(node: Node, pod_id: str) -> int:
    return node.tree.effective(node.runtime.pods[pod_id].cgroup)


def narrowed(node: Node, daemon: Daemon) -> str:
    """Run a reclaimed pod beside a dedicated container, whose CPUs 0-1 are not the pod's."""
    served(daemon)
    dedicated(node, "web")
    sandbox = batch(node)
    assert pod_cpus(node, sandbox) == cpuset.parse("2-7")
    return sandbox


@pytest.mark.parametrize("config", ["", PRESERVE], ids=["refuse", "preserve-kubelet"])
def test_a_reclaimed_container_starts_whatever_its_spec_names(node, config):
    with daemon_of(node, config=config) as daemon:
        sandbox = narrowed(node, daemon)
        container = node.run_container(sandbox, ContainerRequest("app", NAMED))
        assert node.cpus(container) == pod_cpus(node, sandbox) == cpuset.parse("2-7")
        assert daemon.audit("drift.repair") == []
        assert_unhurt(daemon)


def test_containers_that_run_stay_on_the_pool_meanwhile(node):
    with daemon_of(node) as daemon:
        sandbox = narrowed(node, daemon)
        first = node.run_container(sandbox, ContainerRequest("first", NAMED))
        second = node.runtime.create(sandbox, ContainerRequest("second", NAMED))
        assert node.cpus(first) == cpuset.parse("2-7")
        dedicated(node, "late")
        wait_until(lambda: node.cpus(first) == cpuset.parse("4-7"), 20, "it to leave the dedicated CPUs")
        node.runtime.start(second)
        assert node.cpus(second) == pod_cpus(node, sandbox) == cpuset.parse("4-7")
        assert daemon.audit("container.late") == []
        assert_unhurt(daemon)


def test_a_container_created_before_a_restart_starts(node):
    with daemon_of(node) as daemon:
        sandbox = narrowed(node, daemon)
        container = node.runtime.create(sandbox, ContainerRequest("app", NAMED))
        assert daemon.terminate() == 0
        daemon.start()
        served(daemon)
        dedicated(node, "late")
        node.runtime.start(container)
        assert node.cpus(container) == pod_cpus(node, sandbox) == cpuset.parse("4-7")
        assert_unhurt(daemon)


def test_a_container_that_never_starts_leaves_no_trace(node):
    with daemon_of(node) as daemon:
        sandbox = narrowed(node, daemon)
        container = node.runtime.create(sandbox, ContainerRequest("app", NAMED))
        node.runtime.remove(container)
        wait_until(lambda: pod_cpus(node, sandbox) == cpuset.parse("2-7"), 20, "the pod to be narrow")
        assert daemon.audit("drift.repair") == []
        assert_unhurt(daemon)


def test_a_container_whose_update_names_cpus_follows_the_pool(node):
    with daemon_of(node) as daemon:
        sandbox = narrowed(node, daemon)
        container = node.run_container(sandbox, ContainerRequest("app", NAMED))
        node.runtime.update(container, NAMED)
        assert node.cpus(container) == cpuset.parse("2-7")
        node.remove_pod(node.pod("shop/web"))
        wait_until(lambda: node.cpus(container) == cpuset.parse("0-7"), 20, "it to follow the pool")
        assert_unhurt(daemon)
