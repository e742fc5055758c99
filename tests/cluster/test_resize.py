"""In-place resize by the real kubelet: it converges for each class, and the placement follows."""

import json
from collections.abc import Mapping
from functools import partial
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


NAMESPACES = {"dedicated": "default", "shared": "default", "reclaimed": "default", "system": "kube-system"}
REQUESTS = {"dedicated": "1", **dict.fromkeys(("shared", "reclaimed", "system"), "100m")}
GROWN = {"dedicated": "1", **dict.fromkeys(("shared", "reclaimed", "system"), "800m")}
UP_AND_DOWN = [(qos, *sizes) for qos, size in GROWN.items() for sizes in (("500m", size), (size, "500m"))]


@pytest.mark.parametrize(("qos", "before", "after"), UP_AND_DOWN)
def test_kubelet_converges(cluster: Cluster, product: Product, pods: Pods, qos: str, before: str, after: str):
    namespace = NAMESPACES[qos]
    pods.run(pod("web", sized(before), qos_class=qos, namespace=namespace))
    resize(cluster, "web", sized(after), namespace)
    cluster.wait(lambda: actual_cpu(pods, "web", namespace) == after, f"a resize to {after}")


def test_container_of_one_cpu_gets_its_own(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", sized("500m"), qos_class="dedicated"))
    resize(cluster, "db", sized("1"))
    own = cgroups.members(product.owner("db")["cpus"])
    pods.settle(lambda: pods.cpus("db") == own, "the container on its CPU")


def test_container_below_one_cpu_returns_its_own(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", sized("1"), qos_class="dedicated"))
    product.owner("db")
    resize(cluster, "db", sized("500m"))
    cluster.wait(lambda: product.container("db").get("exclusive") is False, "the CPU's return")
    pods.settle(lambda: pods.cpus("db") == cgroups.online(), "the container on all CPUs")


def test_memory_limit_follows_a_resize(cluster: Cluster, product: Product, pods: Pods):
    half = {"memory-limit": "50%"}
    pods.run(*(one_of(qos, sized(cpu, "64Mi"), annotations=half) for qos, cpu in REQUESTS.items()))
    for qos, namespace in NAMESPACES.items():
        resize(cluster, qos, sized(REQUESTS[qos], "128Mi"), namespace)
        pods.settle(partial(_is_limited, pods, qos, namespace), f"half of the new limit of {qos}")


def test_resize_that_restarts_places_the_new_container(cluster: Cluster, product: Product, pods: Pods):
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    pods.run(*(one_of(qos, sized(cpu, "64Mi", resizePolicy=policy)) for qos, cpu in REQUESTS.items()))
    for qos, namespace in NAMESPACES.items():
        app = (qos, "app", namespace)
        first = pods.container_id(*app)
        resize(cluster, qos, sized(REQUESTS[qos], "96Mi", resizePolicy=policy), namespace)
        is_new = partial(_is_new, product, pods, app, first)
        cluster.wait(is_new, f"the placement of a new container of {qos}")
        assert product.container(*app)["class"] == qos


def one_of(qos: str, each: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a pod of a class; its name is the class."""
    return pod(qos, each, qos_class=qos, namespace=NAMESPACES[qos], **fields)


def _is_limited(pods: Pods, name: str, namespace: str) -> bool:
    return pods.memory_limit(name, namespace=namespace) == 64 << 20


def _is_new(product: Product, pods: Pods, app: tuple[str, str, str], first: str) -> bool:
    """Return whether another container than the first one runs and is placed."""
    name, _, namespace = app
    found = pods.is_running(name, namespace) and pods.container_id(*app)
    return found not in (False, first) and product.container(*app).get("id") == found


def resize(cluster: Cluster, name: str, wanted: Mapping[str, Any], namespace: str = "default") -> None:
    patch = {"spec": {"containers": [{"name": "app", "resources": wanted["resources"]}]}}
    order = ["patch", "pod", name, f"--namespace={namespace}", "--subresource=resize"]
    cluster.kubectl(*order, f"--patch={json.dumps(patch)}")


def actual_cpu(pods: Pods, name: str, namespace: str = "default") -> str:
    statuses = pods.status(name, namespace)["containerStatuses"]
    return str(statuses[0].get("resources", {}).get("requests", {}).get("cpu", ""))
