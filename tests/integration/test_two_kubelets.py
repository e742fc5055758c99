"""Two kubelets on one host: only a pod's own path shows which kubelet's pods come to this daemon."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import assert_unhurt, daemon_of, dedicated, file, reclaimed, served, shared
from tests.rig.waiting import becomes, wait_until

WEIGHTS = {1: "blkio.bfq.weight", 2: "io.weight"}
BOUNDS = {1: "memory.limit_in_bytes", 2: "memory.max"}
MIB = 1 << 20


def weight(node: Node, place: str) -> str:
    """Return the I/O weight of a pod or container."""
    return (file(node, place, WEIGHTS[node.tree.version]) or "").rpartition(" ")[2]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """Yield a node beside the cgroups of another kubelet, first in the tree: other CPUs, limit and files."""
    with Node(tmp_path, cgroup=request.param, cgroup_root="kubelet") as node:
        tree = node.tree
        for path in ("kubepods", "kubepods/burstable", "kubepods/besteffort"):
            tree.make(path)
            (tree.folder(WEIGHTS[tree.version], path) / WEIGHTS[tree.version]).unlink()
        tree.write("kubepods", BOUNDS[tree.version], str(512 * MIB))
        tree.write("kubepods", "cpuset.cpus", "7")
        tree.write(node.kubepods, BOUNDS[tree.version], str(4096 * MIB))
        # systemd hands no I/O controller down to its own slice
        (tree.folder(WEIGHTS[tree.version], "system.slice") / WEIGHTS[tree.version]).unlink()
        yield node


def test_pods_from_before_the_daemon_get_weights(node):
    batch, web = reclaimed(node), dedicated(node, "web", 1000)
    with daemon_of(node, config="reclaim: {enabled: true}\n") as daemon:
        served(daemon)
        for place in (node.pod("shop/batch"), batch):
            becomes(partial(weight, node, place), "10")
        becomes(lambda: node.cpus(web).bit_count(), 1)
        assert daemon.state()["node"]["pod_cgroups"] == ["kubelet/kubepods"]
        assert_unhurt(daemon)


def test_nothing_is_assumed_before_first_pod(node):
    with daemon_of(node, config="reclaim: {enabled: true}\n") as daemon:
        served(daemon)
        said = "2 cgroups may be the cgroup of all pods (/kubepods, /kubelet/kubepods)"
        assert daemon.check("cgroups")["detail"].startswith(said)
        assert "pod_cgroups" not in daemon.state()["node"]
        assert daemon._json("/v1/capacity")["memory_bytes"] == 0
        web = shared(node, "web", annotations={"coloc.nri.io/io-weight": "50"})
        becomes(lambda: weight(node, web), "50")
        assert daemon.check("cgroups") == {"ok": True, "detail": ""}

        def offered() -> int:
            return int(daemon._json("/v1/capacity")["memory_bytes"])

        wait_until(lambda: offered() > 1024 * MIB, 60, "an offer of memory")
        assert offered() < 4096 * MIB
        assert_unhurt(daemon)


def test_pods_of_both_kubelets_have_common_cpus(node):
    with daemon_of(node) as daemon:
        served(daemon)
        first = shared(node, "first")
        node.tree.write(node.kubepods, "cpuset.cpus", "0-3")
        becomes(lambda: node.cpus(first), 0b1111)
        node.tree.write("kubepods", "cpuset.cpus", "2-7")
        for path in ("kubepods/burstable", "kubepods/besteffort"):
            node.tree.write(path, "cpuset.cpus", "2-7")
        node.replace_kubelet("")
        second = shared(node, "second")
        becomes(lambda: (node.cpus(first), node.cpus(second)), (0b1100, 0b1100))
        assert daemon.state()["node"]["pod_cgroups"] == ["kubelet/kubepods", "kubepods"]
        node.remove_pod(node.pod("shop/first"))
        becomes(lambda: node.cpus(second), 0b1111_1100)
        assert_unhurt(daemon)
