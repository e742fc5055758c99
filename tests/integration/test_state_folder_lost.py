"""The state folder is deleted: `restore` still ends at the kubelet's values, and the daemon makes the folder again."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import (
    ON_V2,
    Done,
    assert_unhurt,
    daemon_of,
    dedicated,
    journal,
    pod,
    reclaimed,
    restore_of,
    served,
    shared,
)
from tests.rig import attributes
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

ALL = 0xFF
OTHERS = 0xFC
"""The CPUs beside a dedicated container of two."""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with attributes.folder(tmp_path) as folder, Node(folder, cgroup=request.param) as node:
        yield node


@pytest.fixture
def daemon(node: Node) -> Iterator[Daemon]:
    """Yield a daemon that is not started yet."""
    with closing(daemon_of(node)) as daemon:
        yield daemon


@pytest.fixture
def restore(node: Node, daemon: Daemon, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return restore_of(node, daemon, capfd)


def settings(node: Node) -> dict[str, object]:
    """Return the values of pods and containers that a daemon changes, by cgroup and file."""
    groups = [*(one.cgroup for one in node.runtime.pods.values())]
    groups += [one.cgroup for one in node.runtime.containers.values()]
    name, _ = node.tree.weight(2)
    found: dict[str, object] = {group: node.tree.effective(group) for group in groups}
    return found | {f"{group}/{name}": (node.tree.read(group, name) or "").strip() for group in groups}


@pytest.fixture
def pinned(node: Node, daemon: Daemon) -> dict[str, object]:
    """Return the settings of a pod of each kind before the first start; then a dedicated container takes CPUs."""
    neighbour, batch = shared(node), reclaimed(node)
    web = pod(node, "web", "dedicated")
    before = settings(node)
    daemon.start()
    served(daemon)
    dedicated(node, "db")
    groups = [node.runtime.containers[k].cgroup for k in (neighbour, batch)]
    wait_until(lambda: {node.tree.effective(g) for g in groups} == {OTHERS}, 20, "both to make room")
    specs = node.runtime.containers
    wait_until(lambda: specs[neighbour].resources.cpu.cpus == "2-7", 20, "the spec to say so")
    assert web
    return before


def test_own_values_are_never_originals(node, daemon, pinned, restore):
    shutil.rmtree(daemon.state_dir)
    daemon.kill()
    daemon.start()
    served(daemon)
    wait_until(lambda: journal(daemon), 20, "a journal of the second process")
    daemon.terminate()
    done = restore()
    assert (done.code, done.err) == (0, "")
    assert pinned.items() <= settings(node).items()


def test_restore_leaves_the_values_of_another_daemon(node, daemon, pinned, restore, tmp_path):
    daemon.kill()
    ours, other = settings(node), tmp_path / "other"
    other.mkdir()
    done = restore("--state-dir", str(other), "--files-only")
    assert (done.code, done.out) == (0, "0 restored, 0 gone, 0 refused\n")
    assert f"belong to daemons with other state folders: {daemon.state_dir} (values=" in done.err
    assert settings(node) == ours
    shutil.rmtree(daemon.state_dir)
    daemon.state_dir.mkdir()
    assert restore().code == 0
    assert pinned.items() <= settings(node).items()


def test_a_folder_that_is_deleted_is_made_again(node, daemon, pinned, restore):
    shutil.rmtree(daemon.state_dir)
    record = daemon.audited("state.folder")
    assert record["because"].startswith("restore journal written again: it was missing (values=")
    wait_until(lambda: daemon.check("state") == {"ok": True, "detail": ""}, 20, "the folder to be well")
    refused = restore()
    assert (refused.code, "stop it first" in refused.err) == (2, True)
    daemon.kill()
    done = restore()
    assert (done.code, done.err) == (0, "")
    assert pinned.items() <= settings(node).items()


@ON_V2
def test_a_folder_that_cannot_be_made_again_is_shown(node, daemon, pinned):
    shutil.rmtree(daemon.state_dir)
    daemon.state_dir.touch()
    wait_until(lambda: not daemon.check("state")["ok"], 20, "the check to fail")
    assert "File exists" in daemon.check("state")["detail"]
    daemon.wait_ready()
    assert daemon.metric("nri_coloc_state_writable") == 0
    assert daemon.metric('nri_coloc_write_failures_total{file="state"}') >= 1
    daemon.audited("write.failed", saying="File exists")
    daemon.state_dir.unlink()
    wait_until(lambda: daemon.check("state")["ok"], 20, "the folder to be well")
    wait_until(lambda: daemon.metric("nri_coloc_state_writable") == 1, 20, "the metric to say so")


@ON_V2
def test_a_journal_of_another_version_costs_no_original(node, daemon, pinned, restore):
    daemon.kill()
    text = '{"journal":3,"boot":"","whole":true}\n{"path":"/x","original":"1"}\n'
    (daemon.state_dir / "restore.jsonl").write_text(text)
    daemon.start()
    served(daemon)
    record = daemon.audited("state.folder", reason="taken_over")
    assert "is of another version than 2, which this program cannot read" in record["because"]
    assert (daemon.state_dir / "restore.jsonl.kept-1").read_text() == text
    daemon.kill()
    assert restore().code == 0
    assert pinned.items() <= settings(node).items()


@ON_V2
def test_restore_says_that_it_cannot_read_another_version(node, daemon, pinned, restore):
    daemon.kill()
    path = daemon.state_dir / "restore.jsonl"
    path.write_text('{"journal":3}\n')
    done = restore()
    assert done.code == 1
    assert "is of another version than 2" in done.err
    assert "Traceback" not in done.err
    assert path.read_text() == '{"journal":3}\n'
    assert pinned.items() <= settings(node).items(), "the cgroups' own marks tell"


@ON_V2
@pytest.mark.parametrize("kind", ["garbage", "folder", "link", "torn"])
def test_a_journal_that_is_none_costs_no_placement(node, daemon, pinned, restore, kind):
    daemon.kill()
    path = daemon.state_dir / "restore.jsonl"
    damage(path, kind)
    daemon.start()
    served(daemon)
    dedicated(node, "other")
    assert_unhurt(daemon)
    daemon.terminate()
    assert restore().code == 0
    assert pinned.items() <= settings(node).items()


def damage(path: Path, kind: str) -> None:
    """Replace a journal by damaged content."""
    if kind == "garbage":
        path.write_bytes(b"\x00\xffhello\n" + path.read_bytes())
    elif kind == "torn":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.unlink()
        path.mkdir() if kind == "folder" else path.symlink_to("/etc/passwd")
