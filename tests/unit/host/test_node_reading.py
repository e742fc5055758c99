"""host/readings.py: the machine's CPU time and memory are read."""

from pathlib import Path

import pytest

from nri_coloc.core.readings import NumaMemory
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.readings import NodeReader, whole
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    machines.plant(machines.MACHINES["8cpu"], tmp_path)
    (tmp_path / "proc/stat").write_text("cpu  9 0 0 0\ncpu0 3 0 0 50\ncpu1 4 0 0 50\ncpu2 5 0 0 50\n")
    return tmp_path


def reader(root: Path) -> NodeReader:
    return NodeReader(CgroupLayout(2), str(root))


def test_memory_is_the_machines_and_that_of_its_nodes(root):
    found = reader(root).read(3.0, 0, (1, 0))
    assert (found.at, found.memory_total, found.memory_free) == (3.0, 32 * GIB, 32 * GIB)
    assert found.nodes == {0: NumaMemory(16 * GIB, 16 * GIB), 1: NumaMemory(16 * GIB, 16 * GIB)}
    assert 0 < found.watermark < GIB


def test_a_single_node_has_all_of_the_memory(root):
    (root / "sys/devices/system/node/node0/meminfo").write_text(
        "Node 0 MemTotal: 1 kB\nNode 0 MemFree: 1 kB\n"
    )
    assert reader(root).read(1.0, 0, (0,)).nodes == {0: NumaMemory(32 * GIB, 32 * GIB)}


def test_a_node_whose_file_is_gone_is_left_out(root):
    (root / "sys/devices/system/node/node1/meminfo").unlink()
    assert set(reader(root).read(1.0, 0, (0, 1)).nodes) == {0}


@pytest.mark.parametrize("name", ["meminfo", "zoneinfo"])
def test_without_one_of_its_files_no_memory_is_free(root, name):
    (root / "proc" / name).write_text("garbage\n")
    found = reader(root).read(1.0, 0, (0,))
    assert (found.memory_total, found.memory_free, found.watermark, found.nodes) == (0, 0, 0, {})


class TestCPU:
    @pytest.mark.parametrize(("version", "expected"), [(1, 60_000), (2, 660_000)])
    def test_interrupts_on_reserved_cpus_count_where_they_are_in_the_usage(self, root, version, expected):
        CgroupTree(root, version, 0b11, 1).plant()
        (root / "proc/stat").write_text("cpu0 1 2 3 50 0 10 20 30 0 0\n")
        found = NodeReader(cgroup_layout.detect(str(root)), str(root)).read(1.0, 0b1, (0,))
        assert found.reserved_usage_us == expected

    def test_the_root_cgroups_counter_is_the_usage(self, root):
        tree = CgroupTree(root, 1, 0b11, 1)
        tree.plant()
        tree.write("", "cpuacct.usage", "7000000")
        found = NodeReader(cgroup_layout.detect(str(root)), str(root)).read(1.0, 0, (0,))
        assert found.usage_us == 7000

    def test_without_it_the_cpus_busy_time_is(self, root):
        assert reader(root).read(1.0, 0, (0,)).usage_us == 120_000

    def test_a_root_cgroup_that_counted_has_no_substitute(self, root):
        tree = CgroupTree(root, 1, 0b11, 1)
        tree.plant()
        reads = NodeReader(cgroup_layout.detect(str(root)), str(root))
        found = []
        for text in ("7000000", "garbage", "9000000"):
            tree.write("", "cpuacct.usage", text)
            found.append(reads.read(1.0, 0, (0,)).usage_us)
        assert found == [7000, None, 9000]

    def test_without_either_it_is_unknown(self, root):
        (root / "proc/stat").unlink()
        assert reader(root).read(1.0, 0, (0,)).usage_us is None

    @pytest.mark.parametrize(
        ("reserved", "used"),
        [(0, 0), (0b11, 70_000), (0b1001, None)],
        ids=["none", "two", "one that is offline"],
    )
    def test_the_reserved_cpus_have_a_usage_of_their_own(self, root, reserved, used):
        assert reader(root).read(1.0, reserved, (0,)).reserved_usage_us == used


class TestLargeMachine:
    @pytest.fixture
    def large(self, tmp_path: Path) -> Path:
        machines.plant(machines.MACHINES["epyc-256"], tmp_path)
        return tmp_path

    def test_the_watermarks_of_all_its_nodes_count(self, large):
        assert (large / "proc/zoneinfo").stat().st_size > 1 << 18
        found = reader(large).read(1.0, 0, range(8))
        assert found.memory_total == 8 * 128 * GIB
        assert found.watermark == 8 * (128 * GIB // 512)

    def test_what_ran_on_its_reserved_cpus_is_known_behind_many_interrupts(self, large):
        cpus = "".join(f"cpu{cpu} {10**9} 0 {10**8} {10**10} 0 0 0 0 0 0\n" for cpu in range(256))
        (large / "proc/stat").write_text(f"cpu  1\n{cpus}intr 1{' 0' * 40_000}\n")
        assert reader(large).read(1.0, 0b1, (0,)).reserved_usage_us == (10**9 + 10**8) * 10_000

    def test_a_file_without_an_end_tells_nothing(self):
        assert whole("/dev/zero") is None
