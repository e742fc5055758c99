"""Sixty pods at once: each is placed."""

from tests.cluster.cluster import Cluster
from tests.cluster.pods import container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

COUNT = 60


def test_sixty_pods_at_once_are_placed(cluster: Cluster, product: Product, pods: Pods):
    names = [f"pod-{number}" for number in range(COUNT)]
    pods.run(
        *(pod(name, container(requests={"cpu": "10m"} if n % 2 else {})) for n, name in enumerate(names))
    )
    classes = {row["pod"]: row["class"] for row in product.json("/v1/state")["containers"]}
    assert {name: classes.get(name) for name in names} == {
        name: "shared" if number % 2 else "reclaimed" for number, name in enumerate(names)
    }
