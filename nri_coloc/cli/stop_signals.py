"""End a program at SIGTERM or SIGINT, for the commands that run until then."""

import signal
from collections.abc import Callable
from threading import Thread


def stop_at_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on a thread of its own at SIGTERM or SIGINT.

    The main thread, which a handler interrupts, may hold the lock of the event that `stop` sets.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: Thread(target=stop).start())
