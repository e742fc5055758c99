"""Following the machine: CPUs that come and go are seen, and one that stays the same is not read again."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nri_coloc.config import settings as reader
from nri_coloc.daemon import steering
from nri_coloc.daemon.kubelet_watch import KubeletWatch
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.settings_watch import SettingsWatch
from nri_coloc.daemon.steering import Crew, Steering
from nri_coloc.daemon.translation import Translator
from nri_coloc.model import cpuset
from nri_coloc.node_sim import machines
from nri_coloc.policy import pools
from nri_coloc.sampling import topology
from tests.unit.daemon import kit

ONLINE = "sys/devices/system/cpu/online"
SETTINGS = reader.load("", "a test")


class Rig:
    """Steering over a planted machine; `reads` counts how often all of it was read."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        machines.plant(machines.MACHINES["8cpu"], root)
        self.root, self.reads, self.now = root, 0, time.monotonic()
        self.node = Node(pools.initial(topology.read(str(root)), SETTINGS.tuning), SETTINGS.tuning, 1 << 30)
        report, self.heard = kit.a_report(self.node)
        nobody = cast("Any", SimpleNamespace(submit=lambda *_: None, kubelet_problem="", config_problem=""))
        crew = Crew(self.node, nobody, nobody, Translator(1 << 30), nobody, report)
        watch, kubelet = SettingsWatch("", lambda settings: settings), KubeletWatch(str(root))
        self.steering = Steering(SETTINGS, str(root), watch, kubelet, crew)
        read = topology.read

        def counted(host_root: str) -> Any:
            self.reads += 1
            return read(host_root)

        monkeypatch.setattr(topology, "read", counted)

    def looks(self, times: int) -> "Rig":
        for _ in range(times):
            self.now += steering.TOPOLOGY_EVERY_S + 1
            self.steering.look(self.now)
        return self

    def online(self) -> str:
        return cpuset.render(self.node.state.topology.online)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def test_a_machine_that_stays_the_same_is_read_whole_twice_and_never_again(rig):
    assert rig.looks(10).reads == 2


def test_a_cpu_that_went_offline_is_seen_at_the_next_look(rig):
    rig.looks(5)
    (rig.root / ONLINE).write_text("0-6\n")
    assert rig.looks(1).online() == "0-6"
    assert ("topology.change", "cpus_changed") in rig.heard.said()


def test_a_machine_that_changed_is_read_once_more_in_case_it_was_not_done(rig):
    rig.looks(5)
    (rig.root / ONLINE).write_text("0-6\n")
    assert rig.looks(5).reads == 4


def test_a_machine_that_could_not_be_read_is_read_until_it_can(rig):
    online = rig.root / ONLINE
    rig.looks(5)
    online.write_text("\n")
    assert rig.looks(3).online() == "0-7"
    online.write_text("0-5\n")
    assert rig.looks(1).online() == "0-5"


def test_between_two_looks_the_machine_is_left_alone(rig):
    rig.steering.look(rig.now + 1)
    assert rig.reads == 0


def test_settings_are_counted_once_they_are_in_force(rig, monkeypatch):
    seen = []
    metrics = rig.steering._crew.report.metrics
    monkeypatch.setattr(metrics, "config_reload", lambda how: seen.append((how, rig.node.tuning.observe)))
    rig.steering.apply(reader.load("mode: observe\n", "a test"))
    assert seen == [("valid", True)]


@pytest.mark.parametrize("reserve", ['"0-6,64-65"', '"64-71"', "7"])
def test_what_of_a_reserve_is_not_usable_here_reserves_nothing(rig, reserve):
    rig.steering.apply(reader.load(f"node: {{reservedCPUs: {reserve}}}\n", "a test"))
    assert ("config.reload", "valid") in rig.heard.said()


@pytest.mark.parametrize("reserve", ['"0-7"', '"0-7,64"', "8"])
def test_a_reserve_of_all_that_is_usable_is_refused(rig, reserve):
    rig.steering.apply(reader.load(f"node: {{reservedCPUs: {reserve}}}\n", "a test"))
    assert ("config.reload", "invalid") in rig.heard.said()


def test_what_only_a_restart_changes_is_named_by_its_keys(rig):
    rig.steering.apply(reader.load("telemetry: {auditRing: 7}\nruntime: {pluginIndex: '51'}\n", "a test"))
    (record,) = rig.heard.records
    assert (
        record.because == "read and applied; only a restart changes runtime.pluginIndex, telemetry.auditRing"
    )
