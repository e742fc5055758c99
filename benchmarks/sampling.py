"""`sampling.*`: one fast tick, a whole snapshot and its slices (CPU time), on simulated and on real cgroups.

`.sim` rows read node_sim's files in a folder. The other rows read cgroups that are made below `nri-coloc-bench` in
every hierarchy of this machine (root) and removed again. Each pod has one container with a quota, which is the most
expensive kind for the fast tick; `.plain` rows have none. Rows `….8cpu`, `….64cpu` and `….256cpu` are for machines of
so many CPUs, with 110 pods. `sampling.amounts` is a snapshot of the amounts that decisions need: eleven of twelve
snapshots are.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks import figures, folders
from nri_coloc.core.readings import Role
from nri_coloc.forecast.snapshot import PictureTaker, Subjects
from nri_coloc.host import cgroup_layout
from nri_coloc.lending import groups
from nri_coloc.lending.groups import ContainerFacts, Facts, PodFacts
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree
from tests.rig import kubepods

SIZES: Final = (10, 50, 110)
MACHINES: Final = {"8cpu": 8, "xeon-64": 64, "epyc-256": 256}
RESERVED: Final = 0b11
"""On machines of several sizes: /proc/stat is read for these, and /proc/zoneinfo has lines for each CPU."""

TICKS: Final = 2000
PICTURES: Final = 40
OWN: Final = "nri-coloc-bench"
KUBEPODS: Final = f"{OWN}/kubepods"


def run() -> dict[str, figures.Figures]:
    """Return the figures of every row that this machine can measure."""
    results: dict[str, figures.Figures] = {}
    with folders.planted() as folder, simulated(Path(folder)) as root:
        results |= _rows(root, ".sim")
    for name, cpus in MACHINES.items():
        with folders.planted() as folder, simulated(Path(folder), name) as root:
            results |= _by_cpus(root, cpus)
    if os.geteuid() != 0:
        print("left out: sampling on real cgroups, which needs root")
        return results
    with real():
        results |= _rows("/", "")
    return results


def _rows(root: str, suffix: str) -> dict[str, figures.Figures]:
    rows = {}
    for size in SIZES:
        rows[f"sampling.fast.{size}{suffix}"] = _ticks(root, facts(size, limited=True))
    rows[f"sampling.fast.{SIZES[-1]}.plain{suffix}"] = _ticks(root, facts(SIZES[-1], limited=False))
    pictures, slices = _pictures(root, subjects(SIZES[-1]))
    rows[f"sampling.picture.{SIZES[-1]}{suffix}"] = pictures
    rows[f"sampling.slice.{SIZES[-1]}{suffix}"] = slices
    return rows


def _by_cpus(root: str, cpus: int) -> dict[str, figures.Figures]:
    """Return the figures of the largest node on a machine with this number of CPUs, two of them reserved."""
    nodes = machines.topology(next(machines.MACHINES[n] for n, c in MACHINES.items() if c == cpus)).nodes
    known = replace(subjects(SIZES[-1]), reserved=RESERVED, nodes=tuple(node.id for node in nodes))
    pictures, _ = _pictures(root, known)
    amounts, _ = _pictures(root, replace(known, containers={}, amounts_only=True))
    fast = _ticks(root, replace(facts(SIZES[-1], limited=True), reserved=RESERVED))
    return {
        f"sampling.fast.{cpus}cpu.sim": fast,
        f"sampling.picture.{cpus}cpu.sim": pictures,
        f"sampling.amounts.{cpus}cpu.sim": amounts,
    }


def facts(size: int, *, limited: bool) -> Facts:
    """Return a node with half its pods online and half reclaimed, except one agent among these."""
    pods = []
    for number in range(size):
        path = pod(number)
        role = Role.ONLINE if number % 2 else Role.SYSTEM if not number else Role.BOX
        container = ContainerFacts(f"{path}/c", limited=limited)
        pods.append(PodFacts(path, role, (container,)))
    return Facts((KUBEPODS,), tuple(pods))


def pod(number: int) -> str:
    """Return the cgroup of the pod of this number."""
    return f"{KUBEPODS}/{'burstable' if number % 2 else 'besteffort'}/pod{number}"


def _ticks(root: str, known: Facts) -> figures.Figures:
    sampler = FastSampler(cgroup_layout.detect(root), root)
    sampler.watch(groups.choose(known))
    for _ in range(TICKS // 10):
        sampler.read(time.monotonic())
    samples = []
    for _ in range(TICKS):
        began = time.perf_counter_ns()
        read = sampler.read(time.monotonic())
        samples.append(time.perf_counter_ns() - began)
        assert read
        assert read[0].usage_us is not None
    sampler.close()
    return figures.of(samples)


def subjects(size: int) -> Subjects:
    """Return the same pods for a snapshot."""
    pods = {str(number): pod(number) for number in range(size)}
    return Subjects((KUBEPODS,), pods, {name: f"{path}/c" for name, path in pods.items()})


def _pictures(root: str, known: Subjects) -> tuple[figures.Figures, figures.Figures]:
    """Return the figures in CPU time: a snapshot is so long that other processes run in between."""
    taker = PictureTaker(cgroup_layout.detect(root), root)
    pictures, slices = [], []
    for _ in range(PICTURES):
        total = 0
        taking = taker.slices(known)
        picture = None
        while picture is None:
            began = time.thread_time_ns()
            picture = next(taking)
            slices.append(time.thread_time_ns() - began)
            total += slices[-1]
        assert len(picture.containers) == len(known.containers)
        pictures.append(total)
    return figures.of(pictures), figures.of(slices)


@contextmanager
def simulated(folder: Path, machine: str = "8cpu") -> Iterator[str]:
    """Plant a machine with all pods below a folder; yield the host root."""
    machines.plant(machines.MACHINES[machine], folder)
    tree = CgroupTree(folder, 1, 0xFF, 1)
    tree.plant()
    for path in (OWN, KUBEPODS, f"{KUBEPODS}/burstable", f"{KUBEPODS}/besteffort"):
        tree.make(path)
    for number in range(SIZES[-1]):
        tree.make(pod(number))
        tree.make(f"{pod(number)}/c")
    yield str(folder)


@contextmanager
def real() -> Iterator[None]:
    """Make all pods' cgroups in every hierarchy, and remove them at the end."""
    try:
        for number in range(SIZES[-1]):
            kubepods.create(f"/{pod(number)}/c")
        yield
    finally:
        kubepods.remove(f"/{OWN}")
