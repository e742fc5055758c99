"""Thousands of pushes beside containers that come and go: the runtime answers, and nobody is disconnected.

NRI's own UpdateContainers wedged containerd 1.7.24 after 101 updates and 2.1.9 after 600 under such a load; what is
pushed here goes the way that the product takes on each. `--pushes=N` says how many; the figures are in
build/pushes.json afterwards.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from tests.rig import cgroups, cleanup, hasty_daemon, workloads
from tests.rig.bystander import Bystander
from tests.rig.configuration import VERSIONS, Version
from tests.rig.containerd import Containerd, bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = pytest.mark.containerd

RECORD: Final = Path("build/pushes.json")
SHARERS: Final = 24
SLOW_CALL_S: Final = 30.0
"""The kubelet gives up after 120; a containerd that is wedged never answers."""

STALL_S: Final = 180.0
"""Without a push for so long nothing is pushed any more."""

REST_S: Final = 0.2
"""Between two steps of a life: long enough for some of the others' specs to follow."""

CONFIG: Final = "runtime: {updatesPerReply: 0}\n"


@dataclass
class Course:
    """What was seen of the runtime meanwhile, seconds."""

    calls: list[float] = field(default_factory=list)
    lives: int = 0

    def at(self, share: float) -> float:
        """The time that this share of the calls took at most."""
        return sorted(self.calls)[min(len(self.calls) - 1, int(share * len(self.calls)))]


@pytest.fixture(scope="module", params=VERSIONS, ids=[f"containerd-{version}" for version in VERSIONS])
def version(request: pytest.FixtureRequest) -> Version:
    if os.geteuid() != 0:
        pytest.skip("a real containerd needs root")
    found: Version = request.param
    return found


@pytest.fixture(scope="module")
def containerd(version: Version) -> Iterator[Containerd]:
    found = bring_up(version)
    try:
        yield found
    finally:
        found.stop()
    assert [left for traces in found.stopped for left in cleanup.leftovers(traces)] == []


def test_pushes_beside_churn_leave_the_runtime_answering_and_every_plugin_connected(
    containerd: Containerd, request: pytest.FixtureRequest
):
    wanted = int(request.config.getoption("--pushes"))
    with (
        containerd.cri() as cri,
        Daemon(containerd, config=CONFIG, program=hasty_daemon.PROGRAM) as daemon,
        Bystander(containerd.nri_socket, "90") as bystander,
    ):
        daemon.wait_ready()
        crowd = [workloads.shared(cri, f"n{number}") for number in range(SHARERS)]
        began = time.monotonic()
        with under_way(cri) as course:
            _pushed(bystander, wanted)
        seconds, pushes = time.monotonic() - began, bystander.heard["UpdateContainer"]
        _note(containerd, course, {"pushes": pushes, "seconds": seconds, **bystander.heard})
        assert pushes >= wanted
        assert max(course.calls) < SLOW_CALL_S
        assert not bystander.dropped.is_set(), "another plugin was disconnected"
        assert daemon.metric("nri_coloc_reconnects_total") == 0
        assert daemon.audit("hook.failed") == daemon.audit("push.failed") == []
        wait_until(lambda: all(map(_agrees, crowd)), 120, "every spec to agree with its cgroup")
        cri.remove_all()


def _pushed(bystander: Bystander, wanted: int) -> None:
    """Wait until so many pushes have reached the other plugin, as long as they come at all."""
    while (before := bystander.heard["UpdateContainer"]) < wanted:
        grown = poll(lambda: bystander.heard["UpdateContainer"] > before, STALL_S)
        assert grown, f"no push for {STALL_S:g} s after {before}"


def _agrees(sharer: Workload) -> bool:
    return sharer.cpus == NODE_CPUS == cgroups.members(sharer.spec_cpus)


@contextmanager
def under_way(cri: Cri) -> Iterator[Course]:
    """Let owners of CPUs and offline pods come and go, and ask the runtime again and again."""
    over, course = Event(), Course()
    owners = lambda number: workloads.dedicated(cri, f"db{number}")  # noqa: E731 - two of a kind
    offline = lambda number: workloads.reclaimed(cri, f"job{number}")  # noqa: E731
    with ThreadPoolExecutor(3) as pool:
        work = [pool.submit(_come_and_go, cri, run, over, course) for run in (owners, offline)]
        work.append(pool.submit(_ask, cri, over, course))
        try:
            yield course
        finally:
            over.set()
        for each in work:
            each.result(300)


def _come_and_go(cri: Cri, run: Callable[[int], Workload], over: Event, course: Course) -> None:
    number = 0
    while not over.is_set():
        guest = run(number)
        over.wait(REST_S)
        cri.remove_pod(guest.pod.id)
        over.wait(REST_S)
        course.lives, number = course.lives + 1, number + 1


def _ask(cri: Cri, over: Event, course: Course) -> None:
    while not over.wait(0.02):
        began = time.monotonic()
        cri.list_pods()
        course.calls.append(time.monotonic() - began)


def _note(containerd: Containerd, course: Course, figures: dict[str, float]) -> None:
    """Keep the figures of each version."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[containerd.package.version] = {
        **figures,
        "lives": course.lives,
        "calls": len(course.calls),
        "call_p50_s": course.at(0.5),
        "call_p99_s": course.at(0.99),
        "call_max_s": max(course.calls),
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(known, indent=1) + "\n")
