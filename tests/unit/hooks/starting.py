"""A container that starts on a simulated machine with all annotations that a start writes to files."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from nri_coloc.core.decisions import ContainerCreating, ContainerStarting, PodStarted
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import Resources
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.service import probe
from nri_coloc.sim.node import Node as SimulatedNode
from tests.unit.parts import a_node, a_report, an_actuator
from tests.unit.placing import kit

ALL: Final = Knobs(memory_limit=1 << 30, io_weight=500, oom_score_adj=300)
WISH: Final = replace(kit.SHARED, knobs=ALL, annotated=ALL, cpu_burst_percent=50)
ASKED: Final = Resources(shares=1024, quota=100_000, period=100_000)


class Start:
    """One start: `admit` decides, `write` carries out what the hook carries out before its answer."""

    def __init__(self, root: Path, cgroup: int) -> None:
        simulated = SimulatedNode(root, cgroup=cgroup)
        tree, host = simulated.tree, str(simulated.host_root)
        layout = cgroup_layout.detect(host)
        self.node = a_node()
        report, self.heard = a_report(self.node)
        writer = CgroupWriter(layout, Journal(str(root / "journal")), host, lambda _: None)
        self.actuator = an_actuator(self.node, writer, report)
        tree.make("kubepods/podweb")
        tree.make("kubepods/podweb/app")
        (Path(host) / "proc/7").mkdir(parents=True, exist_ok=True)
        (Path(host) / "proc/7/oom_score_adj").write_text("0\n")
        for path in ("kubepods/podweb", "kubepods/podweb/app"):
            quota = "cpu.cfs_quota_us" if cgroup == 1 else "cpu.max"
            tree.write(path, quota, "100000" if cgroup == 1 else "100000 100000")
        self.node.learn(probe.capability(layout, (0, 12, 0), host))

    def admit(self, *, answered: bool) -> None:
        """Decide the container's creation, if it is answered, and its start."""
        facts = kit.container("app", resources=ASKED, cgroups_path="/kubepods/podweb/app")
        self.node.decide(PodStarted(kit.pod(), WISH))
        if answered:
            self.node.decide(ContainerCreating(kit.pod(), facts, WISH))
        self.node.decide(ContainerStarting(kit.pod(), replace(facts, pid=7), WISH))

    def write(self) -> None:
        """Write the container's values, and read them back."""
        self.actuator.place("app")
        self.actuator.finish("app")
