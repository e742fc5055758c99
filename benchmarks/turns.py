"""`turns.*`: CPU time of one turn of pressure at 110 pods, half of them online and half reclaimed.

There is one turn a second, so 3,000 µs are 0.3 % of a core. `….calm` is a turn of the verdicts in which no pod is hurt,
`….hurt` one in which every online pod is: then all pods are read and culprits are searched. Rows `….v1` and `….v2` read
a simulated node's files. `….real` rows read cgroups of this machine (root), which are made and removed again: verdicts,
degrading, file systems and evictions together, all of them on (`….on.real`) and all of them off (`….off.real`) in
alternating turns, and one check between two turns (`turns.check.real`) while every online pod seems to wait some
microseconds for a disk: pods that do not wait are not checked. Before each real turn there is a pause, as in the
daemon, in which the processor's caches forget it; long-lived objects are frozen, as there.
"""

import gc
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, Final, cast

from benchmarks import figures, folders, sampling
from nri_coloc.core.decisions import Decision
from nri_coloc.core.lending import Headroom
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import DiskTuning, PressureTuning, RungTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.workload import Container, Pod, QoSClass, Resources, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.disk_left import DiskLeftReader
from nri_coloc.host.journal import Journal
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.readings import CgroupReader
from nri_coloc.host.stall_readings import OpenStalls, StallReader
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.disk_waits import CHECK_S
from nri_coloc.pressure.disks import Disks
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.shortages import Shortages
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.schedule.switch import Clocks
from nri_coloc.service.cool_down import CoolDown
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.tuning.bandwidths import PodBandwidths

PODS: Final = 110
LEARNS: Final = 100
"""Turns until every online pod has its baselines."""

TURNS: Final = 200
STALL_US: Final = 900_000
PAUSE_S: Final = 0.05

ALL_ON: Final = Tuning(
    pressure=PressureTuning(
        io=RungTuning(throttles=True), degrade=True, evict=True, disk=DiskTuning(closes=True)
    )
)
_OFF: Final = RungTuning(judges=False)
ALL_OFF: Final = Tuning(pressure=PressureTuning(cpu=_OFF, memory=_OFF, io=_OFF))


class Told:
    """Forgets what it is told."""

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        """Take decisions."""

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None:
        """Take a refusal."""

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None:
        """Take a record."""


def _node(tuning: Tuning) -> Node:
    """Return a node whose state does not change, and to which the runtime has sent its list."""
    empty = pools.initial(machines.topology(machines.MACHINES["8cpu"]), tuning)
    pods, containers = {}, []
    for number in range(PODS):
        name, qos = f"pod{number}", QoSClass.SHARED if number % 2 else QoSClass.RECLAIMED
        path, wish = sampling.pod(number), Wish(qos)
        pod = Pod(name, name, name, "bench", cgroup_parent=f"/{path}")
        pods[name] = PodPlace(pod, wish, boxed=qos is QoSClass.RECLAIMED)
        container = Container(
            f"{name}-c", name, "c", cgroups_path=f"/{path}/c", resources=Resources(quota=100_000)
        )
        containers.append(Assignment(container, qos, qos.value, wish=wish))
    node = Node(replace(empty, pods=pods, containers=Crowd.of(containers)), tuning, memory_bytes=0)
    node.told = True
    return node


def run() -> dict[str, figures.Figures]:
    """Return the figures of every row that this machine can measure."""
    results: dict[str, figures.Figures] = {}
    for version in (1, 2):
        with folders.planted() as folder:
            tree = _planted(Path(folder), version)
            results |= _rows(folder, f"v{version}", partial(_stall, tree))
    if os.geteuid() != 0:
        print("left out: turns on real cgroups, which needs root")
        return results
    with sampling.real(), folders.planted() as folder:
        return results | _real(folder)


class Waiting(OpenStalls):
    """Reads real files, and adds a wait to each reading."""

    def __init__(self, layout: CgroupLayout) -> None:
        super().__init__(layout)
        self._readings = 0

    def io_us(self, path: str) -> int | None:
        """Return the stall, and a microsecond for each reading of any cgroup."""
        self._readings += 1
        us = super().io_us(path)
        return None if us is None else us + self._readings


