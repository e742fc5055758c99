"""`turns.*`: CPU time of one turn of the pressure loop at 110 pods, half of them online and half reclaimed.

The loop takes one turn a second, so 3,000 µs are 0.3 % of a core. `….calm` is a turn in which no pod is hurt, `….hurt`
one in which every online pod is: then all pods are read and culprits are searched. Rows `….v1` and `….v2` read a
simulated node's files; `….real` reads cgroups of this machine (root), which are made and removed again.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import figures, folders, sampling
from nri_coloc.core.decisions import Decision
from nri_coloc.core.settings import PressureTuning, RungTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace
from nri_coloc.core.workload import Container, Pod, QoSClass, Resources, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.stall_readings import StallReader
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.pressure.loop import Pressure
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree

PODS: Final = 110
LEARNS: Final = 100
"""Turns until every online pod has its baselines."""

TURNS: Final = 200
STALL_US: Final = 900_000


class Told:
    """Forgets what it is told."""

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        """Take decisions."""

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None:
        """Take a refusal."""


def _node() -> Node:
    """Return a node whose state does not change, and to which the runtime has sent its list."""
    tuning = Tuning(pressure=PressureTuning(io=RungTuning(throttles=True)))
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
        results["turns.calm.real"] = _turns(_loop("/", folder), 0, lambda _turn: None)
    return results


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


def _loop(root: str, folder: str) -> Pressure:
    layout = cgroup_layout.detect(root)
    writer = CgroupWriter(layout, Journal(f"{folder}/journal", root), root, lambda _path: None)
    return Pressure(_node(), StallReader(layout, root), writer, Told())


def _rows(root: str, name: str, hurts: Callable[[int], None]) -> dict[str, figures.Figures]:
    loop = _loop(root, root)
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
