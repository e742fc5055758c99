"""Sixty pods at once: each is placed and follows containers that start and end beside it, and no plugin is dropped."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups
from tests.rig.bystander import Bystander

NEWEST_IN_A_TIER = True

COUNT: Final = 60
LIVES: Final = 4
"""Owners of a CPU that come and go; each moves every shared pod twice."""

FAULTS: Final = ("drift.repair", "push.failed", "hook.failed")


@pytest.fixture(scope="module")
def crowd(shared_cluster: Cluster, shared_product: Product) -> Iterator[dict[str, str]]:
    """Yield the names of sixty running pods, each with its class."""
    names = {f"pod-{number}": "shared" if number % 2 else "reclaimed" for number in range(COUNT)}
    requests = {"shared": {"cpu": "10m"}, "reclaimed": {}}
    found = Pods(shared_cluster)
    try:
        found.run(*(pod(name, container(requests=requests[qos])) for name, qos in names.items()))
        yield names
    finally:
        found.remove_all()


def test_sixty_pods_at_once_are_placed(cluster: Cluster, product: Product, crowd: dict[str, str]):
    def placed() -> dict[str, str]:
        rows = product.json("/v1/state")["containers"]
        return {row["pod"]: row["class"] for row in rows if row["pod"] in crowd}

    cluster.becomes(placed, crowd, "the class of each pod")


def test_pushes_beside_lives_drop_no_plugin(
    cluster: Cluster, product: Product, pods: Pods, crowd: dict[str, str]
):
    before = max(record["seq"] for record in product.audit())
    with Bystander(cluster.node.nri_socket, "90") as other:
        for number in range(LIVES):
            pods.run(pod(f"db-{number}", container(requests=ONE_CPU), qos_class="dedicated"))
            product.owner(f"db-{number}")
            pods.remove_all()
        pods.settle(lambda: shared_cpus(product) == {cgroups.online()}, "CPUs that were returned")
        assert not other.dropped.is_set()
    later = [record for record in product.audit() if record["seq"] > before]
    assert [record for record in later if record["event"] in FAULTS] == []


def shared_cpus(product: Product) -> set[frozenset[int]]:
    """Return the sets of CPUs of shared containers, as the daemon read them back."""
    rows = product.json("/v1/state")["containers"]
    return {cgroups.members(row["actual_cpus"]) for row in rows if row["class"] == "shared"}
