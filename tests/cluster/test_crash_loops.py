"""Containers that end again and again: each start is placed, no CPU is lost."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods

NEWEST_IN_A_TIER = True

ENDS = ("/bin/sh", "-c", "exit 1")
REQUESTS = {"dedicated": {"cpu": "1"}, "shared": {"cpu": "100m"}, "reclaimed": {}, "system": {}}


@pytest.mark.parametrize("qos", sorted(REQUESTS))
def test_crash_loop_is_placed_at_each_start(cluster: Cluster, product: Product, pods: Pods, qos: str):
    namespace = "kube-system" if qos == "system" else "default"
    crashing = container(requests=REQUESTS[qos], command=ENDS)
    pods.create(pod(f"crash-{qos}", crashing, qos_class=qos, namespace=namespace))
    cluster.wait(lambda: len(_admissions(product, namespace, f"crash-{qos}")) >= 2, "two admissions")
    assert {record["class"] for record in _admissions(product, namespace, f"crash-{qos}")} == {qos}


def test_crash_loop_keeps_no_cpu(cluster: Cluster, product: Product, pods: Pods):
    pods.create(pod("crash", container(requests={"cpu": "1"}, command=ENDS), qos_class="dedicated"))
    cluster.wait(lambda: len(_admissions(product, "default", "crash")) >= 2, "two admissions")
    pods.remove_all()
    cluster.wait(lambda: product.json("/v1/state")["pools"]["dedicated"]["cpus"] == "", "free CPUs")


def _admissions(product: Product, namespace: str, name: str) -> list[dict[str, object]]:
    return product.audit(f"{namespace}/{name}", "container.admit")
