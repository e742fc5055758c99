"""`lending.burst_to_suppressed`: from an online pod's burst to a smaller reclaim pool (root; DESIGN §7).

It is measured from outside. On the real containerd a reclaimed pod computes on all CPUs that it was lent while the
online pod sleeps. Then as many processes in the online container as there are CPUs continue at once. The time runs
until the reclaimed pod's cgroup has fewer CPUs in its own file. The file is read every millisecond at real-time
priority, since every CPU is taken. The daemon has the CPU weight of its DaemonSet's request.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import figures
from benchmarks.colocation import arrangements, kubelet
from tests.rig import RigError, cgroups, kubepods, workloads
from tests.rig.containerd import bring_up
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

TIMES: Final = 20
PRIORITY: Final = 50
LOOK_EVERY_S: Final = 0.001
BURST_S: Final = 0.5
"""Long enough for everything that answers a burst to have happened, and it ends before the next one."""

GROWS_S: Final = 60
RESTS_S: Final = (2.2, 2.8)
"""A box that was just given back is not taken for a steady one: see the dwell in docs/decisions/0013."""

LOOPS: Final = "for i in 1 2 3 4; do while :; do :; done & done; wait"
BURNER: Final = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass"


def run() -> dict[str, figures.Figures]:
    """Return the figures on the newest containerd of the rig."""
    containerd = bring_up("2")
    try:
        with containerd.cri() as cri, arrangements.seated_daemon(containerd, ""):
            online = workloads.run(cri, "online", "shared", shares=1024)
            kubelet.weigh(online.pod.cgroup, 1024)
            command = ("/bin/sh", "-c", LOOPS)
            offline = workloads.run(
                cri, "offline", "reclaimed", parent=kubepods.BESTEFFORT, command=command, oom=1000
            )
            kubelet.weigh(kubelet.BESTEFFORT, kubelet.LEAST_SHARES)
            with _burners(online) as burners:
                samples = [_burst(offline, burners) for _ in range(TIMES)]
    finally:
        containerd.stop()
    return {"lending.burst_to_suppressed": figures.of(samples)}


@contextmanager
def _burners(online: Workload) -> Iterator[list[int]]:
    """Yield the pids of stopped processes in the online container, as many as there are CPUs."""
    made = [subprocess.Popen([sys.executable, "-c", BURNER]) for _ in NODE_CPUS]
    try:
        pids = [process.pid for process in made]
        wait_until(lambda: all(_stands(pid) for pid in pids), 10, "all to stand still")
        for folder in kubepods.folders(online.cgroup):
            for pid in pids:
                (folder / "cgroup.procs").write_text(str(pid))
        yield pids
    finally:
        for process in made:
            process.kill()
            process.wait()


def _stands(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _rests_whole(file: Path) -> bool:
    """Return whether the reclaim pool has the whole node now, for the time that makes it a steady one."""
    end = time.monotonic() + random.uniform(*RESTS_S)
    while cgroups.members(file.read_text()) == NODE_CPUS:
        if time.monotonic() >= end:
            return True
        time.sleep(0.05)
    return False


def _burst(offline: Workload, burners: list[int]) -> int:
    """Return the nanoseconds of one burst."""
    file = cgroups.file(offline.pod.cgroup, "cpuset", "cpuset.cpus")
    if not poll(lambda: _rests_whole(file), GROWS_S):
        raise RigError(f"the box did not have the whole node within {GROWS_S} s: is the machine in use?")
    whole, found = len(NODE_CPUS), os.open(file, os.O_RDONLY)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    try:
        began = time.monotonic_ns()
        for pid in burners:
            os.kill(pid, signal.SIGCONT)
        took = 0
        while not took and time.monotonic_ns() - began < 10**10:
            if len(cgroups.members(os.pread(found, 4096, 0).decode())) < whole:
                took = time.monotonic_ns() - began
            time.sleep(LOOK_EVERY_S)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.close(found)
    time.sleep(BURST_S)
    for pid in burners:
        os.kill(pid, signal.SIGSTOP)
    if not took:
        raise RigError("10 s after a burst the box was as large as before")
    return took
