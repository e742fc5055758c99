"""The state gives the CPU and memory that each online pod claims."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, PodStarted
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Pod, QoSClass, Resources, Wish
from nri_coloc.memory.bounds import Boxed, boxed_pods
from nri_coloc.placing import online_pods
from tests.unit.parts import MEMORY, a_node, create, start_pod
from tests.unit.placing import kit

GIB = 1 << 30


def test_an_online_pod_claims_what_its_containers_requested():
    node = a_node()
    create(node, "web-1", milli=1500, on="web-6c9f8b7d5-x2x4x")
    create(node, "sidecar", milli=500, on="web-6c9f8b7d5-x2x4x")
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)["web-6c9f8b7d5-x2x4x"]
    assert (found.workload, found.cpu_milli, found.own_cpus) == ("shop/web", 2000, False)


def test_containers_of_an_online_pod_that_are_lent_to_are_told():
    node = a_node()
    create(node, "app")
    create(node, "job", kit.RECLAIMED)
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)["web"]
    assert found.lent_to == ("job",)


def test_a_guaranteed_pod_claims_its_limit_and_never_more():
    node = a_node()
    for name in ("a", "b"):
        container = kit.container(name, resources=Resources(shares=1024, memory_limit=GIB))
        node.decide(ContainerCreating(kit.pod("web"), container, kit.SHARED))
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)["web"]
    assert (found.memory_bytes, found.memory_limit) == (2 * GIB, 2 * GIB)


def test_the_runtime_classs_overhead_adds_to_a_pods_limit():
    node = a_node()
    container = kit.container("guest", "vm", resources=Resources(shares=1024, memory_limit=GIB))
    vm = replace(kit.pod("vm"), overhead_bytes=GIB // 2)
    node.decide(ContainerCreating(vm, container, kit.SHARED))
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)["vm"]
    assert (found.memory_bytes, found.memory_limit) == (GIB, GIB + GIB // 2)


def test_one_container_without_a_limit_leaves_the_pod_without():
    node = a_node()
    create(node, "free")
    container = kit.container("bound", resources=Resources(shares=1024, memory_limit=GIB))
    node.decide(ContainerCreating(kit.pod("web"), container, kit.SHARED))
    assert online_pods.online(node.state, node.state.pools.free, MEMORY)["web"].memory_limit is None


def test_a_burstable_pods_request_is_read_from_its_score():
    node = a_node()
    pod = replace(kit.pod("web"), cgroup_parent="/kubepods/burstable/podweb")
    container = replace(kit.container("app"), oom_score_adj=750)
    node.decide(ContainerCreating(pod, container, kit.SHARED))
    assert online_pods.online(node.state, node.state.pools.free, MEMORY)["web"].memory_bytes == MEMORY // 4


def test_sidecars_claim_no_memory_by_an_inherited_score():
    node = a_node()
    pod = replace(kit.pod("web"), cgroup_parent="/kubepods/burstable/podweb")
    for name in ("main", *(f"sidecar-{at}" for at in range(20))):
        container = replace(kit.container(name), name=name, oom_score_adj=900)
        node.decide(ContainerCreating(pod, container, kit.SHARED))
    assert online_pods.online(node.state, node.state.pools.free, MEMORY)["web"].memory_bytes == MEMORY // 10


def test_a_pod_on_own_cpus_counts_memory_only():
    node = a_node()
    create(node, "db", kit.DEDICATED, 2000, on="db")
    create(node, "web", on="web")
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)
    assert {name: pod.own_cpus for name, pod in found.items()} == {"db": True, "web": False}


def test_a_pool_with_own_cpus_counts_too():
    node = a_node(Tuning(pools=(PoolTuning("gold", minimum=2),)))
    create(node, "app", replace(kit.SHARED, pool="gold"))
    pools = node.state.pools
    assert online_pods.online(node.state, pools.free, MEMORY)["web"].own_cpus
    assert not online_pods.online(node.state, pools.allocatable, MEMORY)["web"].own_cpus


@pytest.mark.parametrize(("cpus", "own"), [("2-3", True), ("2-4", False), ("", False)])
def test_a_pinned_pod_runs_where_its_spec_says(cpus, own):
    node = a_node(Tuning(kept_by_kubelet={"uid-web": {"app": kit.mask("2-3")}}))
    pinned = replace(kit.SHARED, preserve=frozenset({"cpu"}))
    container = kit.container("app", resources=Resources(shares=2048, cpus=cpus))
    node.decide(ContainerCreating(kit.pod("web"), container, pinned))
    assert online_pods.online(node.state, node.state.pools.free, MEMORY)["web"].own_cpus is own


@pytest.mark.parametrize(("reserved", "may"), [("0-1", True), ("", False)])
def test_only_node_agents_run_on_reserved_cpus(reserved, may):
    node = a_node(Tuning(reserved=kit.mask(reserved) if reserved else 0))
    create(node, "agent", kit.SYSTEM, on="agent")
    create(node, "web", on="web")
    found = online_pods.online(node.state, node.state.pools.free, MEMORY)
    assert {name: pod.on_reserved for name, pod in found.items()} == {"agent": may, "web": False}


def test_the_pods_of_the_box_claim_nothing():
    node = a_node()
    start_pod(node, "batch")
    start_pod(node, "agent", kit.SYSTEM)
    assert set(online_pods.online(node.state, node.state.pools.free, MEMORY)) == {"agent"}
    assert boxed_pods(node.state) == {"batch": Boxed("kubepods/podbatch")}


def test_a_reclaimed_pod_was_lent_what_its_containers_may_have():
    node = a_node()
    start_pod(node, "batch")
    wish = Wish(QoSClass.RECLAIMED, knobs=Knobs(memory_limit=GIB))
    create(node, "job", wish, 0, on="batch")
    limited = kit.container("side", "batch", resources=Resources(shares=2, memory_limit=GIB // 2))
    node.decide(ContainerCreating(kit.pod("batch"), limited, kit.RECLAIMED))
    assert boxed_pods(node.state)["batch"].request == GIB + GIB // 2


def test_memory_that_is_to_be_left_alone_is_not_ours():
    node = a_node()
    start_pod(node, "batch", Wish(QoSClass.RECLAIMED, preserve=frozenset({"memory"})))
    assert not boxed_pods(node.state)["batch"].ours


@pytest.mark.parametrize("parent", ["", "../..", "/kubepods/besteffort"])
def test_a_reclaimed_pod_without_own_cgroup_is_no_member(parent):
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent=parent), kit.RECLAIMED))
    assert boxed_pods(node.state) == {}
