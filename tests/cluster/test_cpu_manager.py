"""The kubelet's static CPU manager, under both settings of `node.kubeletCPUManager`."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.node import KubeletOptions
from tests.cluster.pods import container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "100m"}, "cpuManagerReconcilePeriod": "2s"}
"""The kubelet keeps a whole CPU for 100m; one is left to pin."""

CONFIG = """\
apiVersion: coloc.nri.io/v1
node: {{kubeletCPUManager: {setting}}}
telemetry: {{http: 127.0.0.1:9744}}
"""


@pytest.fixture(scope="module")
def static_kubelet(shared_cluster: Cluster, shared_product: Product) -> Iterator[None]:
    shared_cluster.reconfigure(KubeletOptions(STATIC))
    yield
    shared_cluster.reconfigure(KubeletOptions())
    shared_product.reconfigure("")


@pytest.fixture(scope="module")
def setting(request: pytest.FixtureRequest, static_kubelet: None, shared_product: Product) -> str:
    found: str = request.param
    shared_product.reconfigure(CONFIG.format(setting=found))
    return found


BOTH = pytest.mark.parametrize("setting", ["refuse", "preserve-kubelet"], indirect=True)
PINNED = container(limits={"cpu": "1", "memory": "32Mi"})


@BOTH
def test_pods_of_every_class_start(setting: str, pods: Pods):
    pods.run(
        pod("web", container(requests={"cpu": "100m"})),
        pod("batch"),
        pod("agent", namespace="kube-system"),
        pod("pinned", PINNED),
    )


@BOTH
def test_new_reclaimed_pod_starts_beside_a_pinned_one(setting: str, pods: Pods):
    pods.run(pod("pinned", PINNED))
    pods.run(pod("batch"))


@pytest.mark.parametrize("setting", ["refuse"], indirect=True)
def test_refusal_names_the_remedy(setting: str, cluster: Cluster, shared_product: Product):
    def is_refused() -> bool:
        check = shared_product.check("config")
        return not check["ok"] and "kubeletCPUManager" in check["detail"]

    cluster.wait(is_refused, "a refusal with the remedy")


@pytest.mark.parametrize("setting", ["preserve-kubelet"], indirect=True)
def test_pinned_container_owns_the_kubelets_cpu(setting: str, cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("web", container(requests={"cpu": "100m"})), pod("pinned", PINNED))
    pinned = cluster.node.pinned_cpus()
    assert len(pinned) == 1
    pods.settle(lambda: pods.cpus("pinned") == pinned, "the kubelet's CPU")
    pods.settle(lambda: not (pods.cpus("web") or pinned) & pinned, "a shared container on other CPUs")
