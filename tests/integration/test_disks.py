"""The daemon as its own process, on a node whose kubelet writes to a tiny disk that fills and is emptied again."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, reclaimed, served
from tests.rig import disk
from tests.rig.daemon import Daemon
from tests.rig.records import sentence_of
from tests.rig.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
SOON_S = 15


class Rig(NamedTuple):
    node: Node
    daemon: Daemon

    def reason(self) -> str:
        return str(self.daemon.capacity()["reason"])


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    with Node(tmp_path, cgroup=2) as node, disk.tiny(node.host_root / "var/lib/kubelet"):
        (node.host_root / "var/lib/kubelet/pods").mkdir()
        with daemon_of(node, config="reclaim: {enabled: true}\npressure: {disk: 1}\n") as daemon:
            yield Rig(node, served(daemon))


def test_a_full_disk_withdraws_the_offer(rig):
    reclaimed(rig.node, "batch")
    kubelets = rig.node.host_root / "var/lib/kubelet"
    disk.fill(kubelets)
    wait_until(lambda: rig.reason() == "disk_short", SOON_S, "the node to be closed")
    record = rig.daemon.audited("pressure.disk", reason="disk_space")
    assert sentence_of(record).startswith(
        "no new reclaimed pods: the file system of the kubelet is short of space"
    )
    assert rig.daemon.metric("nri_coloc_disk_short") == 1
    assert [one["pod"] for one in rig.daemon.state()["containers"]] == ["batch"]
    disk.free(kubelets)
    wait_until(lambda: rig.reason() != "disk_short", SOON_S, "the node to be open")
    assert rig.daemon.audited("pressure.disk", reason="calm")["inputs"]["file_system"] == "node"
