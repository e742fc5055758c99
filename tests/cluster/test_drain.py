"""Node drain: every pod is evicted but the daemon's own, and all CPUs are free."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig.waiting import PATIENCE_SECONDS

NEWEST_IN_A_TIER = True


@pytest.fixture
def schedulable_again(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.kubectl("uncordon", NODE_NAME)


@pytest.mark.usefixtures("schedulable_again")
def test_drain_frees_every_cpu(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", container(requests=ONE_CPU), qos_class="dedicated"), pod("batch"))
    cluster.kubectl("drain", NODE_NAME, "--ignore-daemonsets", "--force", f"--timeout={PATIENCE_SECONDS:g}s")
    cluster.wait(lambda: product.json("/v1/state")["pools"]["dedicated"]["cpus"] == "", "free CPUs")
    cluster.wait(lambda: not product.container("batch"), "the end of the reclaimed pod")
    assert len(product.pods()) == 1
