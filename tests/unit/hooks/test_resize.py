"""hooks/resize.py: a value that systemd writes while the runtime carries out an update, or soon after, is no drift."""

from pathlib import Path
from typing import Any, Final, cast

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.core.decisions import ContainerCreating, ContainerStarting, PodStarted
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.report import Drift
from nri_coloc.core.value import replace
from nri_coloc.hooks.common_steps import Consequences, Exchange
from nri_coloc.hooks.resize import Resize
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.nri import events
from nri_coloc.nri.calls import HookKind
from nri_coloc.repair import drift
from nri_coloc.repair.actuator import Actuator
from nri_coloc.service import probe
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.sim.node import Node as SimulatedNode
from tests.unit.hooks.hook_messages import TUNING, hook
from tests.unit.parts import a_node, a_report, a_translator, an_actuator
from tests.unit.placing import kit

HEAVY: Final = Knobs(io_weight=500)
WISH: Final = replace(kit.SHARED, knobs=HEAVY, annotated=HEAVY)
UNIT: Final = "kubepods-podweb.slice:cri-containerd:app"
SCOPE: Final = cgroup_layout.container_path(UNIT)


class Nobody:
    """Fake of the parts around an update: each call is taken, and none of the updates is a push."""

    claimed_by_us = True
    latency_us = 0

    @property
    def pusher(self) -> "Nobody":
        return self

    def claim(self) -> bool:
        return True

    def recognises(self, *_: object) -> bool:
        return False

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


class Updated:
    """A started container in a systemd scope that the kubelet updates; its I/O weight is ours."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.actuator, self.resize = started(folder)

    def hook(self, kind: HookKind) -> events.Hook:
        told = hook(kind, resources=told_pb2.LinuxResources())
        assert told.container is not None
        told.pod.id, told.container.id, told.container.linux.cgroups_path = "web", "app", UNIT
        return told

    def begins(self) -> None:
        self.resize.serve(self.hook(HookKind.UPDATE_CONTAINER), cast("Exchange", Nobody()))

    def ends(self) -> None:
        self.resize.carried_out(self.hook(HookKind.POST_UPDATE_CONTAINER), cast("Exchange", Nobody()))

    def drift_of_systemds_weight(self) -> Drift | None:
        self.tree.write(SCOPE, "io.weight", "default 100")
        found = self.actuator.place("app")
        assert self.tree.read(SCOPE, "io.weight") == "default 500"
        return found


def started(folder: Path) -> tuple[CgroupTree, Actuator, Resize]:
    simulated = SimulatedNode(folder, cgroup=2)
    tree, host = simulated.tree, str(simulated.host_root)
    layout, node = cgroup_layout.detect(host), a_node(TUNING)
    report, _ = a_report(node)
    node.learn(probe.capability(layout, (0, 12, 0), host))
    actuator = an_actuator(
        node, CgroupWriter(layout, Journal(f"{host}/journal"), host, lambda _: None), report
    )
    tree.make(SCOPE)
    facts = kit.container("app", cgroups_path=UNIT)
    node.decide(PodStarted(kit.pod(), WISH))
    node.decide(ContainerCreating(kit.pod(), facts, WISH))
    node.decide(ContainerStarting(kit.pod(), replace(facts, pid=7), WISH))
    for _ in range(2):
        actuator.place("app")
    assert tree.read(SCOPE, "io.weight") == "default 500"

    others = Nobody()
    resize = Resize(node, actuator, a_translator(TUNING), cast("Consequences", others))
    return tree, actuator, resize


def test_systemds_io_weight_after_an_update_is_no_drift(tmp_path: Path):
    updated = Updated(tmp_path)
    updated.begins()
    updated.ends()
    assert updated.drift_of_systemds_weight() is None


def test_systemds_io_weight_during_a_long_update_is_no_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drift, "RUNTIME_LATE_S", 0.0)
    updated = Updated(tmp_path)
    updated.begins()
    assert updated.drift_of_systemds_weight() is None


def test_systemds_io_weight_long_after_an_update_is_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drift, "RUNTIME_LATE_S", 0.0)
    updated = Updated(tmp_path)
    updated.begins()
    updated.ends()
    assert updated.drift_of_systemds_weight() is not None
