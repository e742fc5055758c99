"""Own CPUs beside a simulated runtime depend on the values that the kubelet wrote for the pod, and on nothing else."""

from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    dedicated,
    pod,
    reclaimed,
    reload,
    served,
    shared,
)
from tests.rig.waiting import wait_until

WITH_DRIVER = "apiVersion: coloc.nri.io/v1\nruntime: {draCPUDriver: true}\n"
WITH_POOL = "apiVersion: coloc.nri.io/v1\npools: {gold: {minCPUs: 1, maxCPUs: 6}}\n"
IN_POOL = {"coloc.nri.io/cpu-pool": "gold"}
DEAR = 'apiVersion: coloc.nri.io/v1\nclasses: {dedicated: {minRequest: "4"}}\n'


def on(node: Node, container_id: str) -> str:
    """Return the CPUs of a container's cgroup."""
    return cpuset.render(node.cpus(container_id))


def spec_of(node: Node, container_id: str) -> str:
    """Return the CPUs of a container's spec."""
    cpus: str = node.runtime.containers[container_id].resources.cpu.cpus
    return cpus


def claiming(node: Node, name: str, claim: str, *, spec: str | None = None, milli: int = 2000) -> str:
    """Run a pod whose container carries a claim of the DRA CPU driver.

    spec: the CPUs that the spec names; default: the CPUs of the claim.
    """
    resources = Resources(shares=native(milli).shares, cpus=claim if spec is None else spec)
    return node.run_container(pod(node, name, milli=milli), _carrying(claim, resources))


def _carrying(claim: str, resources: Resources) -> ContainerRequest:
    return ContainerRequest("app", resources, variables=("PATH=/bin", f"DRA_CPUSET_x={claim}"))


def asking(node: Node, name: str, milli: int) -> str:
    """Run a pod that wants CPUs of its own; its only container's request is the pod's."""
    sandbox = pod(node, name, "dedicated", milli=milli)
    return node.run_container(sandbox, ContainerRequest("app", native(milli)))


# ---- claims of the DRA CPU driver ----


@pytest.mark.parametrize("config", ["", WITH_DRIVER], ids=["default", "with-a-driver"])
def test_a_variable_takes_no_owners_cpus(node, daemon, config):
    if config:
        reload(daemon, config)
    db, web = dedicated(node, "db", 4000), shared(node)
    sandbox = pod(node, "thief", kube=KubeQoS.BEST_EFFORT)
    thief = node.runtime.create(sandbox, _carrying("0-7", Resources(shares=2, cpus="0-7")))
    denied = daemon.audited("annotation.denied", container_id=thief)
    assert (denied["key"], denied["value"], denied["used"]) == ("DRA_CPUSET_x", "0-7", "class reclaimed")
    assert (on(node, db), on(node, web), daemon.container(thief)["cpus"]) == ("0-3", "4-7", "4-7")
    assert daemon.audit("container.update", container_id=db) == []
    assert_unhurt(daemon)


def test_a_variable_of_a_small_pod_takes_none_either(node, daemon):
    reload(daemon, WITH_DRIVER)
    db, thief = dedicated(node, "db", 4000), claiming(node, "thief", "0-7", milli=100)
    assert (on(node, db), on(node, thief)) == ("0-3", "4-7")
    assert daemon.audited("annotation.denied", container_id=thief)["used"] == "class shared"
    assert_unhurt(daemon)


def test_cpus_of_the_driver_are_left_alone(node, daemon):
    reload(daemon, WITH_DRIVER)
    neighbour, batch = shared(node), reclaimed(node)
    driven = claiming(node, "driven", "1-2")
    assert (on(node, driven), spec_of(node, driven)) == ("1-2", "1-2")
    assert daemon.audited("container.admit", container_id=driven)["reason"] == "hands_off"
    wait_until(lambda: on(node, neighbour) == on(node, batch) == "0,3-7", 20, "the others to leave")
    daemon.kill()
    daemon.start()
    served(daemon)
    assert daemon.container(driven)["cpus"] == "1-2"
    node.runtime.stop(driven)
    wait_until(lambda: on(node, neighbour) == "0-7", 20, "its CPUs to come back")
    assert_unhurt(daemon)


def test_a_smaller_request_ends_a_claim(node, daemon):
    reload(daemon, WITH_DRIVER)
    neighbour, driven = shared(node), claiming(node, "driven", "1-2")
    wait_until(lambda: on(node, neighbour) == "0,3-7", 20, "the other to leave")
    node.runtime.update(driven, Resources(shares=1024))
    denied = daemon.audited("annotation.denied", container_id=driven)
    assert (denied["key"], denied["value"], denied["used"]) == ("DRA_CPUSET_x", "1-2", "class shared")
    wait_until(lambda: on(node, driven) == on(node, neighbour) == "0-7", 20, "its CPUs to come back")
    assert_unhurt(daemon)


