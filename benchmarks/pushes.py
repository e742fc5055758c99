"""`pushes.*`: 50 changed containers pushed into the specs of a real containerd (root): how much others' calls wait.

The other call is an update of a container that changes nothing of ours: one runc run under the runtime's lock, as a
push is. `.alone` without pushes, `.beside` while they run, `.delay` how much longer each took than the median alone;
`.all` until the last of the 50 specs agreed. The hook's own reply carries none of them here.
"""

import time

from benchmarks import containerds, figures
from tests.rig import cgroups, workloads
from tests.rig.configuration import Version
from tests.rig.containerd import bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.workloads import NODE_CPUS, Workload

CHANGED = 50
PODS = 5
ROUNDS = 3
ALONE = 150
MOST_SECONDS = 60
LOOK_EVERY = 10
"""Calls between two looks at the specs, which are calls too."""


def run() -> dict[str, figures.Figures]:
    """Measure every version of containerd that the rig knows."""
    return containerds.each(_of)


def _of(version: Version) -> dict[str, figures.Figures]:
    containerd = bring_up(version)
    try:
        with containerd.cri() as cri, Daemon(containerd, config="runtime: {updatesPerReply: 0}\n") as daemon:
            daemon.wait_synchronised()
            crowd, other = (
                containerds.crowd(cri, CHANGED, PODS),
                workloads.run(cri, "other", "system", namespace="kube-system"),
            )
            alone: list[int] = []
            beside: list[int] = []
            took: list[int] = []
            for _ in range(ROUNDS):
                alone += [_call(other) for _ in range(ALONE)]
                took.append(_round(cri, crowd, other, beside))
            failed = daemon.audit("push.failed")
    finally:
        containerd.stop()
    if failed:
        raise AssertionError(f"{len(failed)} pushes failed: {failed[0]}")
    usual = sorted(alone)[len(alone) // 2]
    name = f"pushes.{version}.{CHANGED}"
    return {
        f"{name}.alone": figures.of(alone),
        f"{name}.beside": figures.of(beside),
        f"{name}.delay": figures.of([max(0, call - usual) for call in beside]),
        f"{name}.all": figures.of(took),
    }


def _call(other: Workload) -> int:
    """Return the nanoseconds of one update."""
    began = time.monotonic_ns()
    other.cri.update(other.id, shares=2)
    return time.monotonic_ns() - began


def _round(cri: Cri, crowd: list[Workload], other: Workload, beside: list[int]) -> int:
    """Let a dedicated container come, and call until all specs follow; then let it go, and wait for them."""
    web = workloads.dedicated(cri)
    took = _until_all_have(crowd, NODE_CPUS - web.first_cpus(), other, beside)
    cri.remove_pod(web.pod.id)
    _until_all_have(crowd, NODE_CPUS, other, [])
    return took


def _until_all_have(crowd: list[Workload], cpus: frozenset[int], other: Workload, calls: list[int]) -> int:
    began = time.monotonic_ns()
    left = crowd
    while left:
        calls += [_call(other) for _ in range(LOOK_EVERY)]
        left = [member for member in left if cgroups.members(member.spec_cpus) != cpus]
        if time.monotonic_ns() - began > MOST_SECONDS * 1_000_000_000:
            raise AssertionError(f"{len(left)} specs do not follow")
    return time.monotonic_ns() - began
