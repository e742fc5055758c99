"""Move a simulated node's workload with the wall clock, every few milliseconds while a container wants CPU.

A test with its own time calls `Node.tick` and starts no ticker. An idle node costs nothing: the thread sleeps until
the next demand.
"""

import time
from threading import Event, Thread
from typing import Final

from nri_coloc.sim.workload import Workload

PERIOD_S: Final = 0.01


class Ticker:
    """The thread that moves the workload; `close` waits until it has ended."""

    def __init__(self, workload: Workload, period_s: float = PERIOD_S) -> None:
        self._workload = workload
        self._period_s = period_s
        self._ended = Event()
        self._thread = Thread(target=self._run, name="sim-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._workload.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._workload.is_idle:
                self._workload.wait()
                self._workload.rest(time.monotonic())
            self._ended.wait(self._period_s)
            self._workload.tick(time.monotonic())
