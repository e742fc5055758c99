"""Whether a process does its work within seconds of its own time: seconds that a stalled machine takes do not count.

Two times are not counted: the time in which the watching process had no CPU, and the time in which a thread of the
process was ready to run and had no CPU. The kernel counts the latter (/proc/PID/task/*/schedstat, the second figure;
man 5 proc_pid_schedstat).
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LOOK_EVERY_S: Final = 0.01
LONGEST_S: Final = 0.05
"""Of one look: what was longer was no look, but a standstill."""

GIVES_UP_S: Final = 180.0


def ends_within(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Return True when the process ends; False as soon as it has taken more than `seconds`."""
    return comes_within(process.pid, lambda: process.poll() is not None, seconds)


def comes_within(pid: int, predicate: Callable[[], object], seconds: float) -> bool:
    """Return True when the predicate becomes true; False as soon as the process has taken more than `seconds`."""
    began = looked = time.monotonic()
    waited, left = _waited(pid), seconds
    while not predicate():
        if left <= 0 or looked - began > max(GIVES_UP_S, seconds):
            return False
        time.sleep(LOOK_EVERY_S)
        before, looked = looked, time.monotonic()
        had, waited = waited, _waited(pid)
        left -= max(0.0, min(looked - before, LONGEST_S) - max(0.0, waited - had))
    return True


def _waited(pid: int) -> float:
    """Return the seconds in which its threads were ready to run and had no CPU; a thread that ended counts no more."""
    total = 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return total / 1e9
    return total / 1e9
