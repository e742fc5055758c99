"""The four classes on a real node have the right CPUs, by the kernel's own files."""

from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups


def test_dedicated_container_owns_its_cpu(product: Product, pods: Pods):
    pods.run(pod("web", container(requests={"cpu": "500m"})))
    pods.run(pod("db", container(requests={"cpu": "1"}), qos_class="dedicated"))
    own = cgroups.members(product.owner("db")["cpus"])
    assert len(own) == 1
    pods.settle(lambda: pods.cpus("db") == own, "the dedicated container on its CPU")
    pods.settle(lambda: pods.cpus("web") == cgroups.online() - own, "the shared container on all others")


def test_best_effort_pod_is_reclaimed(product: Product, pods: Pods):
    pods.run(pod("batch"))
    row = pods.settle(lambda: product.container("batch"), "the container in the state")
    assert (row["class"], row["pool"]) == ("reclaimed", "reclaim")
    pids = pods.settle(lambda: cgroups.pids(pods.cgroup("batch")), "its processes")
    assert {cgroups.oom_score_adj(pid) for pid in pids} == {1000}
    pods.settle(lambda: pods.cpus("batch") == reclaim_pool(product), "the pod on the reclaim pool's CPUs")


def reclaim_pool(product: Product) -> frozenset[int]:
    return cgroups.members(product.json("/v1/state")["pools"]["reclaim"]["cpus"])


def test_kube_system_pod_is_system(product: Product, pods: Pods):
    pods.run(
        pod("agent", namespace="kube-system"), pod("db", container(requests=ONE_CPU), qos_class="dedicated")
    )
    row = pods.settle(
        lambda: product.container("agent", namespace="kube-system"), "the container in the state"
    )
    assert row["class"] == "system"
    others = cgroups.online() - cgroups.members(product.owner("db")["cpus"])
    pods.settle(lambda: pods.cpus("agent", namespace="kube-system") == others, "the agent beside the owner")
