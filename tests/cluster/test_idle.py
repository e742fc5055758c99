"""Ten idle minutes: nothing is repaired and no container is moved (`make soak-cluster`)."""

import time
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

pytestmark = pytest.mark.tier("soak")

SECONDS: Final = 600
LOOK_EVERY_S: Final = 10
NAMES: Final = ("db", "web", "batch")


def test_idle_node_needs_no_repair(cluster: Cluster, product: Product, pods: Pods):
    pods.run(
        pod("db", container(requests=ONE_CPU), qos_class="dedicated"),
        pod("web", container(requests={"cpu": "100m"})),
        pod("batch"),
    )
    before = {name: pods.container_id(name) for name in NAMES}
    began, end = len(product.audit(event="drift.repair")), time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
        assert len(product.audit(event="drift.repair")) == began
    assert {name: pods.container_id(name) for name in NAMES} == before
