"""After a reboot of the machine, entries of the former boot are no original values."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, dedicated, journal, reclaimed, reload, restore_of, served
from tests.rig.waiting import wait_until

ONLINE = "classes: {rules: [{namespace: shop, class: shared}]}\n"


def boot(folder: Path, machine: str, version: int) -> Node:
    """Start a machine whose state folder stays and whose cgroups are new."""
    shutil.rmtree(folder / "host", ignore_errors=True)
    return Node(folder, machine, cgroup=version)


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
def test_after_the_node_grew_leaving_pods_get_new_cpus(tmp_path, version, capfd):
    state = tmp_path / "state"
    with boot(tmp_path, "2cpu", version) as node, closing(daemon_of(node, state_dir=state)) as daemon:
        batch = reclaimed(node)
        cgroup = node.runtime.pods[node.pod("shop/batch")].cgroup
        daemon.start()
        served(daemon)
        wait_until(lambda: journal(daemon), 20, "the pod in the journal")
        pretend_absolute(daemon.state_dir / "restore.jsonl", f"{cgroup}/cpuset.cpus", "0-1")
        daemon.kill()
    with boot(tmp_path, "8cpu", version) as node, closing(daemon_of(node, state_dir=state)) as daemon:
        assert reclaimed(node) == batch
        assert node.runtime.pods[node.pod("shop/batch")].cgroup == cgroup
        daemon.start()
        served(daemon)
        dropped = daemon.audited("state.folder", reason="taken_over")["because"]
        assert dropped.startswith("restore journal of another boot dropped")
        dedicated(node)
        wait_until(lambda: node.tree.effective(cgroup) == 0xFC, 20, "the pod in the reclaim pool")
        reload(daemon, ONLINE)
        wait_until(lambda: node.tree.effective(cgroup) == 0xFF, 20, "all CPUs for the pod")
        daemon.kill()
        assert restore_of(node, daemon, capfd)().code == 0
        assert node.tree.effective(cgroup) == 0xFF


def test_restore_after_a_boot_writes_nothing_of_before(tmp_path, capfd):
    state = tmp_path / "state"
    with boot(tmp_path, "8cpu", 2) as node, closing(daemon_of(node, state_dir=state)) as daemon:
        reclaimed(node)
        daemon.start()
        served(daemon)
        wait_until(lambda: journal(daemon), 20, "the pod in the journal")
        daemon.kill()
    with boot(tmp_path, "8cpu", 2) as node, closing(daemon_of(node, state_dir=state)) as daemon:
        reclaimed(node)
        cgroup = node.runtime.pods[node.pod("shop/batch")].cgroup
        node.tree.write(cgroup, "cpu.weight", "77")
        done = restore_of(node, daemon, capfd)()
        assert (done.code, done.out.splitlines()[0]) == (0, "0 restored, 0 gone, 0 refused")
        assert "from before the last boot" in done.err
        assert node.tree.read(cgroup, "cpu.weight") == "77"


def pretend_absolute(path: Path, file: str, cpus: str) -> None:
    """Write a set into the journal in the form of earlier versions on cgroup v1."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if str(line.get("file", "")).endswith(file):
            line["was"] = cpus
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
