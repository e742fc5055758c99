"""I/O weights act along the whole path, so the container and its pod have them, in every file that exists."""

import pytest

from tests.vm.node import Container, Node, becomes

FILES = ("io.weight", "io.bfq.weight")


@pytest.fixture(scope="module")
def batch(node: Node) -> Container:
    asked = {"namespace": "kube-system", "qos_class": "reclaimed", "io_weight": "300"}
    return node.pod("batch", kube_qos="besteffort", **asked)


def weights(container: Container) -> list[str]:
    """Return the weights of the container and of its pod."""
    return [read(file) for read in (container.cgroup, container.pod_cgroup) for file in FILES]


def test_an_annotated_weight_is_there_at_creation(batch: Container):
    assert weights(batch) == ["default 300", "default 118"] * 2


def test_a_classes_weight_is_changed_on_live_containers(node: Node):
    plain = node.pod("plain", kube_qos="besteffort")
    assert weights(plain) == ["default 10", "default 10"] * 2
    node.plugin.config.write("classes: {reclaimed: {ioWeight: 1000}}\n")
    try:
        becomes(lambda: weights(plain), ["default 1000", "default 181"] * 2)
    finally:
        node.plugin.config.write("")
    becomes(lambda: weights(plain), ["default 10", "default 10"] * 2)


def test_an_annotated_weight_outlives_the_kubelets_update(node: Node, batch: Container):
    batch.update(shares=2)
    assert weights(batch) == ["default 300", "default 118"] * 2
