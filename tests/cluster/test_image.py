"""The image of the DaemonSet has no simulated node."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.product import NAME, NAMESPACE, Product
from tests.rig import RigError

_FIND = "from importlib.util import find_spec as f; print(f('nri_coloc.hooks') is None, f('nri_coloc.sim') is None)"


def test_image_has_no_simulated_node(cluster: Cluster, product: Product):
    assert inside(cluster, "python", "-c", _FIND) == "False True"


def test_demo_in_the_image_says_why_not(cluster: Cluster, product: Product):
    with pytest.raises(RigError, match="the demo is not part of this image") as refused:
        inside(cluster, "nri-coloc", "demo")
    assert "Traceback" not in str(refused.value)


def inside(cluster: Cluster, *command: str) -> str:
    """Run a command in the daemon's container and return its output."""
    return cluster.kubectl("exec", f"--namespace={NAMESPACE}", f"daemonset/{NAME}", "--", *command).strip()
