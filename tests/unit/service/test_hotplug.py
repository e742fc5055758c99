"""CPUs that come or go are found; an unchanged machine is not read again."""

import time
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import PodStarted
from nri_coloc.core.seams import Decided
from nri_coloc.core.workload import Pod
from nri_coloc.host import cgroup_layout, sysfs
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.service import hotplug
from nri_coloc.service.configuration import loading
from nri_coloc.service.hotplug import Hotplug
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.machine import Machine
from nri_coloc.service.retuning import InForce, Retuning
from nri_coloc.sim import machines
from tests.unit import parts
from tests.unit.placing import kit

ONLINE = "sys/devices/system/cpu/online"
SETTINGS = loading.load("", "a test")


class Rig:
    """A planted machine; `reads` counts its full readings."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        machines.plant(machines.MACHINES["8cpu"], root)
        hierarchy = root / "sys/fs/cgroup"
        hierarchy.mkdir(parents=True, exist_ok=True)
        (hierarchy / "cgroup.controllers").write_text("cpuset cpu io memory\n")
        self.root, self.reads, self.now = root, 0, time.monotonic()
        self.node = Node(pools.initial(sysfs.read(str(root)), SETTINGS.tuning), SETTINGS.tuning, 1 << 30)
        report, self.heard = parts.a_report(self.node)
        retuning = Retuning(
            InForce(SETTINGS),
            self.node,
            kubelet=KubeletWatch(str(root)),
            clock=LendingClock(SETTINGS.schedule, time.time, parts.a_switch(root)),
            translator=parts.a_translator(SETTINGS.tuning),
            after=(report.changed,),
        )
        machine = Machine(str(root), cgroup_layout.detect(str(root)))
        self.hotplug = Hotplug(self.node, machine, retuning, report)
        read = sysfs.read

        def counted(host_root: str) -> Any:
            self.reads += 1
            return read(host_root)

        monkeypatch.setattr(sysfs, "read", counted)

    def looks(self, times: int) -> "Rig":
        for _ in range(times):
            self.now += hotplug.TOPOLOGY_EVERY_S + 1
            self.hotplug.look(self.now)
        return self

    def online(self) -> str:
        return cpuset.render(self.node.state.topology.online)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def test_an_unchanged_machine_is_read_twice(rig):
    assert rig.looks(10).reads == 2


def test_an_offline_cpu_is_found_at_once(rig):
    rig.looks(5)
    (rig.root / ONLINE).write_text("0-6\n")
    assert rig.looks(1).online() == "0-6"
    assert ("topology.change", "cpus_changed") in rig.heard.said()


def test_a_changed_machine_is_read_once_more(rig):
    rig.looks(5)
    (rig.root / ONLINE).write_text("0-6\n")
    assert rig.looks(5).reads == 4


def test_an_unreadable_machine_is_read_again(rig):
    online = rig.root / ONLINE
    rig.looks(5)
    online.write_text("\n")
    assert rig.looks(3).online() == "0-7"
    online.write_text("0-5\n")
    assert rig.looks(1).online() == "0-5"


def test_between_checks_the_machine_is_not_read(rig):
    rig.hotplug.look(rig.now + 1)
    assert rig.reads == 0


def test_first_pod_of_a_kubelet_has_its_cpus_at_once(rig):
    rig.looks(5)
    folder = rig.root / "sys/fs/cgroup/kubelet/kubepods"
    folder.mkdir(parents=True)
    (folder / "cpuset.cpus.effective").write_text("2-5\n")
    before = rig.node.state
    outcome = rig.node.decide(PodStarted(Pod("web", cgroup_parent="/kubelet/kubepods/pod1"), kit.SHARED))
    rig.hotplug.place_pod(Decided(outcome, before, "web"), 0.0)
    assert rig.online() == "2-5"


def test_next_pod_of_a_kubelet_has_no_file_read(rig):
    rig.looks(5)
    before = rig.node.state
    for pod_id in ("web", "api"):
        outcome = rig.node.decide(PodStarted(Pod(pod_id, cgroup_parent=f"/kubepods/{pod_id}"), kit.SHARED))
        rig.hotplug.place_pod(Decided(outcome, before, pod_id), 0.0)
        (rig.root / ONLINE).write_text("0-6\n")
    assert rig.online() == "0-7"
