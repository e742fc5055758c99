"""The strategies of `tenants` translate as the API server and the kubelet do."""

import pytest
from hypothesis import given

from nri_coloc.core.workload import KubeQoS
from tests.property.tenants import GIB, ContainerSpec, Figures, Kind, TenantPod, tenant_pods


def of(*own: Figures, pod: Figures | None = None) -> TenantPod:
    specs = tuple(ContainerSpec(name, figures) for name, figures in zip("abcd", own, strict=False))
    return TenantPod(specs, pod or Figures())


def shares(pod: TenantPod) -> list[int | None]:
    return [pod.resources_of(each).shares for each in pod.containers]


@pytest.mark.parametrize(
    ("pod", "of_pod", "of_containers"),
    [
        (of(Figures(1500), Figures(500)), 2048, [1536, 512]),
        (of(Figures(cpu_limit=2000)), 2048, [2048]),
        (of(Figures(1, 6000)), 2, [2]),
        (of(Figures(), Figures(), Figures(), pod=Figures(cpu_limit=2000)), 2048, [2048] * 3),
        (of(Figures(), Figures(), pod=Figures(4000)), 4096, [2, 2]),
        (of(Figures(), Figures(), pod=Figures(1000, 4000)), 1024, [4096, 4096]),
        (of(Figures(1000), Figures(), pod=Figures(4000, 4000)), 4096, [1024, 4096]),
        (of(Figures(1000), Figures(), pod=Figures(cpu_limit=4000)), 1024, [1024, 4096]),
        (of(Figures(), pod=Figures(memory_limit=GIB)), 2, [2]),
    ],
    ids=[
        "requests",
        "limit-only",
        "fault-2",
        "pod-limit",
        "pod-request",
        "both",
        "own-beside",
        "default-by-containers",
        "memory-only",
    ],
)
def test_shares_are_the_kubelets(pod, of_pod, of_containers):
    assert (pod.shares, shares(pod)) == (of_pod, of_containers)


@pytest.mark.parametrize(
    ("pod", "qos"),
    [
        (of(Figures()), KubeQoS.BEST_EFFORT),
        (of(Figures(1)), KubeQoS.BURSTABLE),
        (of(Figures(cpu_limit=1000, memory_limit=GIB)), KubeQoS.GUARANTEED),
        (of(Figures(cpu_limit=1000, memory_limit=GIB), Figures()), KubeQoS.BURSTABLE),
        (of(Figures(), pod=Figures(cpu_limit=1000, memory_limit=GIB)), KubeQoS.GUARANTEED),
        (of(Figures(), pod=Figures(1000, 2000, GIB, GIB)), KubeQoS.BURSTABLE),
    ],
)
def test_the_qos_class_is_kubernetes(pod, qos):
    assert pod.qos is qos


def test_init_containers_run_before_the_others():
    specs = (
        ContainerSpec("s", Figures(500), Kind.SIDECAR),
        ContainerSpec("i", Figures(4000), Kind.INIT),
        ContainerSpec("m", Figures(1000)),
    )
    assert TenantPod(specs).cpu_request == 4500


def test_scores_follow_the_memory_request():
    specs = (ContainerSpec("m", Figures(memory=4 * GIB)), ContainerSpec("s", Figures(), Kind.SIDECAR))
    pod = TenantPod(specs)
    assert [pod.oom_score_adj(each, 32 * GIB) for each in specs] == [875, 875]


@given(tenant_pods())
def test_a_pods_request_covers_its_containers(pod):
    own = [(each.kind, pod.request_of(each).cpu or 0) for each in pod.containers]
    assert sum(milli for kind, milli in own if kind is not Kind.INIT) <= pod.cpu_request
    assert all(milli <= pod.cpu_request for _, milli in own)
