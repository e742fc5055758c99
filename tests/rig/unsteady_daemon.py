"""The real daemon with wrong clocks: in a time namespace of its own, or set forward while it runs.

Run instead of `python -m nri_coloc`; the first argument is the number of seconds by which its clocks are ahead. The
kernel's monotonic clock is really shifted (time_namespaces(7)). The wall clock belongs to the whole machine, so it is
shifted inside the program. SIGUSR1 then sets both an hour forward, SIGUSR2 sets the wall clock two hours back.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from nri_coloc.cli import main

PROGRAM: Final = ("-m", "tests.rig.unsteady_daemon")
HOUR: Final = 3600.0
_CLONE_NEWTIME: Final = 0x80
_libc: Final = ctypes.CDLL(None, use_errno=True)


def shift_kernel_clocks(seconds: int) -> None:
    """Enter a time namespace whose monotonic clocks are ahead; call it before any thread is started."""
    _checked(_libc.unshare(_CLONE_NEWTIME), "unshare")
    offsets = f"monotonic {seconds} 0\nboottime {seconds} 0\n"
    Path("/proc/self/timens_offsets").write_text(offsets)
    namespace = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    _checked(_libc.setns(namespace, _CLONE_NEWTIME), "setns")
    os.close(namespace)


def _checked(result: int, call: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")


class Clocks:
    """Hold the clocks that the program reads, and their error in seconds."""

    def __init__(self, wall: float) -> None:
        self._monotonic, self._wall = time.monotonic, time.time
        self.monotonic_ahead, self.wall_ahead = 0.0, wall

    def monotonic(self) -> float:
        """Return the time in the place of `time.monotonic`."""
        return self._monotonic() + self.monotonic_ahead

    def wall(self) -> float:
        """Return the time in the place of `time.time`."""
        return self._wall() + self.wall_ahead

    def forward(self, *_: object) -> None:
        """Set both clocks an hour forward."""
        self.monotonic_ahead += HOUR
        self.wall_ahead += HOUR

    def back(self, *_: object) -> None:
        """Set the wall clock back by two hours; a monotonic one never goes back."""
        self.wall_ahead -= 2 * HOUR


if __name__ == "__main__":
    ahead = int(sys.argv[1])
    shift_kernel_clocks(ahead)
    clocks = Clocks(ahead)
    time.monotonic, time.time = clocks.monotonic, clocks.wall
    signal.signal(signal.SIGUSR1, clocks.forward)
    signal.signal(signal.SIGUSR2, clocks.back)
    sys.exit(main.main(sys.argv[2:], os.environ))
