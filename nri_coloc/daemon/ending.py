"""How the program is told to end: by SIGTERM or SIGINT, or by a thread of ours that cannot go on.

A handler that sets a `threading.Event` may wait for ever: it runs between any two steps of the main thread, also where
that one is just inside the same Event's wait and holds its lock. And a signal that comes a moment before a sleep is
handled after it. So the interpreter's own handler, which runs at once, writes each signal's number into a pipe
(`signal.set_wakeup_fd`), and the main thread waits for the pipe.

Not `signal.sigtimedwait`: of a process that was stopped for longer than its timeout it says that a signal came
(seen on CPython 3.11; Modules/signalmodule.c, where EINTR comes after the deadline).
"""

import os
import select
import signal
from contextlib import suppress
from typing import Final

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_AT_ONCE: Final = 64


class Ending:
    """`wait` and `take_signals` are the main thread's, `ask` is anybody's; `asked` stays."""

    def __init__(self) -> None:
        self.asked = False
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def take_signals(self) -> None:
        """Have both signals end our waits, and nothing else."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._told)

    def ask(self) -> None:
        """End the wait at hand, and all that follow."""
        self.asked = True
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._writer, b"\0")

    def wait(self, seconds: float) -> bool:
        """Wait so long at most, less where another signal comes; whether the end was asked for."""
        if not self.asked and self._poll.poll(max(0.0, seconds) * 1000):
            told = SIGNALS.intersection(os.read(self._reader, _AT_ONCE))
            self.asked = self.asked or bool(told)
        return self.asked

    def _told(self, *_: object) -> None:
        self.asked = True
