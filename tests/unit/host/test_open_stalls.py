"""host.stall_readings.OpenStalls: I/O stalls of cgroups from files that stay open."""

import shutil
from pathlib import Path

import pytest

from nri_coloc.host import cgroup_layout
from nri_coloc.host.stall_readings import OpenStalls
from nri_coloc.sim.node import Node

POD = "kubepods/pod1"


class Bed:
    """A simulated node with one pod's cgroup."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root, "8cpu", cgroup=2)
        self.node.tree.make(POD)
        self.stalls = OpenStalls(cgroup_layout.detect(str(self.node.host_root)))

    def waited(self, us: int) -> None:
        self.node.tree.write(POD, "io.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n")

    @property
    def count(self) -> int:
        return self.stalls._bank.count


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_each_read_has_the_newest_total(bed: Bed):
    for us in (5, 1_000_000):
        bed.waited(us)
        assert bed.stalls.io_us(POD) == us
    assert bed.count == 1


def test_a_missing_cgroup_is_unknown(bed: Bed):
    assert bed.stalls.io_us("kubepods/pod2") is None
    assert bed.count == 0


def test_a_removed_cgroup_closes_its_file(bed: Bed):
    bed.waited(5)
    bed.stalls.io_us(POD)
    shutil.rmtree(bed.node.host_root / f"sys/fs/cgroup/{POD}")
    assert [bed.stalls.io_us(POD) for _ in range(8)][-1] is None
    assert bed.count == 0


def test_files_of_other_cgroups_are_closed(bed: Bed):
    bed.waited(5)
    bed.stalls.io_us(POD)
    bed.stalls.keep([POD])
    assert bed.count == 1
    bed.stalls.keep([])
    assert bed.count == 0


def test_a_path_out_of_the_hierarchy_is_refused(bed: Bed):
    with pytest.raises(ValueError, match=r"\.\."):
        bed.stalls.io_us("../etc")
