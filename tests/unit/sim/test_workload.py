"""sim/workload.py: CPU time is shared as the files allow, and counted."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.sim.workload import Task, Workload, share_out

FOUR = cpuset.parse("0-3")
ONE, OTHER = "kubepods/one", "kubepods/other"


def task(path: str, wanted: float, cpus: str = "0-3", **limits: float) -> Task:
    return Task(path, wanted, cpuset.parse(cpus), **limits)


def shares(*tasks: Task) -> list[float]:
    return [round(used, 3) for used in share_out(tasks).by_path.values()]


@pytest.mark.parametrize(
    ("tasks", "used"),
    [
        ([task("a", 1.5)], [1.5]),
        ([task("a", 9)], [4.0]),
        ([task("a", 9, quota=2.5)], [2.5]),
        ([task("a", 4), task("b", 4)], [2.0, 2.0]),
        ([task("a", 4, weight=3), task("b", 4, weight=1)], [3.0, 1.0]),
        ([task("a", 1, weight=1), task("b", 8, weight=99)], [0.04, 3.96]),
        ([task("a", 2, "0-1"), task("b", 8, "2-3")], [2.0, 2.0]),
        ([task("a", 2, "0"), task("b", 8, "0-3", weight=0.001)], [0.999, 3.001]),
        ([task("a", 1, "")], [0.0]),
    ],
    ids=["fits", "machine", "quota", "equal", "weights", "starved", "apart", "leftover", "nowhere"],
)
def test_time_is_shared_within_sets_quotas_and_weights(tasks, used):
    assert shares(*tasks) == pytest.approx(used, abs=0.002)


def test_no_cpu_gives_more_than_it_has():
    busy = share_out([task("a", 9), task("b", 3, "0-1"), task("c", 2, "1")]).by_cpu
    assert max(busy.values()) <= 1.0 + 1e-6


def simulated(folder, version: int) -> tuple[CgroupTree, Workload]:
    tree = CgroupTree(folder, version, FOUR, 1)
    tree.plant()
    for path in (ONE, OTHER):
        tree.make(path)
    (folder / "proc").mkdir()
    return tree, Workload(tree, folder, FOUR)


@pytest.mark.parametrize("version", [1, 2])
def test_usage_is_counted_for_the_cgroup_and_all_above_it(version, tmp_path):
    tree, workload = simulated(tmp_path, version)
    workload.attach(ONE, lambda _: 1.5)
    workload.tick(100.0)
    workload.tick(102.0)
    if version == 1:
        usage = [int(tree.read(path, "cpuacct.usage") or 0) // 1000 for path in (ONE, "kubepods", "")]
    else:
        usage = [int((tree.read(path, "cpu.stat") or "").split()[1]) for path in (ONE, "kubepods", "")]
    assert usage == [3_000_000] * 3


def test_what_was_not_had_is_pressure(tmp_path):
    tree, workload = simulated(tmp_path, 2)
    tree.write(ONE, "cpu.max", "100000 100000")
    workload.attach(ONE, lambda _: 4)
    workload.tick(0)
    workload.tick(2)
    assert "total=1500000" in (tree.read(ONE, "cpu.pressure") or "")
    assert "throttled_usec 6000000" in (tree.read(ONE, "cpu.stat") or "")


def test_weights_count_among_siblings_only(tmp_path):
    tree, workload = simulated(tmp_path, 2)
    tree.write(ONE, "cpu.weight", "300")
    tree.make(f"{OTHER}/deep")
    tree.write(f"{OTHER}/deep", "cpu.weight", "10000")
    workload.attach(ONE, lambda _: 9)
    workload.attach(f"{OTHER}/deep", lambda _: 9)
    workload.tick(0)
    found = workload.tick(1)
    assert list(found.by_path.values()) == pytest.approx([3.0, 1.0])


def test_a_file_that_changes_between_ticks_changes_what_is_had(tmp_path):
    tree, workload = simulated(tmp_path, 2)
    workload.attach(ONE, lambda _: 9)
    workload.tick(0)
    assert workload.tick(1).by_path[ONE] == pytest.approx(4.0)
    tree.write(ONE, "cpuset.cpus", "2")
    tree.settle()
    assert workload.tick(2).by_cpu == {2: pytest.approx(1.0)}


def test_an_ended_cgroup_leaves_its_use_above(tmp_path):
    tree, workload = simulated(tmp_path, 2)
    workload.attach(ONE, lambda _: 1)
    workload.tick(0)
    workload.tick(1)
    tree.remove(ONE)
    assert workload.tick(2).by_path == {}
    assert "usage_usec 1000000" in (tree.read("kubepods", "cpu.stat") or "")


def test_proc_stat_counts_busy_and_idle_ticks_of_each_cpu(tmp_path):
    tree, workload = simulated(tmp_path, 2)
    tree.write(ONE, "cpuset.cpus", "1")
    tree.settle()
    workload.attach(ONE, lambda _: 0.25)
    workload.tick(0)
    workload.tick(4)
    lines = (tmp_path / "proc/stat").read_text().splitlines()
    assert lines[0].startswith("cpu  100 0 0 1500 ")
    assert lines[2].startswith("cpu1 100 0 0 300 ")
