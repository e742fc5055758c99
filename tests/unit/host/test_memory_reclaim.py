"""host.memory_reclaim: the ways of a kernel, what a pod holds, and the texts that are written."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, files
from nri_coloc.host.memory_reclaim import NAME, MemoryReclaim, Ways
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest

MIB = 1 << 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=2) as found:
        yield found


def reclaim(node: Node) -> MemoryReclaim:
    root = str(node.host_root)
    return MemoryReclaim(cgroup_layout.detect(root), root)


def pod(node: Node) -> str:
    """Run a pod with 3 MiB of anonymous memory and 1 MiB of page cache; return its cgroup."""
    sandbox = node.run_pod(PodRequest("batch"))
    node.set_memory(
        node.run_container(sandbox, ContainerRequest("app")), Held(anon=3 * MIB, inactive_file=MIB)
    )
    return node.runtime.pods[sandbox].cgroup


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the kernel answer each write with an error."""

    def write(path: str, text: str) -> bool:
        error = KernelInterfaceError(path, f"write {text!r} to", errno.errorcode[number])
        raise error from OSError(number, "refused")

    monkeypatch.setattr(files, "write", write)


def test_a_new_kernel_takes_page_cache_alone(node: Node):
    assert reclaim(node).ways(pod(node)) == Ways(reclaims=True, only_cache=True)


def test_an_older_kernel_takes_any_memory(node: Node, monkeypatch: pytest.MonkeyPatch):
    path = pod(node)
    refuse(monkeypatch, errno.EINVAL)
    assert reclaim(node).ways(path) == Ways(reclaims=True)


def test_an_old_kernel_takes_nothing(node: Node):
    path = pod(node)
    (node.tree.folder(NAME, path) / NAME).unlink()
    assert reclaim(node).ways(path) == Ways()


def test_a_probe_without_memory_is_repeated(node: Node, monkeypatch: pytest.MonkeyPatch):
    path = pod(node)
    refuse(monkeypatch, errno.ENOMEM)
    assert reclaim(node).ways(path) is None


def test_a_read_only_tree_takes_nothing(node: Node, monkeypatch: pytest.MonkeyPatch):
    path = pod(node)
    refuse(monkeypatch, errno.EROFS)
    assert reclaim(node).ways(path) == Ways()


def test_a_pod_that_is_gone_shows_nothing(node: Node):
    assert reclaim(node).ways("kubepods/gone") is None
    assert reclaim(node).held("kubepods/gone", 0.0) is None


def test_cgroup_v1_takes_nothing(tmp_path: Path):
    with Node(tmp_path / "node", "8cpu", cgroup=1) as node:
        assert reclaim(node).ways(pod(node)) == Ways()


def test_the_amount_is_written(node: Node):
    path = pod(node)
    assert reclaim(node).reclaim(path, 5 * MIB, only_cache=False)
    assert (node.tree.read(path, NAME) or "").split() == [str(5 * MIB)]
    assert reclaim(node).reclaim(path, 5 * MIB, only_cache=True)
    assert (node.tree.read(path, NAME) or "").split() == [str(5 * MIB), "swappiness=0"]


def test_less_than_the_amount_is_no_refusal(node: Node, monkeypatch: pytest.MonkeyPatch):
    path = pod(node)
    refuse(monkeypatch, errno.EAGAIN)
    assert not reclaim(node).reclaim(path, MIB, only_cache=False)
    refuse(monkeypatch, errno.EACCES)
    with pytest.raises(KernelInterfaceError, match="EACCES"):
        reclaim(node).reclaim(path, MIB, only_cache=False)


def test_memory_protection_and_stall_are_read(node: Node):
    path = pod(node)
    node.tree.write(path, "memory.low", str(2 * MIB))
    node.tree.write(path, "memory.pressure", "some avg10=2.50 avg60=0.00 avg300=0.00 total=7\nfull total=0")
    found = reclaim(node).held(path, 0.0)
    assert found is not None
    assert (found.memory.usage, found.memory.file) == (4 * MIB, MIB)
    assert (found.kept, found.stall) == (2 * MIB, 0.025)


@pytest.mark.parametrize("text", ["max", "", "a lot"])
def test_an_unreadable_protection_keeps_everything(node: Node, text: str):
    path = pod(node)
    node.tree.write(path, "memory.min", text)
    found = reclaim(node).held(path, 0.0)
    assert found is not None
    assert found.kept > 1 << 60


def test_free_swap_is_read(node: Node):
    assert reclaim(node).swap_free() == 0
    meminfo = node.host_root / "proc/meminfo"
    meminfo.write_text(meminfo.read_text() + "SwapFree:   4 kB\n")
    assert reclaim(node).swap_free() == 4096
