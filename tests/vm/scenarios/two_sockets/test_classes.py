"""The four classes side by side: their CPUs, their weights, and the order of OOM kills."""

from dataclasses import dataclass

import pytest

from tests.vm.node import Container, Node, becomes, cpus, read

WEIGHT = "100"
IO_WEIGHT = "default 100"


@dataclass
class Pods:
    web: Container  # dedicated, two CPUs
    shop: Container  # shared
    batch: Container  # reclaimed: best effort, without any annotation
    agent: Container  # system: as `batch`, but in kube-system


@pytest.fixture(scope="module")
def pods(node: Node) -> Pods:
    return Pods(
        batch=node.pod("batch", kube_qos="besteffort", oom=1000),
        agent=node.pod("agent", kube_qos="besteffort", namespace="kube-system", oom=1000),
        shop=node.pod("shop", cpus=0.5, oom=100, oom_score_adj="700"),
        web=node.pod(
            "web", namespace="kube-system", cpus=2, oom=300, qos_class="dedicated", oom_score_adj="-500"
        ),
    )


def cpus_of_others(pods: Pods) -> list[frozenset[int]]:
    """Return the CPUs of each container except the dedicated one."""
    return [container.cpus for container in (pods.shop, pods.batch, pods.agent)]


def test_a_dedicated_container_has_its_cpus_alone(pods: Pods):
    assert len(pods.web.cpus) == 2
    assert pods.web.cpus == cpus(pods.web.cgroup("cpuset.cpus"))
    becomes(lambda: cpus_of_others(pods), [cpus("0-7") - pods.web.cpus] * 3)


def test_everyone_may_use_all_memory_nodes(pods: Pods):
    for container in (pods.web, pods.shop, pods.batch, pods.agent):
        assert container.cgroup("cpuset.mems.effective") == "0-1"


def test_a_reclaimed_pod_is_limited_at_its_own_cgroup(pods: Pods):
    becomes(lambda: cpus(pods.batch.pod_cgroup("cpuset.cpus")), cpus("0-7") - pods.web.cpus)
    assert pods.batch.pod_cgroup("cpu.weight") == "1"
    assert pods.batch.pod_cgroup("io.weight") == "default 10"
    assert pods.batch.pod_cgroup("io.bfq.weight") == "default 10"
    assert pods.batch.cgroup("cpuset.cpus") == ""


def test_a_system_pod_beside_it_keeps_its_files(pods: Pods):
    assert pods.agent.pod_cgroup("cpuset.cpus") == ""
    assert pods.agent.pod_cgroup("cpu.weight") == WEIGHT
    assert pods.agent.pod_cgroup("io.weight") == IO_WEIGHT
    assert pods.agent.oom_score_adj == 1000


@pytest.mark.parametrize("cgroup", ["kubepods", "kubepods/besteffort"])
def test_nothing_above_the_pods_is_written(pods: Pods, cgroup: str):
    assert read(cgroup, "cpuset.cpus") == ""
    assert read(cgroup, "cpu.weight") == WEIGHT
    assert read(cgroup, "io.weight") == IO_WEIGHT


def test_an_oom_score_goes_up_and_down(pods: Pods):
    assert pods.web.oom_score_adj == -500
    assert pods.shop.oom_score_adj == 700
    assert pods.batch.oom_score_adj == 1000


def test_a_released_core_returns_to_everyone(node: Node, pods: Pods):
    node.remove(pods.web)
    becomes(lambda: cpus_of_others(pods), [cpus("0-7")] * 3)
