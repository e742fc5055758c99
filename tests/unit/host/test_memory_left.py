"""host.memory_left: available memory of the machine, of a memory node, and below a limit, on the simulated node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core.readings import MemoryLeft
from nri_coloc.host import cgroup_layout
from nri_coloc.host.memory_left import WATERMARK_S, MemoryLeftReader
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest

GIB, MIB, PAGE = 1 << 30, 1 << 20, 4096


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "4node", cgroup=request.param) as found:
        yield found


def reader(node: Node) -> MemoryLeftReader:
    root = str(node.host_root)
    return MemoryLeftReader(cgroup_layout.detect(root), root)


def held(node: Node, memory: Held) -> str:
    """Let a container hold memory; return its cgroup."""
    app = node.run_container(node.run_pod(PodRequest("web")), ContainerRequest("app"))
    node.set_memory(app, memory)
    return node.runtime.containers[app].cgroup


def test_half_of_the_active_cache_is_available(node: Node):
    found = reader(node)
    before = found.machine(0.0)
    held(node, Held(anon=400 * MIB, active_file=200 * MIB, inactive_file=300 * MIB))
    after = found.machine(1.0)
    assert before is not None
    assert after is not None
    assert before.available - after.available == 500 * MIB


def test_watermarks_are_read_once_a_minute(node: Node):
    found = reader(node)
    assert found.machine(0.0) is not None
    (node.host_root / "proc/zoneinfo").unlink()
    assert found.machine(WATERMARK_S - 1) is not None
    assert found.machine(WATERMARK_S) is None


def test_an_unreadable_machine_is_unknown(node: Node):
    (node.host_root / "proc/meminfo").write_text("MemTotal: many kB\n")
    assert reader(node).machine(0.0) is None


def test_a_memory_node_has_part_of_the_watermarks(node: Node):
    found = reader(node)
    machine = found.machine(0.0)
    assert machine is not None
    part = found.numa_node(1, 0.0, machine.total)
    assert part is not None
    own = part.total - part.available
    assert own == pytest.approx((machine.total - machine.available) * part.total / machine.total, rel=0.01)
    assert found.numa_node(1, 0.0, 0) is None
    assert found.numa_node(9, 0.0, machine.total) is None


def test_below_a_limit(node: Node):
    path = held(node, Held(anon=GIB, active_file=GIB, inactive_file=GIB))
    found = reader(node)
    assert found.below_limit(path, 0.0) is None
    name = "memory.max" if node.tree.version == 2 else "memory.limit_in_bytes"
    node.tree.write(path, name, str(4 * GIB))
    assert found.below_limit(path, 0.0) == MemoryLeft(4 * GIB, GIB + GIB + GIB // 2)


def test_locked_page_cache_is_not_available_below_a_limit(node: Node):
    path = held(node, Held(locked=GIB))
    node.tree.write(path, "memory.max" if node.tree.version == 2 else "memory.limit_in_bytes", str(4 * GIB))
    assert reader(node).below_limit(path, 0.0) == MemoryLeft(4 * GIB, 3 * GIB)


def test_anonymous_memory_of_a_node(node: Node):
    path = held(node, Held(anon=GIB))
    assert reader(node).unreclaimable_on(path, 1) == 0
    text = {
        1: f"total=9 N0=9 N1=9\nanon=1 N0=1 N1=1\nhierarchical_anon=70 N0=8 N1={7 * GIB // PAGE}\n",
        2: f"anon N0=4096 N1={7 * GIB}\nfile N0=1 N1=1\nanon_thp N0=1 N1=1\n",
    }[node.tree.version]
    (node.tree.folder("memory.numa_stat", path) / "memory.numa_stat").write_text(text)
    assert reader(node).unreclaimable_on(path, 1) == 7 * GIB
    assert reader(node).unreclaimable_on(path, 2) == 0


def test_tmpfs_counts_on_a_memory_node(tmp_path: Path):
    """On cgroup v1 it is part of the anonymous memory."""
    with Node(tmp_path / "node", "4node", cgroup=2) as node:
        path = held(node, Held(anon=GIB))
        text = "anon N0=1 N1=1\nfile N0=9 N1=9\nshmem N0=2 N1=2\nslab_reclaimable N1=9\nslab_unreclaimable N1=4\n"
        (node.tree.folder("memory.numa_stat", path) / "memory.numa_stat").write_text(text)
        assert reader(node).unreclaimable_on(path, 1) == 7


def test_locked_memory_counts_on_a_memory_node(node: Node):
    """On cgroup v1 it is on a list of its own, anonymous or not; on v2 anonymous memory contains its locked part."""
    path = held(node, Held(anon=GIB))
    lists = "inactive_file N1=3\nactive_file N0=7 N1=6\nunevictable N0=1 N1=9\n"
    text, expected = {
        1: ("unevictable=1 N1=1\nhierarchical_anon=2 N1=2\nhierarchical_unevictable=5 N0=1 N1=4\n", 6 * PAGE),
        2: (f"anon N0=1 N1=5\nfile N0=9 N1=20\nshmem N0=1 N1=4\n{lists}", 5 + 4 + 7),
    }[node.tree.version]
    (node.tree.folder("memory.numa_stat", path) / "memory.numa_stat").write_text(text)
    assert reader(node).unreclaimable_on(path, 1) == expected
