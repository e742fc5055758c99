"""The threads of companion and controller. All of them end before the interpreter does."""

import time
from collections.abc import Callable
from threading import Thread
from typing import Final

END_S: Final = 2.0
"""Seconds that all threads have to end. Kubernetes kills the companion 5 s after SIGTERM."""


class Workers:
    """Threads that work until the program ends.

    A daemon thread that still runs while the interpreter frees its modules can hold locks that this needs.
    """

    def __init__(self) -> None:
        self._threads: list[Thread] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread."""
        thread = Thread(target=work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    @property
    def problem(self) -> str:
        """Return which thread has ended; empty if all work."""
        ended = (f"the thread {each.name} has ended" for each in self._threads if not each.is_alive())
        return next(ended, "")

    def end(self) -> None:
        """Wait until all threads have ended, `END_S` seconds at most. They must have a reason to end."""
        until_s = time.monotonic() + END_S
        for each in self._threads:
            each.join(max(0.0, until_s - time.monotonic()))
