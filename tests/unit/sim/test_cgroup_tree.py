"""sim/cgroup_tree.py, cgroup_files.py and kernel.py: a simulated hierarchy shows what a kernel's hierarchy shows."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import cgroup_layout
from nri_coloc.sim import cgroup_files
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.sim.kernel import Kernel
from tests.rig.waiting import wait_until

EIGHT = cpuset.parse("0-7")
POD = "kubepods/burstable/pod1"
CHILD = f"{POD}/child"


def planted(folder, version: int = 2, *, legacy: bool = False, psi: bool = True) -> CgroupTree:
    tree = CgroupTree(folder, version, EIGHT, 1, legacy=legacy, psi=psi)
    tree.plant()
    return tree


def with_child(tree: CgroupTree) -> CgroupTree:
    tree.make(POD)
    tree.make(CHILD)
    return tree


@pytest.mark.parametrize("version", [1, 2])
def test_the_daemon_finds_the_hierarchy_that_was_planted(version, tmp_path):
    planted(tmp_path, version)
    layout = cgroup_layout.detect(str(tmp_path))
    assert layout.version == version
    assert None not in (layout.cpu, layout.cpuset, layout.memory, layout.blkio, layout.unified)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (
            1,
            {
                "cpuset.cpus",
                "cpu.shares",
                "cpu.cfs_burst_us",
                "cpu.idle",
                "memory.limit_in_bytes",
                "blkio.bfq.weight",
            },
        ),
        (
            2,
            {
                "cpuset.cpus.effective",
                "cpu.weight",
                "cpu.max.burst",
                "memory.high",
                "io.weight",
                "io.bfq.weight",
            },
        ),
    ],
    ids=["v1", "v2"],
)
def test_a_cgroup_has_the_kernels_files(version, names, tmp_path):
    planted(tmp_path, version)
    found = cgroup_layout.capabilities(cgroup_layout.detect(str(tmp_path)), "kubepods")
    assert names <= found


def test_an_old_kernel_lacks_what_came_later(tmp_path):
    tree = planted(tmp_path, 1, legacy=True)
    assert tree.read("kubepods", "cpu.idle") is None
    assert tree.read("kubepods", "blkio.bfq.weight") is None
    assert tree.read("kubepods", "blkio.weight") == "500"


def test_on_v1_a_child_keeps_its_parents_first_set(tmp_path):
    tree = planted(tmp_path, 1)
    tree.make(POD)
    tree.write(POD, "cpuset.cpus", "0-3")
    tree.make(CHILD)
    tree.write(POD, "cpuset.cpus", "0-5")
    assert (tree.read(CHILD, "cpuset.cpus"), tree.effective(CHILD)) == ("0-3", cpuset.parse("0-3"))
    assert tree.fits(CHILD, "4-5")
    assert not tree.fits(CHILD, "5-6")


@pytest.mark.parametrize(
    ("parent", "own", "effective"),
    [
        ("", "", "0-7"),
        ("", "2-3", "2-3"),
        ("0-3", "", "0-3"),
        ("0-3", "2-5", "2-3"),
        ("0-3", "4-5", "0-3"),
    ],
    ids=["nothing-set", "own", "inherited", "both", "disjoint"],
)
def test_on_v2_what_is_effective_is_what_both_allow(parent, own, effective, tmp_path):
    tree = with_child(planted(tmp_path))
    tree.write(POD, "cpuset.cpus", parent)
    tree.write(CHILD, "cpuset.cpus", own)
    tree.settle()
    assert cpuset.render(tree.effective(CHILD)) == effective
    assert tree.read(CHILD, "cpuset.cpus") == own


def test_a_set_that_is_in_force_is_read_back_at_once(tmp_path):
    tree = with_child(planted(tmp_path))
    tree.write(POD, "cpuset.cpus", "0-3")
    tree.settle()
    tree.write(POD, "cpuset.cpus", "5-6")
    assert cpuset.render(tree.effective(CHILD)) == "5-6"


def test_what_is_effective_follows_what_is_written_before_the_files_do(tmp_path):
    tree = with_child(planted(tmp_path))
    assert cpuset.render(tree.effective(CHILD)) == "0-7"
    tree.write(POD, "cpuset.cpus", "0-3")
    tree.write(CHILD, "cpuset.cpus", "2-5")
    assert cpuset.render(tree.effective(CHILD)) == "2-3"
    tree.remove(POD)
    assert tree.effective(CHILD) == 0


def test_an_intersection_does_not_leak_into_what_was_written(tmp_path):
    tree = with_child(planted(tmp_path))
    tree.write(CHILD, "cpuset.cpus", "2-5")
    tree.settle()
    tree.write(POD, "cpuset.cpus", "0-3")
    tree.settle()
    tree.write(POD, "cpuset.cpus", "")
    tree.settle()
    assert cpuset.render(tree.effective(CHILD)) == "2-5"


def test_memory_nodes_follow_the_same_rule(tmp_path):
    tree = with_child(planted(tmp_path))
    assert tree.read(CHILD, "cpuset.mems.effective") == "0"


def test_a_file_that_the_kernel_lacks_is_not_made_by_writing(tmp_path):
    tree = planted(tmp_path)
    tree.write("kubepods", "cpu.shares", "2")
    assert tree.read("kubepods", "cpu.shares") is None


def test_a_removed_cgroup_is_gone_in_every_hierarchy(tmp_path):
    tree = with_child(planted(tmp_path, 1))
    tree.remove(POD)
    assert not tree.exists(POD)
    assert [tree.read(POD, name) for name in ("cpu.shares", "memory.limit_in_bytes", "cpu.pressure")] == [
        None
    ] * 3


def test_shorter_text_replaces_longer_text_whole(tmp_path):
    tree = planted(tmp_path)
    tree.write("kubepods", "memory.max", "1073741824")
    tree.write("kubepods", "memory.max", "max")
    assert (tree.folder("memory.max", "kubepods") / "memory.max").read_text().split("\n")[:2] == ["max", ""]


def test_the_kernel_settles_what_a_stranger_writes(tmp_path):
    tree = CgroupTree(tmp_path, 2, EIGHT, 1)
    kernel = Kernel(tree)
    tree.plant()
    with_child(tree)
    kernel.start()
    (tree.folder("cpuset.cpus", POD) / "cpuset.cpus").write_text("6-7")
    wait_until(lambda: cpuset.render(tree.effective(CHILD)) == "6-7", 20, "the effective set")
    kernel.close()


@pytest.mark.parametrize(
    ("name", "mount"),
    [
        ("cpu.shares", "cpu,cpuacct"),
        ("cpuacct.usage", "cpu,cpuacct"),
        ("cpuset.cpus", "cpuset"),
        ("cpu.pressure", "unified"),
    ],
)
def test_a_v1_file_lies_where_its_controller_is_mounted(name, mount):
    assert cgroup_files.mount_of(name) == mount


@pytest.mark.parametrize("version", [1, 2])
def test_without_psi_no_cgroup_has_pressure_files(version, tmp_path):
    tree = planted(tmp_path, version, psi=False)
    tree.make(POD)
    assert not list(tmp_path.rglob("*.pressure"))
    assert tree.read(POD, "cpu.stat") is not None


@pytest.mark.parametrize("version", [1, 2])
def test_a_cgroup_lists_the_task_that_entered_it(version, tmp_path):
    tree = planted(tmp_path, version)
    tree.make(POD)
    assert tree.task(POD) is None
    tree.enter(POD, 4711)
    assert tree.task(POD) == 4711


class TestHotplug:
    @staticmethod
    def plugged(folder, version: int) -> CgroupTree:
        """Return a tree whose CPUs 4-7 were offline for a while."""
        tree = with_child(planted(folder, version))
        tree.write(POD, "cpuset.cpus", "2-5")
        tree.plug(cpuset.parse("0-3"))
        assert tree.effective(POD) == cpuset.parse("2-3")
        tree.plug(EIGHT)
        return tree

    def test_a_written_set_acts_again_when_its_cpus_are_back(self, tmp_path):
        tree = self.plugged(tmp_path, 2)
        assert tree.effective(POD) == cpuset.parse("2-5")
        assert tree.read(POD, "cpuset.cpus.effective") == "2-5"

    def test_on_v1_cpus_are_lost_for_good(self, tmp_path):
        tree = self.plugged(tmp_path, 1)
        assert [tree.read(path, "cpuset.cpus") for path in ("", "kubepods", POD)] == ["0-7", "0-3", "2-3"]
