"""A pod that is resized in place to no CPU request keeps none of the CPUs that it had by its former one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import daemon_of, file, pod, restore_of, served, shared
from tests.rig.waiting import wait_until

NOTHING = 2
"""The shares that a kubelet gives for a request of two thousandths of a CPU or less."""

POOL = "apiVersion: coloc.nri.io/v1\npools: {gold: {minCPUs: 1, maxCPUs: 6}}\n"
RUNTIMES = [(1, "1.7.24"), (1, "2.4.0"), (2, "2.1.9"), (2, "2.4.0")]


def shrink(node: Node, sandbox: str, container: str) -> None:
    """Resize a pod of one container to nothing: its container first, as a kubelet does."""
    node.runtime.update(container, Resources(shares=NOTHING))
    node.resize_pod(sandbox, NOTHING)


@pytest.mark.parametrize(("cgroup", "runtime"), RUNTIMES)
def test_an_owner_returns_its_cpus(tmp_path: Path, cgroup: int, runtime: str):
    with Node(tmp_path, cgroup=cgroup, runtime_version=runtime) as node, daemon_of(node) as daemon:
        served(daemon)
        neighbour = shared(node)
        sandbox = pod(node, "own", "dedicated", milli=6000)
        owner = node.run_container(sandbox, ContainerRequest("app", native(6000)))
        shrink(node, sandbox, owner)
        wait_until(lambda: cpuset.render(node.cpus(neighbour)) == "0-7", 30, "the CPUs of the former owner")


@pytest.mark.parametrize(("cgroup", "runtime"), RUNTIMES)
def test_a_member_no_longer_enlarges_its_pool(tmp_path: Path, cgroup: int, runtime: str):
    with (
        Node(tmp_path, cgroup=cgroup, runtime_version=runtime) as node,
        daemon_of(node, config=POOL) as daemon,
    ):
        served(daemon)
        sandbox = pod(node, "pooled", "shared", {"coloc.nri.io/cpu-pool": "gold"}, milli=3000)
        member = node.run_container(sandbox, ContainerRequest("app", native(3000)))
        shrink(node, sandbox, member)
        wait_until(
            lambda: cpuset.parse(daemon.state()["pools"]["gold"]["cpus"]).bit_count() == 1,
            30,
            "a pool of one CPU",
        )


@pytest.mark.parametrize(("cgroup", "runtime"), RUNTIMES)
def test_a_later_container_gets_nothing_of_the_former_request(tmp_path: Path, cgroup: int, runtime: str):
    with Node(tmp_path, cgroup=cgroup, runtime_version=runtime) as node, daemon_of(node) as daemon:
        served(daemon)
        neighbour = shared(node)
        sandbox = pod(node, "batch", "reclaimed", {"coloc.nri.io/qos-class.later": "dedicated"}, milli=6000)
        first = node.run_container(sandbox, ContainerRequest("first", native(6000)))
        name, least = node.tree.weight(NOTHING)
        wait_until(lambda: (file(node, sandbox, name) or "").strip() == least, 20, "the least weight")
        shrink(node, sandbox, first)
        node.run_container(sandbox, ContainerRequest("later", Resources(shares=NOTHING)))
        assert cpuset.render(node.cpus(neighbour)) == "0-7"


def shrink_pod(node: Node, sandbox: str, _container: str) -> None:
    """Resize the resources of a pod (KEP-5419) whose container has no request of its own."""
    node.resize_pod(sandbox, NOTHING)


@pytest.mark.parametrize(
    ("resize", "cgroup", "runtime"),
    [*((shrink, *each) for each in RUNTIMES), (shrink_pod, 1, "2.4.0"), (shrink_pod, 2, "2.4.0")],
)
def test_restore_keeps_the_lower_weight(
    tmp_path: Path,
    resize: Callable[[Node, str, str], None],
    cgroup: int,
    runtime: str,
    capfd: pytest.CaptureFixture[str],
):
    with Node(tmp_path, cgroup=cgroup, runtime_version=runtime) as node, daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "batch", "reclaimed", milli=6000)
        batch = node.run_container(sandbox, ContainerRequest("app", native(6000)))
        name, least = node.tree.weight(NOTHING)
        wait_until(lambda: (file(node, sandbox, name) or "").strip() == least, 20, "the least weight")
        daemon.wait_written()
        resize(node, sandbox, batch)
        daemon.wait_written()
        daemon.kill()
        assert restore_of(node, daemon, capfd)().code == 0
        assert (file(node, sandbox, name) or "").strip() == least


@pytest.mark.parametrize(("cgroup", "runtime"), [(1, "1.7.24"), (2, "2.1.9")])
def test_a_restart_before_the_kubelets_last_write_keeps_no_cpu(tmp_path: Path, cgroup: int, runtime: str):
    with Node(tmp_path, cgroup=cgroup, runtime_version=runtime) as node:
        with daemon_of(node) as daemon:
            served(daemon)
            neighbour = shared(node)
            sandbox = pod(node, "own", "dedicated", milli=6000)
            owner = node.run_container(sandbox, ContainerRequest("app", native(6000)))
            node.runtime.update(owner, Resources(shares=NOTHING))
        with daemon_of(node) as daemon:
            served(daemon)
            wait_until(lambda: node.cpus(neighbour).bit_count() < 8, 30, "CPUs by the former request")
            node.tree.write(node.runtime.pods[sandbox].cgroup, *node.tree.weight(NOTHING))
            wait_until(
                lambda: cpuset.render(node.cpus(neighbour)) == "0-7", 30, "the CPUs of the former owner"
            )
