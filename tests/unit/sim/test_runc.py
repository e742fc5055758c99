"""sim/runc.py and processes.py: a container's files are written, and refused where the kernel would refuse."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim import runc
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.sim.processes import PID_MAX_LIMIT, ProcessTable
from nri_coloc.sim.spec import to_message

PATH = "kubepods/child"


def planted(folder, version: int) -> CgroupTree:
    tree = CgroupTree(folder, version, cpuset.parse("0-7"), 1)
    tree.plant()
    return tree


@pytest.mark.parametrize(
    ("version", "written"),
    [
        (1, {"cpu.shares": "1536", "cpu.cfs_quota_us": "150000", "memory.limit_in_bytes": "1024"}),
        (2, {"cpu.weight": "59", "cpu.max": "150000 100000", "memory.max": "1024", "memory.swap.max": "0"}),
    ],
    ids=["v1", "v2"],
)
def test_the_whole_spec_is_written(version, written, tmp_path):
    tree = planted(tmp_path, version)
    runc.create(
        tree,
        PATH,
        to_message(
            Resources(shares=1536, quota=150_000, period=100_000, cpus="2-3", mems="0", memory_limit=1024)
        ),
    )
    assert {name: tree.read(PATH, name) for name in written} == written
    assert cpuset.render(tree.effective(PATH)) == "2-3"


@pytest.mark.parametrize("version", [1, 2])
def test_a_spec_without_cpus_inherits_the_parents(version, tmp_path):
    tree = planted(tmp_path, version)
    tree.write("kubepods", "cpuset.cpus", "4-7")
    tree.settle()
    runc.create(tree, PATH, to_message(Resources(shares=2)))
    assert cpuset.render(tree.effective(PATH)) == "4-7"


def test_only_v1_refuses_cpus_outside_the_parents(tmp_path):
    resources = to_message(Resources(cpus="0-1"))
    for version in (1, 2):
        tree = planted(tmp_path / str(version), version)
        tree.write("kubepods", "cpuset.cpus", "4-7")
        tree.settle()
        if version == 1:
            with pytest.raises(RuntimeRefused, match="permission denied"):
                runc.create(tree, PATH, resources)
        else:
            runc.create(tree, PATH, resources)
            assert cpuset.render(tree.effective(PATH)) == "4-7"


def test_unified_is_written_on_v2_and_an_error_on_v1(tmp_path):
    resources = to_message(Resources())
    resources.unified["memory.high"] = "4096"
    tree = planted(tmp_path / "2", 2)
    runc.create(tree, PATH, resources)
    assert tree.read(PATH, "memory.high") == "4096"
    with pytest.raises(RuntimeRefused, match="unified"):
        runc.create(planted(tmp_path / "1", 1), PATH, resources)


def test_a_unified_key_without_a_file_is_refused(tmp_path):
    tree = planted(tmp_path, 2)
    runc.create(tree, PATH, to_message(Resources()))
    resources = to_message(Resources())
    resources.unified["no.such.file"] = "1"
    with pytest.raises(RuntimeRefused, match="no such file"):
        runc.update(tree, PATH, resources)


def test_no_quota_is_written_as_the_kernel_says_it(tmp_path):
    tree = planted(tmp_path, 2)
    runc.create(tree, PATH, to_message(Resources(quota=-1, period=100_000)))
    assert tree.read(PATH, "cpu.max") == "max 100000"


@pytest.mark.parametrize(("version", "lines"), [(1, 5), (2, 1)], ids=["v1", "v2"])
def test_a_process_shows_its_cgroups_and_its_score_until_it_ends(version, lines, tmp_path):
    processes = ProcessTable(tmp_path, version)
    pid = processes.spawn(PATH, 500)
    listed = (tmp_path / f"proc/{pid}/cgroup").read_text().splitlines()
    assert len(listed) == lines
    assert all(line.endswith(f":/{PATH}") for line in listed)
    assert processes.oom_score_adj(pid) == 500
    processes.end(pid)
    assert processes.oom_score_adj(pid) is None


def test_no_real_process_can_have_a_simulated_id(tmp_path):
    assert ProcessTable(tmp_path, 2).spawn(PATH, 0) > PID_MAX_LIMIT
