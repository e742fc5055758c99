"""`pushes.*`: 50 changed containers pushed into the specs of a real containerd (root): how long other calls wait.

The other calls are made round-robin: an update of a container that changes nothing of ours (`update`: one runc run
under the runtime's lock, as a push is), the creation of a container (`create`) and a list of all (`list`). `.alone` is
without pushes, `.beside` while they run, `.delay` how much longer each took than the median alone. `.all` is the time
until the last of the 50 specs agreed. The hook's own reply carries none of them here.
"""

import time
from collections.abc import Callable
from typing import TypeVar

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
LOOK_EVERY = 12
"""Calls between two looks at the specs, which are calls too."""

Answer = TypeVar("Answer")


def run() -> dict[str, figures.Figures]:
    """Return the figures of every version of containerd that the rig knows."""
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
            alone, beside = Calls(other), Calls(other)
            took: list[int] = []
            for _ in range(ROUNDS):
                alone.make(ALONE)
                took.append(_round(cri, crowd, beside))
            failed = daemon.audit("push.failed")
    finally:
        containerd.stop()
    if failed:
        raise AssertionError(f"{len(failed)} pushes failed: {failed[0]}")
    name = f"pushes.{version}.{CHANGED}"
    rows = {f"{name}.all": figures.of(took)}
    for kind, usual in alone.took.items():
        rows |= _rows(f"{name}.{kind}", usual, beside.took[kind])
    return rows


def _rows(name: str, alone: list[int], beside: list[int]) -> dict[str, figures.Figures]:
    usual = sorted(alone)[len(alone) // 2]
    return {
        f"{name}.alone": figures.of(alone),
        f"{name}.beside": figures.of(beside),
        f"{name}.delay": figures.of([max(0, call - usual) for call in beside]),
    }


class Calls:
    """Make calls of each kind beside one container, and keep the nanoseconds that each took."""

    def __init__(self, other: Workload) -> None:
        self.took: dict[str, list[int]] = {"update": [], "create": [], "list": []}
        self.other = other

    def make(self, number: int) -> None:
        """Make this number of calls, round-robin over the kinds."""
        for _ in range(number // len(self.took)):
            self._call()

    def _call(self) -> None:
        cri, pod = self.other.cri, self.other.pod
        self._time("update", lambda: cri.update(self.other.id, shares=2))
        container = self._time("create", lambda: cri.create_container(pod, "passing"))
        self._time("list", cri.list_containers)
        cri.remove(container)

    def _time(self, kind: str, call: Callable[[], Answer]) -> Answer:
        began = time.monotonic_ns()
        answer = call()
        self.took[kind].append(time.monotonic_ns() - began)
        return answer


def _round(cri: Cri, crowd: list[Workload], beside: Calls) -> int:
    """Return the nanoseconds until all specs follow a new dedicated container.

    Calls are made meanwhile. Then the container is removed, and the specs follow again.
    """
    web = workloads.dedicated(cri)
    took = _until_all_have(crowd, NODE_CPUS - web.first_cpus(), beside)
    cri.remove_pod(web.pod.id)
    _until_all_have(crowd, NODE_CPUS, Calls(beside.other))
    return took


def _until_all_have(crowd: list[Workload], cpus: frozenset[int], calls: Calls) -> int:
    began = time.monotonic_ns()
    left = crowd
    while left:
        calls.make(LOOK_EVERY)
        left = [member for member in left if cgroups.members(member.spec_cpus) != cpus]
        if time.monotonic_ns() - began > MOST_SECONDS * 1_000_000_000:
            raise AssertionError(f"{len(left)} specs do not follow")
    return time.monotonic_ns() - began
