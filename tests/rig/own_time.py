"""Whether a process ends within seconds of its own: what a machine that stands still takes from it does not count.

Not counted is the time in which whoever watches had no CPU himself, and in which one of its threads was ready to run
and had none, by the kernel's account (/proc/PID/task/*/schedstat, the second figure; man 5 proc_pid_schedstat).
"""

import subprocess
import time
from pathlib import Path
from typing import Any, Final

LOOK_EVERY_S: Final = 0.01
LONGEST_S: Final = 0.05
"""Of one look: what was longer was no look, but a standstill."""

GIVES_UP_S: Final = 180.0


def ends_within(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Wait for its end; False as soon as it has taken more."""
    began = looked = time.monotonic()
    waited, left = _waited(process.pid), seconds
    while process.poll() is None:
        if left <= 0 or looked - began > max(GIVES_UP_S, seconds):
            return False
        time.sleep(LOOK_EVERY_S)
        before, looked = looked, time.monotonic()
        had, waited = waited, _waited(process.pid)
        left -= max(0.0, min(looked - before, LONGEST_S) - max(0.0, waited - had))
    return True


def _waited(pid: int) -> float:
    """How long its threads have been ready to run and had no CPU, in seconds; one that has ended counts no more."""
    total = 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return total / 1e9
    return total / 1e9
