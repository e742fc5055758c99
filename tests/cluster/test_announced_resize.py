"""A kubelet that announces a resize before it writes (Kubernetes 1.37): its writes to a reclaimed pod are no drift."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pods import pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.cluster.test_resize import actual_cpu, resize, sized
from tests.rig import cgroups

ONLY_NEWEST = True
LEAST = 2
"""The CPU shares of a reclaimed pod."""


@pytest.mark.parametrize(("before", "after"), [("500m", "800m"), ("800m", "500m")])
def test_resize_of_a_reclaimed_pod_is_no_drift(
    cluster: Cluster, product: Product, pods: Pods, before: str, after: str
):
    pods.run(pod("resized", sized(before), qos_class="reclaimed"))
    resize(cluster, "resized", sized(after))
    cluster.wait(lambda: actual_cpu(pods, "resized") == after, f"a resize to {after}")
    pods.settle(lambda: cgroups.shares(pods.pod_cgroup("resized")) == LEAST, "the smallest weight")
    assert product.audit("default/resized", "drift.repair") == []
