"""A refused write is logged once and retried a limited number of times; other containers are served.

Every errno is tried with every writer. The kernel is a folder of files whose writes are refused. Each attempt is
counted where it reaches the kernel: at write(2), or at the system call of the scheduler.
"""

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import ContainerUpdating, PoolsSized
from nri_coloc.core.knobs import Capability
from nri_coloc.core.lending import Part
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.scheduler_hints import Hint, Policy
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.workload import Resources
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, scheduler
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue, Target, memory_bounds
from nri_coloc.memory.worker import Bounds, MemoryWorker
from nri_coloc.repair import drift
from nri_coloc.repair.drift import LONGEST_PAUSE_S, REPAIRS_PER_MINUTE
from nri_coloc.repair.host_groups import HostGroups
from nri_coloc.sim.cgroup_tree import CgroupTree
from nri_coloc.tuning.bandwidths import PodBandwidths
from tests.unit.parts import a_node, a_report, an_actuator, create, start_pod
from tests.unit.placing import kit


class Clock:
    """Fake clock for the pauses after refused writes."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


ERRORS: Final = {name: getattr(errno, name) for name in ("EINVAL", "EBUSY", "EACCES", "ENODEV")}
POD, APP = "kubepods/podbatch", "kubepods/podbatch/app"
BOX: Final = cpuset.parse("2-3")
GIB: Final = 1 << 30


class Rig:
    """One reclaimed pod with a container on a v1 machine; `refuse` makes files of a name refuse writes."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "host"
        self.tree = CgroupTree(self.root, 1, 0xFF, 1)
        self.tree.plant()
        for path in (POD, APP):
            self.tree.make(path)
        self.node = a_node()
        start_pod(self.node, "batch")
        self.report, self.heard = a_report(self.node)
        journal = Journal(str(root / "journal"), str(self.root))
        self.writer = CgroupWriter(
            cgroup_layout.detect(str(self.root)), journal, str(self.root), lambda _: None
        )
        self.attempts: Counter[str] = Counter()
        self._refused: dict[str, int] = {}
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def refuse(self, name: str, number: int) -> None:
        self._refused[name] = number

    def relent(self) -> None:
        self._refused.clear()

    def write(self, fd: int, data: bytes) -> int:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        self.attempts[name] += 1
        if name in self._refused:
            raise OSError(self._refused[name], os.strerror(self._refused[name]))
        return self._write(fd, data)

    @property
    def told(self) -> list[str]:
        return [one.because for one in self.heard.records if one.event is AuditEvent.WRITE_FAILED]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


Failures = tuple[KernelInterfaceError, ...]


def _alone(failure: KernelInterfaceError | None) -> Failures:
    return () if failure is None else (failure,)


WRITERS: Final[dict[str, tuple[str, Callable[[CgroupWriter], Failures]]]] = {
    "cpuset": ("cpuset.cpus", lambda writer: writer.apply(Target(POD, BOX)).failures),
    "weight": (
        "cpu.shares",
        lambda writer: writer.apply(Target(POD, 0, (FileValue("cpu", "cpu.shares", "2"),))).failures,
    ),
    "box memory": (
        "memory.limit_in_bytes",
        lambda writer: writer.bound(POD, memory_bounds(0, GIB, 1)).failures,
    ),
    "quota": (
        "cpu.cfs_quota_us",
        lambda writer: writer.bandwidth(PodBandwidth(POD, {APP: Share(40_000, 50_000)}), 0.0).failures,
    ),
    "burst": (
        "cpu.cfs_burst_us",
        lambda writer: writer.bandwidth(PodBandwidth(POD, {APP: Share(burst=5000)}), 0.0).failures,
    ),
    "score": ("oom_score_adj", lambda writer: _alone(writer.score(APP, [7], 1000))),
}
"""Every writer of a cgroup's or a process's file, with the file that is refused."""


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_refusal_names_its_file_and_an_absent_file_is_nothing(rig, writer, error):
    name, act = WRITERS[writer]
    (rig.root / "proc/7").mkdir(parents=True)
    (rig.root / "proc/7/oom_score_adj").write_text("0\n")
    rig.tree.write(APP, "cpu.cfs_quota_us", "40000")
    rig.refuse(name, ERRORS[error])
    failures = act(rig.writer)
    if error == "ENODEV":
        assert failures == ()
    else:
        assert failures
        assert all(one.path.endswith(name) and os.strerror(ERRORS[error]) in str(one) for one in failures)
    assert 1 <= rig.attempts[name] <= 3


