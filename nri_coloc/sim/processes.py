"""Simulate the processes of a node: the files of /proc that the daemon reads.

Their ids are above the highest id that Linux assigns. So a signal or a scheduler call with such an id never hits a real
process.
"""

import shutil
from itertools import count
from pathlib import Path
from typing import Final

from nri_coloc.sim import shared_files

PID_MAX_LIMIT: Final = 1 << 22
"""include/linux/threads.h: no real process has a larger id."""

_V1_LINES: Final = ("4:memory", "3:cpu,cpuacct", "2:cpuset", "1:blkio", "0:")


class ProcessTable:
    """Creates and removes /proc/<pid>."""

    def __init__(self, host_root: Path, cgroup_version: int) -> None:
        self._proc = host_root / "proc"
        self._version = cgroup_version
        self._ids = count(PID_MAX_LIMIT + 1)

    def spawn(self, cgroup: str, oom_score_adj: int) -> int:
        """Start a process in a cgroup (without a leading slash) and return its id."""
        pid = next(self._ids)
        folder = self._proc / str(pid)
        folder.mkdir(parents=True)
        lines = _V1_LINES if self._version == 1 else ("0:",)
        (folder / "cgroup").write_text("".join(f"{line}:/{cgroup}\n" for line in lines))
        shared_files.put(folder / "oom_score_adj", str(oom_score_adj))
        return pid

    def end(self, pid: int) -> None:
        """End a process; do nothing if it has ended."""
        shutil.rmtree(self._proc / str(pid), ignore_errors=True)

    def oom_score_adj(self, pid: int) -> int | None:
        """Return a process's oom_score_adj, None if it has ended."""
        shown = shared_files.read(self._proc / str(pid) / "oom_score_adj")
        return int(shown) if shown else None
