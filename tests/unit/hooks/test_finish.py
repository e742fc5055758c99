"""A StartContainer hook takes few small writes, even if annotations order all that they can."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerStarting, PodStarted
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import Resources
from nri_coloc.host import cgroup_layout, files
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.service import probe
from nri_coloc.sim.node import Node as SimulatedNode
from tests.unit.parts import a_node, a_report, an_actuator
from tests.unit.placing import kit

MOST_WRITES = 8
MOST_S = 0.005
ALL = Knobs(memory_limit=1 << 30, io_weight=500, oom_score_adj=300)
WISH = replace(kit.SHARED, knobs=ALL, annotated=ALL, cpu_burst_percent=50)
ASKED = Resources(shares=1024, quota=100_000, period=100_000)


class Start:
    """A container that starts on a simulated machine, and the files that are written for it."""

    def __init__(self, root: Path, cgroup: int) -> None:
        simulated = SimulatedNode(root, cgroup=cgroup)
        self.tree, self.host = simulated.tree, str(simulated.host_root)
        self.layout = cgroup_layout.detect(self.host)
        self.node = a_node()
        report, self.heard = a_report(self.node)
        writer = CgroupWriter(self.layout, Journal(str(root / "journal")), self.host, lambda _: None)
        self.actuator = an_actuator(self.node, writer, report)
        self.written: list[str] = []
        self.tree.make("kubepods/podweb")
        self.tree.make("kubepods/podweb/app")
        (Path(self.host) / "proc/7").mkdir(parents=True, exist_ok=True)
        (Path(self.host) / "proc/7/oom_score_adj").write_text("0\n")
        for path in ("kubepods/podweb", "kubepods/podweb/app"):
            quota = "cpu.cfs_quota_us" if cgroup == 1 else "cpu.max"
            self.tree.write(path, quota, "100000" if cgroup == 1 else "100000 100000")
        self.node.learn(probe.capability(self.layout, (0, 12, 0), self.host))

    def place(self, *, answered: bool) -> float:
        """Admit and start the container as the hook does; return the CPU seconds of its file writes."""
        facts = kit.container("app", resources=ASKED, cgroups_path="/kubepods/podweb/app")
        self.node.decide(PodStarted(kit.pod(), WISH))
        if answered:
            self.node.decide(ContainerCreating(kit.pod(), facts, WISH))
        self.node.decide(ContainerStarting(kit.pod(), replace(facts, pid=7), WISH))
        began = time.thread_time()
        self.actuator.place("app")
        self.actuator.finish("app")
        return time.thread_time() - began

    def write(self, path: str, text: str) -> bool:
        self.written.append(path)
        return self._write(path, text)

    _write = staticmethod(files.write)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def start(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Start:
    made = Start(tmp_path, request.param)
    monkeypatch.setattr(files, "write", made.write)
    return made


@pytest.mark.parametrize("answered", [True, False], ids=["placed at creation", "placed by file"])
def test_a_start_takes_few_small_writes(start, answered):
    took = start.place(answered=answered)
    assert 2 < len(start.written) <= MOST_WRITES, start.written
    assert took < MOST_S
    assert start.heard.said() == []


def test_a_container_that_is_placed_by_file_bursts_once_it_runs(start):
    start.place(answered=False)
    assert not [path for path in start.written if "burst" in path]
    start.actuator.bandwidths.place("app")
    assert len([path for path in start.written if "burst" in path]) == 2
