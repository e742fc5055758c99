"""Answer overdue hooks: every call is answered exactly once, by the thread that claims it first.

The runtime waits with a global lock for our answer and drops us when its timeout passes. So a hook that is not answered
within a quarter of that time gets the neutral answer from this thread. The late decision finds its ticket claimed and
is discarded.
"""

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, Final, Protocol

from nri_coloc.host.alarm import Alarm
from nri_coloc.nri import events

SHARE_OF_TIMEOUT: Final = 0.25
DEFAULT_TIMEOUT_S: Final = 2.0
"""Seconds. containerd's plugin_request_timeout, for a request that states none."""

POLL_S: Final = 0.25
"""Seconds between two checks for a deadline: half of the usual half second, so that no deadline passes unseen. A check
takes 50 to 100 µs on an idle core."""

RESTS_AFTER: Final = 40
"""Checks in a row without a hook, ten seconds. Then this thread sleeps until the next hook wakes it. On a quiet node
the checks were a 25th of the daemon's cost. The number is not lower, because a woken thread wants the interpreter's
lock beside the hook."""

REST_S: Final = 3600.0


FAILED_PRECONDITION: Final = 9
"""The gRPC code of a refusal under `strict`."""


class Ticket:
    """The right to answer one call; taken once."""

    __slots__ = ("_claim", "call", "deadline", "hook")

    def __init__(self, call: events.Call, hook: str, now: float) -> None:
        timeout = call.timeout_nano / 1e9 or DEFAULT_TIMEOUT_S
        self.call = call
        self.hook = hook
        self.deadline = now + timeout * SHARE_OF_TIMEOUT
        self._claim = Lock()

    def claim(self) -> bool:
        """Take the right to answer; return False if another thread has it."""
        return self._claim.acquire(blocking=False)

    @property
    def claimed(self) -> bool:
        """Whether a thread answers or has answered."""
        return self._claim.locked()


class Answers(Protocol):
    """The connection as hooks use it: each call is answered once, framed and sent."""

    def answer(self, call: events.Call, message: Any | None) -> None: ...

    def refuse(self, call: events.Call, code: int, message: str) -> None: ...


class Exchange:
    """One call of the runtime and the right to answer it, which the watchdog may take first.

    latency_us: from the call's last byte to the answer; None until it is answered.
    """

    def __init__(self, ticket: Ticket, answers: Answers, read_at: float) -> None:
        self.ticket = ticket
        self.claimed_by_us = False
        self.latency_us: int | None = None
        self._answers = answers
        self._read_at = read_at

    def claim(self) -> bool:
        """Take the right to answer; return False if the watchdog was first."""
        self.claimed_by_us = self.ticket.claim()
        return self.claimed_by_us

    def answer(self, message: Any | None) -> None:
        """Claim and send; nothing if the watchdog was first."""
        if self.claim():
            self.send(message)

    def send(self, message: Any | None) -> None:
        """Send the answer of a claimed call."""
        self._answers.answer(self.ticket.call, message)
        self.latency_us = self.age_us

    def refuse(self, text: str) -> None:
        """Fail the runtime's operation with a text."""
        self._answers.refuse(self.ticket.call, FAILED_PRECONDITION, text)
        self.latency_us = self.age_us

    @property
    def waited_s(self) -> float:
        """Seconds for which the runtime waited for the answer; until now if it was not answered here."""
        return (self.age_us if self.latency_us is None else self.latency_us) / 1e6

    @property
    def age_us(self) -> int:
        """Microseconds since the call's last byte was read."""
        return int((time.monotonic() - self._read_at) * 1e6)


class Watchdog:
    """Checks the one ticket in flight (the runtime serialises hooks) and answers it when it is overdue."""

    def __init__(self, answer_neutral: Callable[[Ticket], None]) -> None:
        self._answer_neutral = answer_neutral
        self._ticket: Ticket | None = None
        self._quiet = 0
        self._rests = False
        self._stopping = False
        self._alarm = Alarm()
        self._thread = Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the checks; return at once."""
        self._stopping = True
        self._alarm.ring()

    def begin(self, call: events.Call, hook: str) -> Ticket:
        """Return a ticket for a call that is being handled."""
        ticket = Ticket(call, hook, time.monotonic())
        self._ticket, self._quiet = ticket, 0
        if self._rests:
            self._rests = False
            self._alarm.ring()
        return ticket

    def end(self) -> None:
        """Forget the ticket: its hook was handled."""
        self._ticket = None

    def _run(self) -> None:
        pause = POLL_S
        while not self._stopping:
            self._alarm.sleep(pause)
            pause = self._look()

    def _look(self) -> float:
        """Answer an overdue hook; return the seconds to the next check."""
        self._quiet += 1
        self._rests = self._quiet > RESTS_AFTER
        ticket = self._ticket  # after `_rests`: a hook that begins later rings
        if ticket is None or ticket.claimed:
            return REST_S if self._rests else POLL_S
        self._rests = False
        left = ticket.deadline - time.monotonic()
        if left > 0:
            return min(POLL_S, left)
        if ticket.claim():
            self._answer_neutral(ticket)
        return POLL_S
