"""Rolling update and removal of the DaemonSet: no container is restarted or moved."""

from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

NEWEST_IN_A_TIER = True

NAMES = ("db", "web")


def test_rolling_update_moves_no_container(product: Product, pods: Pods):
    _run(product, pods)
    before = pods.placed(*NAMES)
    product.update()
    assert pods.placed(*NAMES) == before
    assert product.owner("db")["cpus"]


def test_removal_unpins_no_container(product: Product, pods: Pods):
    _run(product, pods)
    before = pods.placed(*NAMES)
    product.remove()
    try:
        assert pods.placed(*NAMES) == before
    finally:
        product.apply()
    assert pods.placed(*NAMES) == before


def _run(product: Product, pods: Pods) -> None:
    pods.run(
        pod("db", container(requests=ONE_CPU), qos_class="dedicated"),
        pod("web", container(requests={"cpu": "100m"})),
    )
    product.owner("db")