@pytest.mark.parametrize("error", [*ERRORS, "ESRCH"])
def test_the_schedulers_refusal_is_returned_and_ends_the_round(rig, monkeypatch, error):
    calls: list[Any] = []

    class Kernel:
        def syscall(self, *arguments: Any) -> int:
            calls.append(arguments)
            ctypes.set_errno(getattr(errno, error))
            return -1

    monkeypatch.setattr(scheduler, "_libc", Kernel())
    folder = Path(rig.writer._layout.folder("cpu", APP) or "")
    (folder / "tasks").write_text("7\n8\n9\n")
    failure = scheduler.tell_all(str(folder), 1, Hint(Policy.BATCH))
    if error == "ESRCH":
        assert failure is None
        assert [tid for _, tid, *_ in calls] == [7, 8, 9], "a task that is gone is nothing, and is asked once"
    else:
        assert failure is not None
        assert len(calls) == 1
    assert scheduler.reset(7) is None or error != "ESRCH"


@pytest.mark.parametrize("error", ["EINVAL", "EBUSY", "EACCES"])
@pytest.mark.parametrize("name", ["cpu.shares", "cpuset.cpus"])
def test_a_refusing_pod_is_reported_once_and_retries_end(rig, name, error):
    """Kernels refuse so where `cpu.idle` locks a weight (EINVAL), or a child's set lies outside (EBUSY)."""
    actuator = an_actuator(rig.node, rig.writer, rig.report)
    rig.node.learn(Capability(cgroup=1))
    rig.tree.write(POD, "cpuset.cpus", "0")
    rig.refuse(name, ERRORS[error])
    for _ in range(100):
        actuator.guard_pod("batch")
    assert 0 < rig.attempts[name] <= 2 * REPAIRS_PER_MINUTE
    assert len(rig.told) == 1
    assert os.strerror(ERRORS[error]) in rig.told[0]
    assert not [one for one in rig.heard.records if one.event is AuditEvent.DRIFT_REPAIR], (
        "nothing was repaired"
    )


def test_an_order_is_carried_out_however_often_repairs_were_refused(rig):
    actuator = an_actuator(rig.node, rig.writer, rig.report)
    rig.node.learn(Capability(cgroup=1))
    rig.refuse("cpu.shares", errno.EINVAL)
    for _ in range(20):
        actuator.guard_pod("batch")
    rig.tree.write(POD, "cpuset.cpus", "0")
    actuator.place_pod("batch")
    assert rig.tree.read(POD, "cpuset.cpus") == "0-7"


@pytest.mark.parametrize("error", ["EINVAL", "EBUSY", "EACCES"])
def test_a_refusing_container_is_reported_once_and_retries_end(rig, error):
    create(rig.node, "app")
    self_made = "kubepods/podweb/app"
    rig.tree.make("kubepods/podweb")
    rig.tree.make(self_made)
    rig.tree.write(self_made, "cpuset.cpus", "0")
    actuator = an_actuator(rig.node, rig.writer, rig.report)
    rig.refuse("cpuset.cpus", ERRORS[error])
    for _ in range(50):
        actuator._keep_container("app")
    assert 0 < rig.attempts["cpuset.cpus"] <= REPAIRS_PER_MINUTE
    assert len(rig.told) == 1


@pytest.mark.parametrize("error", ERRORS)
def test_the_memory_worker_reports_once_and_pauses_writes(rig, error):
    worker = MemoryWorker(rig.node, rig.writer, rig.report)
    rig.refuse("memory.limit_in_bytes", ERRORS[error])
    for _ in range(10):
        worker.write({POD: Bounds(Part(GIB, GIB), "batch")})
    gone = (
        error == "ENODEV"
    )  # ENODEV means that the cgroup was removed: the daemon tries again, and it is no refusal
    assert rig.attempts["memory.limit_in_bytes"] == (10 if gone else 1)
    assert len(rig.told) == (0 if gone else 1)
    worker.write({POD: Bounds(Part(GIB, 2 * GIB), "batch")})
    assert rig.attempts["memory.limit_in_bytes"] == (11 if gone else 2), (
        "a newly wanted value is tried at once"
    )


