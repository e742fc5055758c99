"""Restarts of kubelet, containerd and daemon in every order: containers keep their CPUs."""

from itertools import permutations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

ORDERS = list(permutations(("kubelet", "containerd", "daemon")))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_restarts_move_no_container(cluster: Cluster, product: Product, pods: Pods, order: tuple[str, ...]):
    pods.run(
        pod("db", container(requests={"cpu": "1"}), qos_class="dedicated"),
        pod("web", container(requests={"cpu": "100m"})),
    )
    product.owner("db")
    before = pods.placed("db", "web")
    for part in order:
        _restart(cluster, product, part)
    cluster.wait(lambda: product.json("/readyz").get("ready"), "a ready daemon")
    cluster.wait(cluster.is_ready, "a ready node")
    assert pods.placed("db", "web") == before


def _restart(cluster: Cluster, product: Product, part: str) -> None:
    if part == "daemon":
        product.kill()
    else:
        cluster.restart(part)
