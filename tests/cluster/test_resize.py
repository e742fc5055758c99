"""In-place resize by the real kubelet: it converges for each class, and the placement follows."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups

MEMORY = "64Mi"


def sized(cpu: str, memory: str = MEMORY, **fields: Any) -> dict[str, Any]:
    """Return a container whose limits are its requests."""
    amounts = {"cpu": cpu, "memory": memory}
    return container(requests=amounts, limits=amounts, **fields)


SIZES = [
    ("dedicated", "500m", "1"),
    ("dedicated", "1", "500m"),
    ("shared", "500m", "800m"),
    ("shared", "800m", "500m"),
    ("reclaimed", "500m", "800m"),
    ("reclaimed", "800m", "500m"),
]


@pytest.mark.parametrize(("qos", "before", "after"), SIZES)
def test_kubelet_converges(cluster: Cluster, product: Product, pods: Pods, qos: str, before: str, after: str):
    pods.run(pod("web", sized(before), qos_class=qos))
    resize(cluster, "web", sized(after))
    cluster.wait(lambda: actual_cpu(pods, "web") == after, f"a resize to {after}")


def test_container_below_one_cpu_returns_its_own(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", sized("1"), qos_class="dedicated"))
    product.owner("db")
    resize(cluster, "db", sized("500m"))
    cluster.wait(lambda: product.container("db").get("exclusive") is False, "the CPU's return")
    pods.settle(lambda: pods.cpus("db") == cgroups.online(), "the container on all CPUs")


def test_memory_limit_follows_a_resize(cluster: Cluster, product: Product, pods: Pods):
    half = {"memory-limit": "50%"}
    pods.run(pod("web", sized("100m", "64Mi"), qos_class="shared", annotations=half))
    resize(cluster, "web", sized("100m", "128Mi"))
    pods.settle(lambda: pods.memory_limit("web") == 64 << 20, "half of the new limit")


def test_resize_that_restarts_places_the_new_container(cluster: Cluster, product: Product, pods: Pods):
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    pods.run(pod("web", sized("100m", "64Mi", resizePolicy=policy), qos_class="shared"))
    first = pods.container_id("web")
    resize(cluster, "web", sized("100m", "96Mi"))
    cluster.wait(lambda: pods.is_running("web") and pods.container_id("web") != first, "a new container")
    cluster.wait(
        lambda: product.container("web").get("id") == pods.container_id("web"), "the new one's placement"
    )


def resize(cluster: Cluster, name: str, wanted: Mapping[str, Any]) -> None:
    patch = {"spec": {"containers": [{"name": "app", "resources": wanted["resources"]}]}}
    cluster.kubectl("patch", "pod", name, "--subresource=resize", f"--patch={json.dumps(patch)}")


def actual_cpu(pods: Pods, name: str) -> str:
    statuses = pods.status(name)["containerStatuses"]
    return str(statuses[0].get("resources", {}).get("requests", {}).get("cpu", ""))
