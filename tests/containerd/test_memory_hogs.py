"""Fifty reclaimed pods allocate more memory than kubepods has: no process of an online pod is killed."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.own_time import comes_within
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST, pytest.mark.tier("all")]

MIB: Final = 1 << 20
HOGS: Final = 50
LIMIT: Final = 1536 * MIB
"""The limit of kubepods: the hogs want 2,000 MiB, the online pod holds 128 MiB."""

LENDING: Final = "reclaim: {enabled: true}\n"
EVICTS: Final = f"{LENDING}pressure: {{evict: true}}\n"
CALM_S: Final = 5.0
ORDERED_S: Final = 5.0
"""The goal, from the first page of the shortage to the order, when nothing milder helps: of the daemon's own time."""

SHORT_LIMIT, LEAST, FIRST = 1024 * MIB, 200 * MIB, 8 * MIB
"""A limit of kubepods, the available memory below which it is short, and the growth that counts as its beginning."""

WAITS: Final = "while [ ! -e /scratch/go ]; do sleep 1; done"
ALLOCATES: Final = (
    "/bin/sh",
    "-c",
    f"{WAITS}; while :; do dd if=/dev/zero of=/dev/null bs=40M count=4 2>&-; done",
)
ALLOCATED: Final = 4000 * MIB
"""Twice what the hogs want together: each comes to its limit, however slow the machine is."""


@contextmanager
def limited(limit: int) -> Iterator[None]:
    """Limit the memory of kubepods, bytes, and restore its limit after the block."""
    file = cgroups.file("/kubepods", "memory", "memory.max" if cgroups.is_v2() else "memory.limit_in_bytes")
    before = file.read_text()
    file.write_text(str(limit))
    try:
        yield
    finally:
        file.write_text("-1" if int(before.replace("max", "-1")) > cgroups.NO_LIMIT_V1 else before)


def counter(cgroup: str, v1: tuple[str, str], v2: tuple[str, str]) -> int:
    """Return a line's figure of a cgroup's memory file: the file and the line's name by version."""
    file, name = v2 if cgroups.is_v2() else v1
    lines = cgroups.file(cgroup, "memory", file).read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def killed(workload: Workload) -> int:
    """Return how many processes of a container the kernel has killed for memory."""
    return counter(workload.cgroup, ("memory.oom_control", "oom_kill"), ("memory.events", "oom_kill"))


def charged(cgroup: str) -> int:
    """Return the bytes that a cgroup's processes have allocated since its start."""
    if cgroups.is_v2():
        return 4096 * counter(cgroup, ("", ""), ("memory.stat", "pgfault"))
    return 4096 * counter(cgroup, ("memory.stat", "total_pgpgin"), ("", ""))


def used() -> int:
    """Return the memory that all pods use, bytes."""
    name = "memory.current" if cgroups.is_v2() else "memory.usage_in_bytes"
    return int(cgroups.file("/kubepods", "memory", name).read_text())


def holds(workload: Workload) -> bool:
    """Return whether the online pod holds its memory."""
    name = "memory.current" if cgroups.is_v2() else "memory.usage_in_bytes"
    return int(cgroups.file(workload.cgroup, "memory", name).read_text()) >= 128 * MIB


def badness(workload: Workload) -> list[int]:
    """Return the kernel's own order of its processes for the OOM killer, the higher the earlier."""
    texts = (Path(f"/proc/{pid}/oom_score") for pid in kubepods.processes(workload.cgroup))
    return [int(text.read_text()) for text in texts if text.exists()]


def test_memory_hogs_kill_no_online_container(cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path):
    daemon = own_daemon(config=LENDING)
    web = workloads.run(cri, "web", "shared", request=0.2, command=holding(128), oom=900)
    with ThreadPoolExecutor(4) as pool, limited(LIMIT):
        hogs = list(pool.map(lambda number: hog(cri, f"hog-{number}", tmp_path), range(HOGS)))
        wait_until(
            lambda: all(cgroups.memory_limit(one.pod.cgroup) for one in hogs), 120, "limits of the hogs"
        )
        assert min(min(badness(one)) for one in hogs) > max(badness(web))
        before = charged("/kubepods/besteffort")
        (tmp_path / "go").touch()
        wait_until(
            lambda: killed(web) or charged("/kubepods/besteffort") >= before + ALLOCATED,
            60,
            "their allocations",
        )
        assert killed(web) == 0
        assert holds(web)
    assert not daemon.is_dead


def test_an_eviction_follows_growth_within_seconds(
    cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path
):
    """Without a companion the record of the order says that it was declined."""
    daemon = own_daemon(config=EVICTS)
    workloads.run(cri, "batch", parent=kubepods.BESTEFFORT, oom=1000, command=holding(200))
    pod = cri.run_pod("web", annotations={workloads.QOS: "shared"})
    grows = cri.create_container(pod, "app", command=growing(700), mounts={"/scratch": tmp_path}, oom=900)
    Workload(cri, pod, grows).start()
    with limited(SHORT_LIMIT):
        poll(lambda: daemon.audit("pod.evict"), CALM_S)
        assert daemon.audit("pod.evict") == []
        before = used()
        (tmp_path / "go").touch()
        wait_until(lambda: used() > before + FIRST, 60, "growth")
        began_s = time.time()
        wait_until(lambda: used() > SHORT_LIMIT - LEAST, 60, "a shortage")
        short_s = time.time()
        is_in_time = comes_within(daemon.pid, lambda: daemon.audit("pod.evict", pod="batch"), ORDERED_S)
        record = daemon.audited("pod.evict", pod="batch")
    ordered_s = datetime.fromisoformat(record["ts"]).timestamp()
    sys.stdout.write(
        f"order {ordered_s - short_s:.2f} s after shortage, {ordered_s - began_s:.2f} s after growth\n"
    )
    assert (record["reason"], record["inputs"]["scope"]) == ("declined", "kubepods")
    assert is_in_time


def holding(mib: int) -> tuple[str, ...]:
    """Return a program that holds so much anonymous memory."""
    return (
        "/bin/sh",
        "-c",
        f"(busybox head -c {mib}m /dev/zero; exec sleep 1000000) | busybox tail -c {mib}m",
    )


def growing(mib: int) -> tuple[str, ...]:
    """Return a program that holds so much anonymous memory from the moment that the file `go` appears."""
    *shell, line = holding(mib)
    return (*shell, f"{WAITS}; {line}")


def hog(cri: Cri, name: str, folder: Path) -> Workload:
    """Run a reclaimed pod that allocates 40 MiB again and again, from the moment that the file `go` appears."""
    pod = cri.run_pod(name, annotations={workloads.QOS: "reclaimed"}, cgroup_parent=kubepods.BESTEFFORT)
    made = cri.create_container(
        pod, "app", command=ALLOCATES, mounts={"/scratch": folder}, shares=2, oom=1000
    )
    return Workload(cri, pod, made).start()
