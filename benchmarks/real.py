"""`real.*`: on a real containerd of the distribution's packages (root): exclusivity beside 250 containers, cold start.

`real.dedicated.250.without` is CreateContainer and StartContainer of a pod's container while no plugin is connected.
`.with` is the same up to the moment at which all 250 shared containers are read back off its CPU. Both are measured in
one run. `.cold_start` ends with the answer to Synchronize, `.cold_start.ready` with readiness: 3 s later a comparison
with CRI's own list has found no missing container.
"""

import time

from benchmarks import containerds, figures
from tests.rig import workloads
from tests.rig.configuration import Version
from tests.rig.containerd import bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, Workload

SHARERS = 250
PODS = 25
ROUNDS = 7


def run() -> dict[str, figures.Figures]:
    """Return the figures of every version of containerd that the rig knows."""
    return containerds.each(_of)


def _of(version: Version) -> dict[str, figures.Figures]:
    containerd = bring_up(version)
    try:
        with containerd.cri() as cri, Daemon(containerd) as daemon:
            daemon.kill()
            crowd = containerds.crowd(cri, SHARERS, PODS)
            without = [_arrival(cri, []) for _ in range(ROUNDS)]
            starts, readies = zip(*(_cold_start(daemon) for _ in range(ROUNDS)), strict=True)
            with_us = [_arrival(cri, crowd) for _ in range(ROUNDS)]
    finally:
        containerd.stop()
    return {
        f"real.{version}.dedicated.250.without": figures.of(without),
        f"real.{version}.dedicated.250.with": figures.of(with_us),
        f"real.{version}.cold_start": figures.of(starts),
        f"real.{version}.cold_start.ready": figures.of(readies),
    }


def _cold_start(daemon: Daemon) -> tuple[int, int]:
    """Return nanoseconds from the program's start to its synchronisation with all that runs, and to readiness."""
    daemon.kill()
    began = time.monotonic_ns()
    daemon.start()
    daemon.wait_synchronised()
    synchronised = time.monotonic_ns() - began
    daemon.wait_ready()
    return synchronised, time.monotonic_ns() - began


def _arrival(cri: Cri, crowd: list[Workload]) -> int:
    pod = cri.run_pod("newcomer", annotations={workloads.QOS: "dedicated"})
    began = time.monotonic_ns()
    web = workloads.add(cri, pod, "app", request=1)
    owned = web.cpus if crowd else None
    left = NODE_CPUS - (owned or frozenset())
    wait_until(lambda: all(member.cpus == left for member in crowd), 5, "everybody to make room")
    took = time.monotonic_ns() - began
    cri.remove_pod(pod.id)
    wait_until(lambda: all(member.cpus == NODE_CPUS for member in crowd), 10, "everybody to be back")
    return took
