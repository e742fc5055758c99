"""The daemon beside a kubelet whose cgroup root is not "/", as kind sets it (`--cgroup-root=/kubelet`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    dedicated,
    file,
    pod,
    reclaimed,
    served,
    shared,
)
from tests.rig.waiting import becomes, wait_until

WEIGHTS = {1: "blkio.bfq.weight", 2: "io.weight"}
BOUNDS = {1: "memory.limit_in_bytes", 2: "memory.max"}
MIB = 1 << 20


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=request.param, cgroup_root="kubelet") as node:
        # systemd hands no I/O controller down to its own slice
        (node.tree.folder(WEIGHTS[request.param], "system.slice") / WEIGHTS[request.param]).unlink()
        yield node


def test_io_weight_is_written_below_cgroup_root(node):
    with daemon_of(node) as daemon:
        served(daemon)
        web = shared(node, "web", annotations={"coloc.nri.io/io-weight": "50"})
        name = WEIGHTS[node.tree.version]
        wait_until(lambda: (file(node, web, name) or "").endswith("50"), 20, "the container's I/O weight")
        wait_until(
            lambda: (file(node, node.pod("shop/web"), name) or "").endswith("50"), 20, "the pod's I/O weight"
        )
        assert_unhurt(daemon)


def test_reclaimed_pod_is_found_below_cgroup_root(node):
    with daemon_of(node, config="reclaim: {enabled: true}\n") as daemon:
        served(daemon)
        batch = reclaimed(node)
        name = WEIGHTS[node.tree.version]
        wait_until(lambda: (file(node, node.pod("shop/batch"), name) or "").endswith("10"), 20, "its weight")
        assert daemon.container(batch)["class"] == "reclaimed"
        assert_unhurt(daemon)


def test_kubepods_limit_bounds_offer_before_first_pod(node):
    node.tree.write(node.kubepods, BOUNDS[node.tree.version], str(1024 * MIB))
    with daemon_of(node, config="reclaim: {enabled: true}\n") as daemon:
        served(daemon)

        def offered() -> int:
            return int(daemon._json("/v1/capacity")["memory_bytes"])

        wait_until(lambda: offered() > 0, 40, "an offer of memory")
        assert offered() <= 600 * MIB


def test_class_is_read_below_kubepods(tmp_path):
    with Node(tmp_path, cgroup_root="besteffort-tests") as node, daemon_of(node) as daemon:
        served(daemon)
        web = node.runtime.pods[pod(node, "web")]
        assert web.cgroup.startswith("besteffort-tests/kubepods/burstable/")
        assert shared(node) in {one["id"] for one in daemon.state()["containers"] if one["class"] == "shared"}


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_pods_of_a_replaced_kubelet_are_placed(tmp_path, cgroup):
    with Node(tmp_path, cgroup=cgroup) as node, daemon_of(node) as daemon:
        served(daemon)
        first = dedicated(node, "first", 1000)
        node.replace_kubelet("kubelet")
        second, batch = dedicated(node, "second", 1000), reclaimed(node)
        assert [node.cpus(first), node.cpus(second)] == [1 << 0, 1 << 1]
        becomes(lambda: node.cpus(batch) & 3, 0)
        name, ours = node.tree.weight(2)
        wait_until(lambda: file(node, node.runtime.containers[batch].pod.id, name) == ours, 20, "its weight")
        assert_unhurt(daemon)
