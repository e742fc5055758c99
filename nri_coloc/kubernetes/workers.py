"""The threads of companion and controller. All of them end before the interpreter does."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

END_S: Final = 2.0
"""Seconds that all threads have to end. Kubernetes kills the companion 5 s after SIGTERM."""


class Workers:
    """Threads that work until the program ends.

    A daemon thread that still runs while the interpreter frees its modules can hold locks that this needs.

    problem: the thread that ended by itself, a sentence; empty if all work. It ends the program, which Kubernetes
        starts again: a controller without one of its threads would hold the Lease on.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._threads: list[Thread] = []

    def start(self, name: str, work: Callable[[Event], None], stop: Event) -> None:
        """Start a thread. `work` ends when `stop` is set, and `stop` is set when `work` ends."""
        thread = Thread(target=self._run, args=(name, work, stop), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self, name: str, work: Callable[[Event], None], stop: Event) -> None:
        try:
            work(stop)
        finally:
            if not stop.is_set():
                self.problem = f"the thread {name} has ended"
            stop.set()

    def end(self) -> None:
        """Wait until all threads have ended, `END_S` seconds at most. They must have a reason to end."""
        until_s = time.monotonic() + END_S
        for each in self._threads:
            each.join(max(0.0, until_s - time.monotonic()))
