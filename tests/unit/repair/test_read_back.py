"""A file with a nonsensical value is reported, and other containers still get their CPUs."""

from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.settings import Tuning
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.lending.relocation import FileWatch, Relocation
from nri_coloc.repair.actuator import Actuator
from nri_coloc.repair.read_back import NO_CGROUP
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.tuning.scores import Scores
from tests.unit.parts import Cgroups, a_node, a_report, an_actuator, create, start_pod
from tests.unit.placing import kit

PODS = ("first", "middle", "last")


class Rig:
    """Three reclaimed pods with a container each, on real files."""

    def __init__(self, root: Path, version: int, tuning: Tuning | None = None) -> None:
        host = root / "host"
        self.tree = CgroupTree(host, version, 0xFF, 1)
        self.tree.plant()
        self.node = a_node(tuning)
        for pod in PODS:
            self.tree.make(f"kubepods/pod{pod}")
            self.tree.make(f"kubepods/pod{pod}/app-{pod}")
            start_pod(self.node, pod)
            create(self.node, f"app-{pod}", kit.RECLAIMED, on=pod)
        self.report, self.heard = a_report(self.node)
        journal = Journal(str(root / "journal"), str(host))
        self.writer = CgroupWriter(cgroup_layout.detect(str(host)), journal, str(host), lambda _: None)
        self.actuator = an_actuator(self.node, self.writer, self.report)
        self.relocation = self.moves(self.actuator)

    def moves(self, actuator: Actuator) -> Relocation:
        return Relocation(self.node, actuator, FileWatch(self.report), after=(actuator.changed,), eevdf=False)

    def cut(self, cpus: int) -> None:
        before = self.node.state
        self.relocation.carry_out(
            self.node.decide(PoolsSized({"reclaim": cpus}, "pool resized: a test wants it")), before
        )

    def break_cpus(self, path: str) -> None:
        name = "cpuset.cpus" if self.tree.version == 1 else "cpuset.cpus.effective"
        file = self.tree.folder(name, path) / name
        file.unlink()  # the file may have a second name, in another cgroup
        file.write_text("garbage\n")

    def has(self, pod: str) -> str:
        return (self.tree.read(f"kubepods/pod{pod}", "cpuset.cpus") or "").strip()

    @property
    def told(self) -> list[str]:
        return [one.because for one in self.heard.records if one.event is AuditEvent.WRITE_FAILED]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Rig:
    return Rig(tmp_path, request.param)


def test_a_cut_reaches_all_whose_files_make_sense(rig):
    rig.break_cpus("kubepods/podmiddle")
    rig.cut(2)
    box = cpuset.render(rig.node.state.pools.reclaim)
    assert (rig.has("first"), rig.has("last")) == (box, box)
    assert len(rig.told) == 1
    assert "podmiddle/cpuset.cpus" in rig.told[0]


def test_a_cut_reaches_all_despite_one_unreadable_container(rig):
    rig.break_cpus("kubepods/podfirst/app-first")
    rig.cut(2)
    box = cpuset.render(rig.node.state.pools.reclaim)
    assert (rig.has("middle"), rig.has("last")) == (box, box)


def test_a_refusing_pod_is_read_again_after_a_pause(rig):
    rig.break_cpus("kubepods/podmiddle")
    rig.cut(2)
    assert rig.actuator.drifts.refusals.pauses("middle")
    assert not rig.actuator.drifts.refusals.refused("last")


def test_a_cut_outlives_what_nobody_foresaw(tmp_path):
    rig = Rig(tmp_path, 1)
    cgroups = Cgroups({f"kubepods/pod{pod}": 0xFF for pod in PODS})
    cgroups.broken = {"kubepods/podfirst"}
    rig.relocation = rig.moves(an_actuator(rig.node, cgroups.as_writer(), rig.report))
    rig.cut(2)
    assert cgroups.cpus_of["kubepods/podlast"] == rig.node.state.pools.reclaim


def test_an_observer_looks_at_the_others_too(tmp_path):
    rig = Rig(tmp_path, 2, Tuning(observe=True))
    rig.break_cpus("kubepods/podfirst/app-first")
    rig.actuator._sweep()
    assert rig.actuator.actual.keys() == {"app-middle", "app-last"}
    assert len(rig.told) == 1


@pytest.mark.parametrize("observe", [False, True], ids=["enforces", "observes"])
@pytest.mark.parametrize("version", [1, 2])
def test_cpus_that_cannot_be_read_are_unknown(tmp_path, version, observe):
    rig = Rig(tmp_path, version, Tuning(observe=observe))
    rig.actuator._sweep()
    assert "app-first" in rig.actuator.actual
    rig.break_cpus("kubepods/podfirst/app-first")
    rig.actuator._sweep()
    assert "app-first" not in rig.actuator.actual
    assert rig.actuator.unread["app-first"].startswith("cannot read")


def test_cpus_of_a_cgroup_that_is_gone_are_unknown(rig):
    rig.actuator._sweep()
    rig.tree.remove("kubepods/podfirst/app-first")
    rig.actuator._sweep()
    assert "app-first" not in rig.actuator.actual
    assert rig.actuator.unread == {"app-first": NO_CGROUP}


def test_cpus_that_are_read_again_are_known(rig):
    rig.tree.remove("kubepods/podfirst/app-first")
    rig.actuator._sweep()
    rig.tree.make("kubepods/podfirst/app-first")
    rig.actuator._sweep()
    assert "app-first" in rig.actuator.actual
    assert rig.actuator.unread == {}


def test_the_former_box_is_that_of_those_who_can_be_read(rig):
    rig.cut(2)
    rig.tree.settle()
    rig.break_cpus("kubepods/podfirst")
    assert rig.actuator.former_box() == 2


def test_a_score_is_set_despite_an_unreadable_process_list(rig):
    folder = rig.tree.folder("cpuset.cpus", "kubepods/podfirst/app-first")
    (folder / "cgroup.procs").unlink()
    (folder / "cgroup.procs").mkdir()
    assignment = rig.node.state.containers["app-first"]
    Scores(rig.node, rig.writer, rig.report).write(
        replace(assignment, wish=replace(assignment.wish, knobs=Knobs(oom_score_adj=7)))
    )
    assert "cgroup.procs" in rig.told[0]
