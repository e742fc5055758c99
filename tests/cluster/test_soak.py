"""Ten idle minutes pass without a repair; sixty pods start at their pace (`make soak-cluster`)."""

import statistics
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
COUNT: Final = 60
ROUNDS: Final = 3
SLOWER: Final = 1.15
"""How much slower the median of the rounds with us may be: rounds of one arrangement differ by a tenth."""

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


def test_sixty_pods_start_as_fast_without_us(cluster: Cluster, shared_product: Product, pods: Pods):
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(ROUNDS):
        shared_product.apply()
        ours.append(_seconds(cluster, pods))
        shared_product.remove()
        plain.append(_seconds(cluster, pods))
    shared_product.apply()
    assert statistics.median(ours) <= SLOWER * statistics.median(plain), (ours, plain)


def _seconds(cluster: Cluster, pods: Pods) -> float:
    manifests = [pod(f"pod-{number}", container(requests={"cpu": "10m"})) for number in range(COUNT)]
    began = time.monotonic()
    pods.run(*manifests)
    seconds = time.monotonic() - began
    pods.remove_all()
    return seconds
