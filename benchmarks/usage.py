"""Counters of a planted tree that rise with the time, as if its pods ran: `python -m benchmarks.usage HOST_ROOT`.

It is a process of its own, so that its cost is not measured. The reclaim cgroups use four CPUs. The use of online pods
rises and falls every second, so that the reclaim pool shrinks and grows. Three more arguments set other numbers of
CPUs: of the reclaim cgroups, and of the online pods in one second and in the next.
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

PERIOD_S: Final = 0.004
"""As the scheduler's tick: in coarser steps a counter would rise faster than the machine can run."""

CPUS: Final = ("4", "40", "120")
REST_CPUS: Final = 0.5


def main(host: Path, box: float, *online_cpus: float) -> None:
    """Move the counters until the process is killed."""
    mount = host / "sys/fs/cgroup/cpuacct"
    names = {"box": "kubepods/besteffort", "online": "kubepods/burstable", "pods": "kubepods", "all": "."}
    files = {name: os.open(mount / path / "cpuacct.usage", os.O_WRONLY) for name, path in names.items()}
    used = dict.fromkeys(files, 0.0)
    began = last = time.monotonic()
    while True:
        time.sleep(PERIOD_S)
        now = time.monotonic()
        seconds, last = now - last, now
        online = online_cpus[int(now - began) % 2]
        risen = {"box": box, "online": online, "pods": box + online}
        risen["all"] = risen["pods"] + REST_CPUS
        for name, descriptor in files.items():
            used[name] += risen[name] * seconds
            os.pwrite(descriptor, f"{int(used[name] * 1e9):020d}\n".encode(), 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:] or CPUS))
