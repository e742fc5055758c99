"""Assignments outlive the plugin and containerd."""

import pytest

from tests.vm.node import SYNCHRONISED_SECONDS, Container, Node, cpus, until


@pytest.fixture(scope="module")
def web(node: Node) -> Container:
    return node.pod("web", cpus=2, qos_class="dedicated", numa="single")


@pytest.fixture(scope="module")
def batch(node: Node) -> Container:
    return node.pod("batch", kube_qos="besteffort")


def values(*containers: Container) -> list[str]:
    files = ("cpuset.cpus", "cpuset.mems", "cpu.weight", "io.weight")
    return [read(file) for c in containers for read in (c.cgroup, c.pod_cgroup) for file in files]


def test_a_plugin_that_was_killed_comes_back_to_what_it_decided(node: Node, web: Container, batch: Container):
    until(lambda: batch.cpus == cpus("0-7") - web.cpus, "the offline pod on the other CPUs")
    before = values(web, batch)
    node.plugin.kill()
    assert values(web, batch) == before
    node.plugin.start()
    node.plugin.wait_ready(SYNCHRONISED_SECONDS)
    assert values(web, batch) == before
    assert node.plugin.audit("drift.repair") == []


def test_containerd_comes_back_and_nobody_moves(node: Node, web: Container, batch: Container):
    before = values(web, batch)
    node.containerd.kill()
    until(lambda: not node.plugin.check("connected").get("ok"), "the plugin to notice")
    node.containerd.start()
    node.plugin.wait_ready(SYNCHRONISED_SECONDS)
    assert values(web, batch) == before
    second = node.pod("second", cpus=1, qos_class="dedicated")
    assert second.cpus.isdisjoint(web.cpus)
