"""Another plugin registers under our own index and name: the runtime takes both, and no pod fails for it."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import NAME, Product
from tests.cluster.running import Pods
from tests.rig import rival
from tests.rig.rival import Rival

NEWEST_IN_A_TIER = True


@pytest.fixture
def namesake(cluster: Cluster, product: Product) -> Iterator[Rival]:
    """Yield another plugin with our index and name."""
    with Rival(cluster.node.nri_socket, "50", NAME) as found:
        yield found
    product.wait_ready()


def test_both_plugins_are_served(product: Product, pods: Pods, namesake: Rival):
    pods.run(
        pod("db", container(requests=ONE_CPU), qos_class="dedicated"),
        pod("web", container(requests={"cpu": "100m"})),
    )
    db = product.owner("db")
    web = pods.settle(lambda: product.container("web")["actual_cpus"], "the shared container's CPUs")
    assert db["actual_cpus"] not in ("", web)
    assert namesake.heard["CreateContainer"] >= 2
    assert not namesake.dropped.is_set()


def test_its_cpus_are_reported_with_a_remedy(cluster: Cluster, product: Product, pods: Pods, namesake: Rival):
    contested = pod("contested", container(requests=ONE_CPU), qos_class="dedicated")
    contested["metadata"]["annotations"][rival.PIN] = "0"
    pods.create(contested)

    def is_reported() -> bool:
        check = product.check("neighbours")
        return not check["ok"] and "another NRI plugin names CPUs too" in check["detail"]

    cluster.wait(is_reported, "a neighbour that is reported")
    assert product.check("connected")["ok"]
    pods.run(pod("web", container(requests={"cpu": "100m"})))
