"""The kubelet's static CPU manager on cgroup v2, under both settings of `node.kubeletCPUManager`."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.pods import container, pod
from tests.vm.kubelet import Kubelet
from tests.vm.node import Node, becomes, cpus, read, until

STATIC: Final = {
    "cpuManagerPolicy": "static",
    "kubeReserved": {"cpu": "1"},
    "cpuManagerReconcilePeriod": "2s",
}
PINNED: Final = container(limits={"cpu": "1", "memory": "32Mi"})


@pytest.fixture(scope="module")
def kubelet(node: Node) -> Iterator[Kubelet]:
    found = Kubelet(node)
    found.start(**STATIC)
    yield found
    found.close()


@pytest.fixture(scope="module", params=["refuse", "preserve-kubelet"])
def setting(request: pytest.FixtureRequest, node: Node, kubelet: Kubelet) -> Iterator[str]:
    """Apply a setting, and run a pinned pod and then a reclaimed one, named after it."""
    found: str = request.param
    node.plugin.config.write(f"node: {{kubeletCPUManager: {found}}}\n")
    is_ready = found == "preserve-kubelet"
    until(lambda: node.plugin.check("config").get("ok") is is_ready, f"the setting {found}")
    kubelet.run(pod(f"pinned-{found}", PINNED, hostNetwork=True))
    kubelet.run(pod(f"batch-{found}", hostNetwork=True))
    yield found
    node.plugin.config.write("")


def where(kubelet: Kubelet, name: str) -> frozenset[int]:
    """Return the CPUs of a pod's container, by the kernel's own file."""
    return cpus(read(kubelet.path(name), "cpuset.cpus.effective"))


def test_reclaimed_pod_starts_beside_a_pinned_one(kubelet: Kubelet, setting: str):
    pinned = kubelet.pinned_cpus()
    assert pinned
    assert kubelet.row(f"batch-{setting}")["class"] == "reclaimed"
    becomes(lambda: where(kubelet, f"batch-{setting}") & pinned, frozenset())


def test_pinned_container_keeps_the_kubelets_cpu(kubelet: Kubelet, setting: str):
    def is_kept() -> bool:
        own = where(kubelet, f"pinned-{setting}")
        return len(own) == 1 and own <= kubelet.pinned_cpus()

    until(is_kept, "the kubelet's CPU")
