"""Thousands of pushes beside containers that come and go: the runtime answers, and no plugin is disconnected.

NRI's own UpdateContainers wedged containerd 1.7.24 after 101 updates and 2.1.9 after 600 under such a load. Here each
version gets its pushes over the way that the product uses on it. `--pushes=N` sets their number; the figures are in
build/pushes.json afterwards.
"""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import grpc
import pytest

from tests.cluster import binaries
from tests.rig import cgroups, cleanup, hasty_daemon, workloads
from tests.rig.bystander import Bystander
from tests.rig.configuration import VERSIONS
from tests.rig.containerd import Containerd, bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.lent import LENT, held, lent
from tests.rig.packages import Unpacked
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = pytest.mark.containerd

RECORD: Final = Path("build/pushes.json")
SHARERS: Final = 24
JOBS: Final = 4
"""Offline pods that stay, and keep what they were lent whatever is pushed to others."""

LIVES: Final = 6
"""Of each kind that comes and goes, at the least, however soon the pushes are made; one takes a second."""

LIVES_S: Final = 300.0
SLOW_CALL_S: Final = 60.0
"""The kubelet gives up after 120; a containerd that is wedged never answers."""

STALL_S: Final = 180.0
"""Without a push for so long nothing is pushed any more."""

REST_S: Final = 0.2
"""Between two steps of a life: long enough for some of the others' specs to follow."""

STARTS_A_CROSSING: Final = 500
"""Lives for each start that may meet a narrowing of the box; one of some 3,700 did."""

CROSSING: Final = re.compile(r"runc create failed.*/kubepods/besteffort/.*cpuset\.cpus: permission denied")

CONFIG: Final = "runtime: {updatesPerReply: 0}\n"

NATIVE: Final = "2.4.2"
"""Compiled like the programs of a Kubernetes node; its NRI is the first whose own call for updates is safe."""

KINDS: Final[dict[str, Callable[[Cri, str], Workload]]] = {
    "owner": workloads.dedicated,
    "guest": workloads.shared,
    "batch": lent,
}
"""What comes and goes: who takes CPUs from the others, who shares what is left, who lives on what was lent."""


@dataclass
class Course:
    """Hold the observations of the runtime during the pushes.

    calls: seconds of each call.
    lives: number of pods by kind.
    crossed: starts that met a shrinking reclaim pool (`_started`).
    """

    calls: list[float] = field(default_factory=list)
    lives: Counter[str] = field(default_factory=Counter)
    crossed: int = 0

    def at(self, share: float) -> float:
        """Return the seconds that this share of the calls took at most."""
        return sorted(self.calls)[min(len(self.calls) - 1, int(share * len(self.calls)))]


@pytest.fixture(scope="module", params=(*VERSIONS, NATIVE), ids=lambda version: f"containerd-{version}")
def containerd(request: pytest.FixtureRequest) -> Iterator[Containerd]:
    if os.geteuid() != 0:
        pytest.skip("a real containerd needs root")
    found = bring_up("2", package=built()) if request.param == NATIVE else bring_up(request.param)
    try:
        yield found
    finally:
        found.stop()
    assert [left for traces in found.stopped for left in cleanup.leftovers(traces)] == []


def test_pushes_beside_churn_leave_the_runtime_answering_and_every_plugin_connected(
    containerd: Containerd, request: pytest.FixtureRequest, tmp_path: Path
):
    count = tmp_path / "pushes"
    count.touch()
    wanted = int(request.config.getoption("--pushes"))
    with (
        containerd.cri() as cri,
        Daemon(containerd, config=CONFIG, program=hasty_daemon.program(count)) as daemon,
        Bystander(containerd.nri_socket, "90") as bystander,
    ):
        daemon.wait_ready()
        crowd = [workloads.shared(cri, f"n{number}") for number in range(SHARERS)]
        jobs = [lent(cri, f"job{number}") for number in range(JOBS)]
        began = time.monotonic()
        with under_way(cri) as course:
            _pushed(count, wanted)
            wait_until(
                lambda: min(course.lives[kind] for kind in KINDS) >= LIVES, LIVES_S, "lives of each kind"
            )
        seconds, pushes = time.monotonic() - began, count.stat().st_size
        _note(containerd, course, {"pushes": pushes, "seconds": seconds, **bystander.heard})
        assert pushes >= wanted
        assert max(course.calls) < SLOW_CALL_S
        assert course.crossed <= 1 + course.lives.total() // STARTS_A_CROSSING
        assert not bystander.dropped.is_set(), "another plugin was disconnected"
        assert daemon.metric("nri_coloc_reconnects_total") == 0
        assert [
            record["because"] for record in (*daemon.audit("hook.failed"), *daemon.audit("push.failed"))
        ] == []
        wait_until(lambda: all(map(_agrees, crowd)), 120, "every spec to agree with its cgroup")
        assert [held(job) for job in jobs] == [LENT] * JOBS
        cri.remove_all()


def built() -> Unpacked:
    """Return the containerd that takes pushes over NRI; compile it the first time."""
    return Unpacked(binaries.programs(binaries.containerd(NATIVE)), NATIVE, "compiled")


def _pushed(count: Path, wanted: int) -> None:
    """Wait for this number of pushes, as long as pushes go on; `count` has a byte for each."""
    while (before := count.stat().st_size) < wanted:
        grown = poll(lambda: count.stat().st_size > before, STALL_S)
        assert grown, f"no push for {STALL_S:g} s after {before}"


def _agrees(sharer: Workload) -> bool:
    return sharer.cpus == NODE_CPUS == cgroups.members(sharer.spec_cpus)


@contextmanager
def under_way(cri: Cri) -> Iterator[Course]:
    """Start and remove pods of each kind, and call the runtime again and again."""
    over, course = Event(), Course()
    with ThreadPoolExecutor(len(KINDS) + 1) as pool:
        work = [pool.submit(_come_and_go, cri, kind, over, course) for kind in KINDS]
        work.append(pool.submit(_ask, cri, over, course))
        try:
            yield course
        finally:
            over.set()
        for each in work:
            each.result(300)


def _come_and_go(cri: Cri, kind: str, over: Event, course: Course) -> None:
    while not over.is_set():
        guest = _started(cri, kind, course)
        over.wait(REST_S)
        if guest is not None:
            cri.remove_pod(guest.pod.id)
        over.wait(REST_S)
        course.lives[kind] += 1


def _started(cri: Cri, kind: str, course: Course) -> Workload | None:
    """Run a pod; None if it met the known limit of cgroup v1 (docs/limits.md), after which a kubelet tries again.

    runc gives a new cgroup the CPUs that it has just read from its parent. If these became fewer in between, the kernel
    refuses the write.
    """
    try:
        return KINDS[kind](cri, f"{kind}{course.lives[kind]}")
    except grpc.RpcError as error:
        if not CROSSING.search(str(error.details())):
            raise
        course.crossed += 1
        return None


def _ask(cri: Cri, over: Event, course: Course) -> None:
    while not over.wait(0.02):
        began = time.monotonic()
        cri.list_pods()
        course.calls.append(time.monotonic() - began)


def _note(containerd: Containerd, course: Course, figures: dict[str, float]) -> None:
    """Write the figures of each version."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[containerd.package.version] = {
        **figures,
        "lives": course.lives.total(),
        "crossed": course.crossed,
        "calls": len(course.calls),
        "call_p50_s": course.at(0.5),
        "call_p99_s": course.at(0.99),
        "call_max_s": max(course.calls),
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(known, indent=1) + "\n")
