"""Restarts of kubelet, containerd and daemon in every order: containers keep their CPUs."""

from itertools import permutations
from typing import Final

from tests.cluster.cluster import Cluster
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

K, C, D = "kubelet", "containerd", "daemon"
PARTS: Final = (K, C, D, K, C, K, D, C, K)
"""Nine restarts that hold each of the six orders of three."""


def test_the_restarts_hold_every_order():
    orders = {PARTS[first : first + 3] for first in range(len(PARTS) - 2)}
    assert orders >= set(permutations((K, C, D)))


def test_restarts_in_every_order_move_no_container(cluster: Cluster, product: Product, pods: Pods):
    pods.run(
        pod("db", container(requests=ONE_CPU), qos_class="dedicated"),
        pod("web", container(requests={"cpu": "100m"})),
    )
    product.owner("db")
    before = pods.placed("db", "web")
    for number, part in enumerate(PARTS):
        _restart(cluster, product, part)
        assert pods.placed("db", "web") == before, f"after {PARTS[: number + 1]}"
    product.wait_ready()
    cluster.wait(cluster.is_ready, "a ready node")
    assert pods.placed("db", "web") == before
    assert product.owner("db")["cpus"]


def _restart(cluster: Cluster, product: Product, part: str) -> None:
    if part == D:
        cluster.wait(product.pids, "the daemon's process")
        product.kill()
    else:
        cluster.restart(part)