class Ladder:
    """Verdicts, degrading and evictions of one daemon on the cgroups of this machine."""

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        folder.mkdir()
        node, layout = _node(tuning), cgroup_layout.detect("/")
        writer, told = _writer(layout, "/", str(folder)), Told()
        stalls, reader = StallReader(layout, "/"), CgroupReader(layout, "/")
        self._loop = Pressure(node, stalls, writer, told, disk_stalls=Waiting(layout))
        quotas = PodBandwidths(node, writer, cast("Any", told))
        self._degrader = Degrader(node, reader, judge=self._loop, quotas=quotas, report=told)
        starved = StarvedPods(node, told, picture=lambda: None, headroom=Headroom)
        self._disks, left = Disks(node, DiskLeftReader("/"), told), MemoryLeftReader(layout, "/")
        self._evictor = Evictor(
            node,
            Shortages(left, stalls, starved=starved, disks=self._disks, ladder=self._loop),
            orders=EvictionOrders(cast("Any", told), may_evict=lambda: True, observes=lambda: False),
            report=told,
            cool_down=CoolDown(str(folder), lambda: Clocks("", 0.0, 0.0)),
        )

    def check(self, now: float) -> None:
        """Read the I/O stall of online pods, as between two turns."""
        self._loop.times.is_alarmed(now)

    def look(self, now: float) -> None:
        """Take one turn."""
        self._loop.look(now)
        self._degrader.look(now)
        self._disks.look(now)
        self._evictor.look(now)


def _real(folder: str) -> dict[str, figures.Figures]:
    """Return the figures of turns with everything on, and with everything off."""
    ladders = {
        name: Ladder(Path(folder) / name, tuning) for name, tuning in (("on", ALL_ON), ("off", ALL_OFF))
    }
    samples: dict[str, list[int]] = {name: [] for name in (*ladders, "check")}
    gc.collect()
    gc.freeze()
    for turn in range(LEARNS + TURNS):
        for name, ladder in ladders.items():
            time.sleep(PAUSE_S)
            began = time.thread_time_ns()
            ladder.look(float(turn))
            samples[name].append(time.thread_time_ns() - began)
        time.sleep(PAUSE_S)
        began = time.thread_time_ns()
        ladders["on"].check(turn + CHECK_S)
        samples["check"].append(time.thread_time_ns() - began)
    gc.unfreeze()
    on, off, check = (mean(samples[name][LEARNS:]) for name in ("on", "off", "check"))
    print(f"pressure at {PODS} pods: mean {on / 1e7:.3f} % of a core, switched off {off / 1e7:.3f} %")
    checks = check * (1 / CHECK_S - 1)
    print(f"checks between two turns while every online pod waits for a disk: mean {checks / 1e7:.3f} %")
    return {f"turns.{name}.real": figures.of(found[LEARNS:]) for name, found in samples.items()}


def _planted(folder: Path, version: int) -> CgroupTree:
    machines.plant(machines.MACHINES["8cpu"], folder)
    tree = CgroupTree(folder, version, 0xFF, 1)
    tree.plant()
    for path in (
        sampling.OWN,
        sampling.KUBEPODS,
        *(f"{sampling.KUBEPODS}/{qos}" for qos in ("burstable", "besteffort")),
    ):
        tree.make(path)
    for number in range(PODS):
        tree.make(sampling.pod(number))
        tree.make(f"{sampling.pod(number)}/c")
    return tree


def _writer(layout: CgroupLayout, root: str, folder: str) -> CgroupWriter:
    return CgroupWriter(layout, Journal(f"{folder}/journal", root), root, lambda _path: None)


def _rows(root: str, name: str, hurts: Callable[[int], None]) -> dict[str, figures.Figures]:
    layout = cgroup_layout.detect(root)
    loop = Pressure(
        _node(ALL_ON),
        StallReader(layout, root),
        _writer(layout, root, root),
        Told(),
        disk_stalls=OpenStalls(layout),
    )
    return {
        f"turns.calm.{name}": _turns(loop, 0, lambda _turn: None),
        f"turns.hurt.{name}": _turns(loop, LEARNS + TURNS, hurts),
    }


def _turns(loop: Pressure, at: int, before: Callable[[int], None]) -> figures.Figures:
    """Return the figures of turns after those in which the loop settles."""
    samples = []
    for turn in range(at, at + LEARNS + TURNS):
        before(turn)
        began = time.thread_time_ns()
        loop.look(float(turn))
        samples.append(time.thread_time_ns() - began)
    measured = samples[LEARNS:]
    print(f"mean {sum(measured) / len(measured) / 1e7:.3f} % of a core")
    return figures.of(measured)


def _stall(tree: CgroupTree, turn: int) -> None:
    """Let every online pod stall for CPU in this turn, and every reclaimed pod use CPU."""
    for number in range(PODS):
        path = sampling.pod(number)
        if number % 2:
            us = turn * STALL_US
            tree.write(
                path, "cpu.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull total=0"
            )
        elif tree.version == 2:
            tree.write(path, "cpu.stat", f"usage_usec {turn * 400_000}\nnr_throttled 0\nthrottled_usec 0")
        else:
            tree.write(path, "cpuacct.usage", str(turn * 400_000_000))
