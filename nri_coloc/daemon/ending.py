"""How the program is told to end: by SIGTERM or SIGINT, or by a thread of ours that cannot go on.

The signals are blocked and waited for, not handled. A handler runs between any two steps of the main thread: one that
sets a `threading.Event` waits for ever where that thread is just inside the same Event's wait and holds its lock, and
one that comes a moment before a sleep is run after it. What is blocked stays pending, and the next wait takes it.
"""

import signal
import threading
from typing import Final

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})


class Ending:
    """`wait` and `take_signals` are the main thread's, `ask` is anybody's; `asked` stays."""

    def __init__(self) -> None:
        self.asked = False

    def take_signals(self) -> None:
        """Have both signals end our waits, and nothing else; threads that begin from here on leave them to us."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def ask(self) -> None:
        """End the wait at hand, and all that follow."""
        self.asked = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether the end was asked for."""
        if not self.asked and signal.sigtimedwait(SIGNALS, max(0.0, seconds)) is not None:
            self.asked = True
        return self.asked
