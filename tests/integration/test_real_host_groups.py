"""Cgroups outside Kubernetes on this machine's own kernel: among the reclaim cgroups, missing, or without a cpuset."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.knobs import Controller
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.state import RECLAIM
from nri_coloc.host import cgroup_layout, sysfs
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.repair.host_groups import HostGroups
from nri_coloc.service.probe import capability
from tests.rig import kubepods
from tests.unit.parts import a_report

OWN = "nri-coloc-test-host-groups"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")


class Machine:
    """Make a small reclaim pool, and room for a NodeManager's cgroup below a folder of this test."""

    def __init__(self, folder: Path) -> None:
        self.path = f"{OWN}-{os.getpid()}/yarn"
        self.layout = cgroup_layout.detect("/")
        tuning = Tuning(reclaim=ReclaimTuning(host_groups=(self.path,)))
        self.node = Node(pools.initial(sysfs.read("/"), tuning), tuning, sysfs.memory_total("/"))
        self.node.decide(PoolsSized({RECLAIM: 1}, "so the test has it"))
        report, self.heard = a_report(self.node)
        writer = CgroupWriter(self.layout, Journal(str(folder / "journal"), "/"), "/", lambda _: None)
        self.groups = HostGroups(self.node, writer, report)

    def make(self) -> None:
        kubepods.create(f"/{self.path}")

    def take_cpuset(self) -> None:
        """Remove its cpuset, as on a node where the batch system made only its own controllers."""
        folder = self.file("cpuset.cpus").parent
        if self.layout.version == 1:
            folder.rmdir()
        else:
            (folder.parent / "cgroup.subtree_control").write_text("-cpuset")

    def place(self) -> None:
        self.node.learn(capability(self.layout, (0, 0, 0), "/"))
        self.groups.place()

    def file(self, name: str) -> Path:
        controller: Controller = "cpuset" if name.startswith("cpuset") else "cpu"
        return Path(self.layout.folder(controller, self.path) or "", name)

    @property
    def values(self) -> list[str]:
        weight = "cpu.shares" if self.layout.version == 1 else "cpu.weight"
        return [file.read_text().strip() for file in (self.file("cpuset.cpus"), self.file(weight))]

    @property
    def is_boxed(self) -> bool:
        return cpuset.parse(self.values[0]) == self.node.state.pools.reclaim

    @property
    def reasons(self) -> list[Reason]:
        return [record.reason for record in self.heard.records]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        assert kubepods.remove(f"/{OWN}-{os.getpid()}")


def test_a_new_host_group_joins_the_box_and_restores(machine):
    machine.place()
    assert (machine.groups.members, machine.reasons) == ((), [])
    machine.make()
    before = machine.values
    machine.place()
    assert machine.groups.members == (machine.path,)
    assert machine.is_boxed
    assert machine.values[1] in ("1", "2")
    machine.node.tuning = Tuning()
    machine.place()
    assert machine.values == before


def test_one_without_a_cpuset_is_left_alone_and_told_of(machine):
    machine.make()
    machine.take_cpuset()
    weight = machine.file("cpu.shares" if machine.layout.version == 1 else "cpu.weight")
    before = weight.read_text()
    for _ in range(2):
        machine.place()
    assert (machine.groups.members, machine.reasons) == ((), [Reason.NO_CPUSET])
    assert weight.read_text() == before
    machine.make()
    machine.place()
    assert machine.groups.members == (machine.path,)


def test_one_that_goes_is_nobody_until_it_comes_again(machine):
    machine.make()
    machine.place()
    assert kubepods.remove(f"/{machine.path}")
    machine.place()
    assert machine.groups.members == ()
    machine.make()
    machine.place()
    assert machine.groups.members == (machine.path,)
    assert machine.is_boxed
    assert machine.reasons == [Reason.BOX_MEMBER] * 2
