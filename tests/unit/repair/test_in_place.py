"""repair/in_place.py: a sweep only reads the files of cgroups in place, until a file or a value changes."""

import time
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.state import RECLAIM
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import Applied, Target
from nri_coloc.repair.actuator import TIDY_EVERY
from nri_coloc.repair.drift import ANNOUNCED_WITHIN_S
from nri_coloc.service import probe
from nri_coloc.sim.cgroup_tree import CgroupTree
from tests.unit.parts import a_node, a_report, an_actuator, create, start_pod
from tests.unit.placing import kit

POD, JOB, WEB = "kubepods/podbatch", "kubepods/podbatch/job", "kubepods/podweb/app"


class Writer(CgroupWriter):
    """Real writer that counts its checks of cgroups."""

    checked = 0

    def apply(self, target: Target) -> Applied:
        self.checked += 1
        return super().apply(target)


class Rig:
    """A machine with a reclaimed pod of two CPUs and its container, and an online container, after two sweeps."""

    def __init__(self, folder: Path, version: int) -> None:
        root = str(folder / "host")
        self.tree = CgroupTree(folder / "host", version, 0xFF, 1)
        self.tree.plant()
        for path in (POD, JOB, "kubepods/podweb", WEB):
            self.tree.make(path)
        self.node = a_node()
        layout = cgroup_layout.detect(root)
        self.node.learn(probe.capability(layout, (0, 0, 0), root))
        start_pod(self.node, "batch")
        create(self.node, "job", kit.RECLAIMED, on="batch")
        create(self.node, "app")
        self.size(2)
        report, self.heard = a_report(self.node)
        self.writer = Writer(layout, Journal(str(folder / "journal"), root), root, lambda _: None)
        self.actuator = an_actuator(self.node, self.writer, report)
        for _ in range(2):
            self.sweep()

    def size(self, cpus: int) -> None:
        self.node.decide(PoolsSized({RECLAIM: cpus}, "a test"))

    def sweep(self) -> int:
        """Sweep, and return the number of cgroups that were checked."""
        self.writer.checked = 0
        self.actuator._sweep()
        self.tree.settle()
        return self.writer.checked

    def cpus(self, path: str) -> int:
        return self.tree.mask(path, "cpuset.cpus")

    @property
    def drifts(self) -> list[str]:
        return [one.because for one in self.heard.records if one.event is AuditEvent.DRIFT_REPAIR]


@pytest.fixture(params=[1, 2])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path, request.param)


def test_cgroup_in_place_is_only_read(rig):
    assert rig.sweep() == 0
    assert rig.actuator.actual["job"] == rig.node.state.pools.reclaim


@pytest.mark.parametrize("path", [POD, WEB])
def test_foreign_value_is_repaired_and_recorded(rig, path):
    wanted = rig.cpus(path)
    rig.tree.write(path, "cpuset.cpus", "0")
    assert rig.sweep() == 1
    assert rig.cpus(path) == wanted
    assert len(rig.drifts) == 1


def test_foreign_cpus_of_an_inheriting_container_are_shown(rig):
    rig.tree.write(JOB, "cpuset.cpus", cpuset.render(rig.cpus(POD) & -rig.cpus(POD)))
    rig.tree.settle()
    rig.sweep()
    assert rig.actuator.actual["job"].bit_count() == 1


def test_new_value_is_written_by_the_next_sweep(rig):
    rig.size(4)
    rig.sweep()
    assert rig.cpus(POD) == rig.node.state.pools.reclaim
    assert rig.drifts == []


def test_removed_cgroup_has_no_cpus(rig):
    rig.tree.remove(WEB)
    rig.sweep()
    assert "app" not in rig.actuator.actual


def test_ordered_sweep_checks_all(rig):
    rig.writer.checked = 0
    rig.actuator._sweep_for([rig.actuator.sweep_soon()])
    assert rig.writer.checked == len(rig.node.state.pods) + len(rig.node.state.containers)


def test_all_are_checked_now_and_then(rig):
    assert sum(rig.sweep() for _ in range(TIDY_EVERY)) == 4


def test_held_drift_is_reported_later(rig, monkeypatch):
    name = "cpu.shares" if rig.writer.version == 1 else "cpu.weight"
    rig.tree.write(POD, name, "500")
    rig.sweep()
    assert rig.drifts == [], "a kubelet may still announce it as a resize"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + ANNOUNCED_WITHIN_S)
    rig.sweep()
    assert len(rig.drifts) == 1


def test_pods_that_come_and_go_have_no_other_checked(rig):
    start_pod(rig.node, "new")
    assert rig.sweep() == 1