def test_one_of_two_containers_with_one_claim_owns_it(node, daemon):
    reload(daemon, WITH_DRIVER)
    first = claiming(node, "first", "1-2")
    second = claiming(node, "second", "1-2")
    assert (on(node, first), on(node, second)) == ("1-2", "0,3-7")
    assert daemon.audited("annotation.denied", container_id=second)["value"] == "1-2"
    assert_unhurt(daemon)


def test_cpus_that_the_daemon_pushed_are_no_claim(node, daemon):
    daemon.kill()
    adopted = claiming(node, "adopted", "0-7", spec="", milli=8000)
    daemon.config.write(WITH_DRIVER)
    daemon.start()
    served(daemon)
    wait_until(lambda: spec_of(node, adopted) == "0-7", 20, "the push")
    assert daemon.container(adopted)["class"] == "shared"
    daemon.kill()
    daemon.start()
    served(daemon)
    assert daemon.audited("annotation.denied", container_id=adopted)["used"] == "class shared"
    assert assert_unhurt(daemon)["pools"]["dedicated"]["cpus"] == ""


# ---- requests and limits ----


def test_a_limit_gets_no_cpus(node, daemon):
    neighbour = shared(node)
    sandbox = pod(node, "web", "dedicated", milli=1)
    web = node.run_container(sandbox, ContainerRequest("app", native(1, 6000)))
    assert (on(node, web), on(node, neighbour), daemon.container(web)["class"]) == ("0-7", "0-7", "shared")
    denied = daemon.audited("annotation.denied", container_id=web)
    assert (denied["value"], denied["used"]) == ("dedicated", "shared")
    assert_unhurt(daemon)


def test_a_limit_gives_its_pool_no_cpus(node, daemon):
    reload(daemon, WITH_POOL)
    for name, resources, milli, size in (
        ("limited", native(1, 6000), 1, 1),
        ("asking", native(3000), 3000, 3),
    ):
        member = node.run_container(
            pod(node, name, "shared", IN_POOL, milli=milli), ContainerRequest("app", resources)
        )
        assert daemon.container(member)["pool"] == "gold"
        assert cpuset.parse(daemon.state()["pools"]["gold"]["cpus"]).bit_count() == size
    assert_unhurt(daemon)


def test_the_operator_says_what_own_cpus_cost(node, daemon):
    reload(daemon, DEAR)
    small, large = asking(node, "small", 2000), asking(node, "large", 4000)
    assert [daemon.container(each)["class"] for each in (small, large)] == ["shared", "dedicated"]
    assert_unhurt(daemon)


# ---- pod-level resources ----


def test_containers_own_their_pods_request_together(node, daemon):
    """The kubelet writes the pod's limit into each container that has none of its own."""
    sandbox = pod(node, "web", "dedicated", milli=2000)
    three = [node.run_container(sandbox, ContainerRequest(name, native(2000, 2000))) for name in "abc"]
    assert [on(node, each) for each in three] == ["0-1"] * 3
    assert assert_unhurt(daemon)["pools"]["dedicated"]["cpus"] == "0-1"


def test_a_pod_without_limits_owns_its_request(node, daemon):
    sandbox = pod(node, "web", "dedicated", milli=4000)
    both = [node.run_container(sandbox, ContainerRequest(name)) for name in "ab"]
    assert [on(node, each) for each in both] == ["0-3", "0-3"]
    assert assert_unhurt(daemon)["pools"]["dedicated"]["cpus"] == "0-3"


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_a_resized_pod_owns_its_new_request(tmp_path: Path, cgroup):
    with Node(tmp_path, cgroup=cgroup, runtime_version="2.4.0") as node, daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "web", "dedicated", milli=2000)
        both = [node.run_container(sandbox, ContainerRequest(name)) for name in "ab"]
        assert [on(node, each) for each in both] == ["0-1", "0-1"]
        node.resize_pod(sandbox, 4096)
        wait_until(lambda: [on(node, each) for each in both] == ["0-3", "0-3"], 20, "the growth")
        node.resize_pod(sandbox, 1024)
        wait_until(lambda: [on(node, each) for each in both] == ["0", "0"], 20, "the shrinking")
        assert_unhurt(daemon)


def test_a_denial_reads_the_pods_request_again(node, daemon):
    """Runtimes before 2.2 report no resize of a pod."""
    sandbox = pod(node, "web", "dedicated", milli=2000)
    node.resize_pod(sandbox, 4096)
    web = node.run_container(sandbox, ContainerRequest("app", native(4000)))
    assert on(node, web) == "0-3"
    assert_unhurt(daemon)
