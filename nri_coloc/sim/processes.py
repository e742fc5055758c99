"""The processes of a simulated node, as far as /proc shows what concerns us.

Their ids lie above every id that Linux gives out: whoever takes one for a real process and signals it or
sets its scheduler hits nothing.
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
    """Makes and removes /proc/<pid>."""

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
        """End a process; one that is gone already stays gone."""
        shutil.rmtree(self._proc / str(pid), ignore_errors=True)

    def oom_score_adj(self, pid: int) -> int | None:
        """Return a process's score, None if it has ended."""
        shown = shared_files.read(self._proc / str(pid) / "oom_score_adj")
        return int(shown) if shown else None
