"""`sync.*`: the runtime's list of 110 pods with metadata that costs most to read (DESIGN §7, issue 26).

`sync.answered`: from the first byte of the list to the last answer, over all of its parts; the runtime grants two
seconds for that, and holds its lock. `sync.placed`: until the next hook is answered, when every container is placed.
`sync.ready`: from the daemon's start to `/readyz`; three seconds of it are a fixed wait. The memory is printed.
"""

import time
from pathlib import Path

from benchmarks import figures, folders
from benchmarks.runtime import MeasuredRuntime
from nri_coloc._pb import nri_pb2
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import machines
from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, shared
from tests.rig import tenants, vitals

PODS = 110
EACH = 3
ROUNDS = 7
READY_ROUNDS = 3

Lists = tuple[list[nri_pb2.PodSandbox], list[nri_pb2.Container]]


def run() -> dict[str, figures.Figures]:
    """Return the figures.

    Answers and placement are measured beside a socket of our own, readiness beside a simulated node.
    """
    return {**_listed(), f"sync.ready.{PODS}": figures.of([_ready_ns() for _ in range(READY_ROUNDS)])}


def _listed() -> dict[str, figures.Figures]:
    answered, placed = [], []
    pods, containers = _worst()
    with folders.planted() as root:
        machines.plant(machines.MACHINES["8cpu"], Path(root))
        with MeasuredRuntime(root) as runtime:
            before = vitals.look(runtime.plugin.pid).pss_kib
            for _ in range(ROUNDS):
                _told(runtime, ([], []), pods[0])
                answers, places = _told(runtime, (pods, containers), pods[0])
                answered.append(answers)
                placed.append(places)
            after = vitals.look(runtime.plugin.pid).pss_kib
    print(f"sync.pss.{PODS}: {before / 1024:.1f} MiB before, {after / 1024:.1f} MiB after")
    return {f"sync.answered.{PODS}": figures.of(answered), f"sync.placed.{PODS}": figures.of(placed)}


def _told(runtime: MeasuredRuntime, lists: Lists, probe: nri_pb2.PodSandbox) -> tuple[int, int]:
    """Send a list; return nanoseconds until it was answered, and until it was placed."""
    parts = list(runtime.adaptation.synchronize(*lists))
    began = time.perf_counter_ns()
    for _, data in parts:
        runtime.adaptation.receive_data(runtime.exchange(data)[1])
    answered = time.perf_counter_ns()
    runtime.hook(HookKind.POST_CREATE_CONTAINER, probe, nri_pb2.Container(id="probe"))
    return answered - began, time.perf_counter_ns() - began


def _worst() -> Lists:
    pods, containers = [], []
    for number in range(PODS):
        sandbox = nri_pb2.PodSandbox(id=f"p{number}", name=f"p{number}", uid=f"u{number}", namespace="shop")
        sandbox.annotations.update(tenants.readable(number))
        sandbox.linux.cgroup_parent = f"/kubepods/burstable/podu{number}"
        pods.append(sandbox)
        for index in range(EACH):
            container = nri_pb2.Container(
                id=f"c{number}-{index}", pod_sandbox_id=sandbox.id, name=f"c{index}"
            )
            container.linux.cgroups_path = f"{sandbox.linux.cgroup_parent}/{container.id}"
            container.linux.resources.cpu.shares.value = 102
            containers.append(container)
    return pods, containers


def _ready_ns() -> int:
    with folders.planted() as root, Node(Path(root), cgroup=1) as node:
        for number in range(PODS):
            shared(node, f"p{number}", annotations=tenants.readable(number))
        began = time.monotonic_ns()
        with daemon_of(node) as daemon:
            daemon.wait_ready()
            return time.monotonic_ns() - began