def test_refused_bounds_are_retried_with_pauses(rig, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(drift, "time", clock)
    worker = MemoryWorker(rig.node, rig.writer, rig.report)
    worker.write({POD: Bounds(Part(GIB, GIB), "batch")})
    before = rig.attempts["memory.limit_in_bytes"]
    rig.refuse("memory.limit_in_bytes", errno.EBUSY)
    for _ in range(100):
        worker.write({})
        clock.now += 5.0
    assert 8 <= rig.attempts["memory.limit_in_bytes"] - before <= 15
    assert len(rig.told) == 1
    rig.relent()
    clock.now += LONGEST_PAUSE_S
    worker.write({})
    assert int(rig.tree.read(POD, "memory.limit_in_bytes")) > 1 << 60


@pytest.mark.parametrize("error", ["EINVAL", "EBUSY", "EACCES"])
def test_a_refusing_host_group_is_reported_once_and_paused(rig, error):
    rig.tree.make("yarn")
    rig.node.tuning = Tuning(reclaim=ReclaimTuning(host_groups=("yarn",)))
    rig.node.learn(Capability(cgroup=1))
    groups = HostGroups(rig.node, rig.writer, rig.report)
    rig.refuse("cpu.shares", ERRORS[error])
    for _ in range(50):
        groups.place()
        groups.guard("yarn")
    assert (rig.attempts["cpu.shares"], len(rig.told)) == (1, 1)
    rig.relent()
    rig.node.decide(PoolsSized({"reclaim": 2}, "pool resized: a test wants it"))
    groups.place()
    assert rig.tree.read("yarn", "cpu.shares") == "2", "another size of the reclaim pool is tried at once"


def test_a_host_groups_refused_original_is_restored_later(rig, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(drift, "time", clock)
    rig.tree.make("yarn")
    rig.node.tuning = Tuning(reclaim=ReclaimTuning(host_groups=("yarn",)))
    rig.node.learn(Capability(cgroup=1))
    groups = HostGroups(rig.node, rig.writer, rig.report)
    groups.place()
    rig.node.tuning = Tuning()
    rig.refuse("cpu.shares", errno.EINVAL)
    before = rig.attempts["cpu.shares"]
    for _ in range(20):
        groups.place()
    assert rig.attempts["cpu.shares"] == before + 1
    rig.relent()
    clock.now += LONGEST_PAUSE_S
    groups.place()
    assert rig.tree.read("yarn", "cpu.shares") == "1024"


@pytest.mark.parametrize("error", ["EINVAL", "EBUSY", "EACCES"])
def test_a_refused_burst_is_reported_once_and_paused(rig, error):
    create(rig.node, "app", replace(kit.SHARED, cpu_burst_percent=50))
    for path in ("kubepods/podweb", "kubepods/podweb/app"):
        rig.tree.make(path)
    bandwidths = PodBandwidths(rig.node, rig.writer, rig.report)
    limit(rig.node, "app", 100_000)
    rig.tree.write("kubepods/podweb/app", "cpu.cfs_quota_us", "100000")
    rig.refuse("cpu.cfs_burst_us", ERRORS[error])
    for _ in range(30):
        bandwidths.sweep()
    assert 1 <= rig.attempts["cpu.cfs_burst_us"] <= 2
    assert 1 <= len(rig.told) <= 2
    assert not [one for one in rig.heard.records if one.event is AuditEvent.DRIFT_REPAIR]


def limit(node: Any, name: str, quota: int) -> None:
    """Let the kubelet set a container's quota, µs."""
    known = node.state.containers[name]
    node.decide(
        ContainerUpdating(kit.pod(), known.container, known.wish, Resources(quota=quota, period=100_000))
    )
