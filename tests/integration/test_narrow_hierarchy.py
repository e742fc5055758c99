"""The daemon on a node whose pods may not have all CPUs: kubepods, or a cgroup above it, lacks some."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.cli.main import main
from nri_coloc.core import cpuset
from nri_coloc.sim.node import Node
from tests.integration.harness import assert_unhurt, daemon_of, dedicated, reclaimed, served, shared
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until

LENDING = "reclaim: {enabled: true}\n"
UPPER = cpuset.parse("4-7")
NEAR = {"coloc.nri.io/numa": "single"}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=request.param, cgroup_root="kubelet") as node:
        yield node


def share(daemon: Daemon) -> str:
    return str(daemon.state()["pools"]["share"]["cpus"])


def test_online_pods_start_within_kubepods(node):
    node.tree.allow(node.kubepods, UPPER)
    with daemon_of(node) as daemon:
        served(daemon)
        assert node.cpus(shared(node)) == UPPER
        assert share(daemon) == "4-7"
        assert daemon.state()["node"]["cpus"] == "0-7"
        assert daemon.state()["node"]["kubepods"] == "4-7"
        assert_unhurt(daemon)


def test_dedicated_and_reclaimed_pods_share_no_cpus(node):
    node.tree.allow("kubelet", UPPER)
    with daemon_of(node, config=LENDING) as daemon:
        served(daemon)
        first, second, batch = (
            dedicated(node, "first", 1000),
            dedicated(node, "second", 1000),
            reclaimed(node),
        )
        owned = [node.cpus(first), node.cpus(second)]
        assert owned == [1 << 4, 1 << 5]
        becomes(lambda: node.cpus(batch) & (owned[0] | owned[1]), 0)
        assert_unhurt(daemon)


def test_changes_of_the_hierarchy_are_followed(node):
    with daemon_of(node) as daemon:
        served(daemon)
        web, neighbour = dedicated(node), shared(node)
        assert node.cpus(web) == cpuset.parse("0-1")
        node.tree.allow("kubelet", UPPER)
        becomes(lambda: share(daemon), "6-7")
        becomes(lambda: (node.cpus(web), node.cpus(neighbour)), (cpuset.parse("4-5"), cpuset.parse("6-7")))
        told = daemon.audited("topology.change", reason="cpus_changed")["because"]
        assert "pods may have CPUs 4-7 of 0-7" in told
        node.tree.allow("kubelet", cpuset.parse("0-7"))
        for path in (node.kubepods, f"{node.kubepods}/burstable") if node.tree.version == 1 else ():
            node.tree.allow(path, cpuset.parse("0-7"))
        becomes(lambda: share(daemon), "0-3,6-7")
        assert_unhurt(daemon)


def test_cpu_that_was_offline_is_avoided_on_v1(tmp_path):
    with Node(tmp_path, cgroup=1) as node, daemon_of(node) as daemon:
        served(daemon)
        node.plug(cpuset.parse("0-6"))
        becomes(lambda: share(daemon), "0-6")
        node.plug(cpuset.parse("0-7"))
        becomes(lambda: daemon.state()["node"]["cpus"], "0-7")
        assert node.cpus(shared(node)) == cpuset.parse("0-6")
        assert "/kubepods/cpuset.cpus" in daemon.check("cgroups")["detail"]


class TestReadiness:
    def test_narrower_kubepods_is_told(self, node, capsys):
        node.tree.allow(node.kubepods, UPPER)
        with daemon_of(node) as daemon:
            served(daemon)
            daemon.wait_ready()
            found = daemon.check("cgroups")
            assert found["ok"] is True
            assert found["detail"].startswith("/kubelet/kubepods/cpuset.cpus has CPUs 4-7 of 0-7")
            main(["doctor", "--host-root", str(node.host_root), "--http", f"127.0.0.1:{daemon._port}"], {})
            assert "warn  cgroups" in capsys.readouterr().out

    def test_partition_of_kubepods_is_no_failure(self, tmp_path):
        """Its CPUs leave the root's effective set, on v2 (decision 87)."""
        with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
            node.tree.allow(node.kubepods, UPPER)
            served(daemon)
            roots = node.host_root / "sys/fs/cgroup/cpuset.cpus.effective"
            roots.unlink()
            roots.write_text("0-3\n")
            daemon.wait_ready()
            assert daemon.check("cgroups")["detail"].startswith("/kubepods/cpuset.cpus has CPUs 4-7 of 0-7")

    def test_kubepods_without_usable_cpus_fails_check(self, tmp_path, capsys):
        with Node(tmp_path, cgroup=1) as node, daemon_of(node) as daemon:
            served(daemon)
            node.tree.allow("kubepods", 0)
            wait_until(lambda: not daemon.check("cgroups")["ok"], 20, "the check to fail")
            assert daemon.check("cgroups")["detail"].startswith("/kubepods/cpuset.cpus has no CPU")
            assert main(["doctor", "--host-root", str(node.host_root)], {}) == 1
            assert "/kubepods/cpuset.cpus" in capsys.readouterr().out


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_memory_nodes_are_bound_within_kubepods(tmp_path, cgroup):
    with Node(tmp_path, cgroup=cgroup) as node:
        for path in ("kubepods", "kubepods/burstable", "kubepods/besteffort"):
            node.tree.write(path, "cpuset.mems", "0")
            node.tree.settle(path)
        with daemon_of(node) as daemon:
            served(daemon)
            first, second = (dedicated(node, name, 3000, **NEAR) for name in ("a", "b"))
            assert node.cpus(second) & cpuset.parse("0-3") == 0
            assert [daemon.container(each)["mems"] for each in (first, second)] == ["0", "0"]
            assert_unhurt(daemon)
