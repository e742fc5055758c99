"""`hook.create.shared.250.lending-{off,on}`: does a hook wait for the loops that measure?

Two daemons, one that lends and one that does not, have the same 250 containers. 110 of them have cgroups whose counters
move. Half of these are online (half of them with a quota, the most expensive kind) and half are reclaimed. The daemons
take turns, so that other work on the machine meets both. Creations come back to back, and for so long that sweeps and
snapshots fall among them.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks import figures, folders
from benchmarks.hook import Numbers, new_container, pods_of
from benchmarks.runtime import MeasuredRuntime, container_of
from nri_coloc._pb import nri_pb2
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree

MEASURED: Final = 110
LIVE: Final = 250
TURNS: Final = 40
CALLS: Final = 500
QUOTA_US: Final = 50_000
MACHINE: Final = "epyc-256"


def run() -> dict[str, figures.Figures]:
    """Return the figures of both, measured alternately."""
    samples: dict[str, list[int]] = {"off": [], "on": []}
    with ExitStack() as stack:
        sides = {name: stack.enter_context(_side(name)) for name in samples}
        for turn in range(TURNS):
            for name in sorted(sides, reverse=bool(turn % 2)):
                samples[name] += _creations(*sides[name], CALLS)
    found = {name: figures.of(taken) for name, taken in samples.items()}
    off, on = found["off"], found["on"]
    print(
        f"lending takes {on.p50_us / off.p50_us:.2f} of the time at p50, {on.p99_us / off.p99_us:.2f} at p99"
    )
    return {f"hook.create.shared.{LIVE}.lending-{name}": each for name, each in found.items()}


@contextmanager
def _side(name: str) -> Iterator[tuple[MeasuredRuntime, Numbers]]:
    with folders.planted() as folder:
        host = Path(folder) / "host"
        spec = machines.MACHINES[MACHINE]
        machines.plant(spec, host)
        known = machines.topology(spec)
        tree = CgroupTree(host, 1, known.online, known.all_mems)
        tree.plant()
        config = Path(folder) / "config.yaml"
        config.write_text(f"reclaim: {{enabled: {'true' if name == 'on' else 'false'}}}\n")
        with MeasuredRuntime(str(host), f"--config={config}") as runtime, _used(host):
            numbers = Numbers()
            for number in range(LIVE):
                _run_pod(runtime, numbers, tree if number < MEASURED else None)
            _creations(runtime, numbers, CALLS)
            yield runtime, numbers


@contextmanager
def _used(host: Path) -> Iterator[None]:
    """Let counters of the pods rise while the block lasts."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.usage", str(host)])
    try:
        yield
    finally:
        process.terminate()
        process.wait(5)


def _run_pod(runtime: MeasuredRuntime, numbers: Numbers, tree: CgroupTree | None) -> None:
    """Run one pod, round-robin: reclaimed, online, or online with a quota; make its cgroups if it is to be measured."""
    kind = (numbers.next() - 1) % 4
    qos = "besteffort" if kind % 2 else "burstable"
    pod, container = new_container(numbers, 2 if kind % 2 else 512, qos)
    if kind == 2:
        container.linux.resources.cpu.quota.value = QUOTA_US
    if tree is not None:
        _make(tree, pod)
    runtime.hook(HookKind.RUN_POD_SANDBOX, pod)
    runtime.hook(HookKind.CREATE_CONTAINER, pod, container)
    if tree is not None:
        tree.make(container.linux.cgroups_path.lstrip("/"))
        container.pid = 1
    runtime.hook(HookKind.START_CONTAINER, pod, container)


def _make(tree: CgroupTree, pod: nri_pb2.PodSandbox) -> None:
    tree.make(pod.linux.cgroup_parent.lstrip("/"))


def _creations(runtime: MeasuredRuntime, numbers: Numbers, calls: int) -> list[int]:
    pods = pods_of(runtime, numbers, "burstable")
    taken = []
    for turn in range(calls):
        pod = pods[turn % len(pods)]
        container = container_of(pod, f"{numbers.next():064x}", 512)
        took, _ = runtime.hook(HookKind.CREATE_CONTAINER, pod, container)
        runtime.hook(HookKind.STOP_CONTAINER, pod, container)
        taken.append(took)
    for pod in pods:
        runtime.hook(HookKind.REMOVE_POD_SANDBOX, pod)
    return taken
