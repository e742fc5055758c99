"""Containers that burn CPU from a moment that the test chooses, and the kernel's count of a cgroup's CPU use."""

import os
import signal
import time

from tests.rig import cgroups, kubepods
from tests.rig.waiting import wait_until
from tests.rig.workloads import Workload


def burners(threads: int) -> tuple[str, ...]:
    """Return a program that runs this number of endless loops."""
    loops = " ".join("while :; do :; done &" for _ in range(threads))
    return ("/bin/sh", "-c", f"{loops} wait")


class Tap:
    """Turn the load of a container off and on again: a signal from outside stops its processes."""

    def __init__(self, workload: Workload, threads: int) -> None:
        self._workload = workload
        wait_until(lambda: len(self._pids()) > threads, 60, "its loops to be there")

    def off(self) -> None:
        """Stop the load."""
        self._signal(signal.SIGSTOP)

    def on(self) -> float:
        """Continue the load and return the moment (monotonic seconds)."""
        self._signal(signal.SIGCONT)
        return time.monotonic()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids():
            os.kill(pid, number)

    def _pids(self) -> list[int]:
        return sorted(kubepods.processes(self._workload.cgroup))


def used_ns(cgroup: str) -> int:
    """Return the CPU time that a cgroup's processes have used, in ns."""
    if not cgroups.is_v2():
        return int((cgroups.ROOT / "cpuacct" / cgroup.lstrip("/") / "cpuacct.usage").read_text())
    lines = cgroups.file(cgroup, "cpu", "cpu.stat").read_text().splitlines()
    return 1000 * int(next(line.split()[1] for line in lines if line.startswith("usage_usec")))


class Meter:
    """Measure the CPUs that a cgroup has used since the last reading."""

    def __init__(self, cgroup: str) -> None:
        self._cgroup = cgroup
        self._before = (time.monotonic_ns(), used_ns(cgroup))

    def read(self) -> float:
        """Return the CPUs used on average since the last call."""
        now = (time.monotonic_ns(), used_ns(self._cgroup))
        (then_ns, then_used), self._before = self._before, now
        return (now[1] - then_used) / max(1, now[0] - then_ns)
