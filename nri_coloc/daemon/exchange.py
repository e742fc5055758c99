"""One call of the runtime and the right to answer it, which the watchdog may take first."""

import time
from typing import Any, Final, Protocol

from nri_coloc.daemon.watchdog import Ticket
from nri_coloc.nri import events

FAILED_PRECONDITION: Final = 9
"""The gRPC code of a refusal under `strict`."""


class Answers(Protocol):
    """The trunk's face towards the hooks: each call is answered once, framed and sent."""

    def answer(self, call: events.Call, message: Any | None) -> None: ...

    def refuse(self, call: events.Call, code: int, message: str) -> None: ...


class Exchange:
    """Claimed and answered at most once; `latency_us` is None until it was."""

    def __init__(self, ticket: Ticket, answers: Answers, read_at: float) -> None:
        self.ticket = ticket
        self.claimed_by_us = False
        self.latency_us: int | None = None
        self._answers = answers
        self._read_at = read_at

    def claim(self) -> bool:
        """Take the right to answer; False if the watchdog was first."""
        self.claimed_by_us = self.ticket.claim()
        return self.claimed_by_us

    def answer(self, message: Any | None) -> None:
        """Claim and send; nothing if the watchdog was first."""
        if self.claim():
            self.send(message)

    def send(self, message: Any | None) -> None:
        """Send what was claimed before."""
        self._answers.answer(self.ticket.call, message)
        self.latency_us = self.age_us

    def refuse(self, text: str) -> None:
        """Fail the runtime's operation with a text."""
        self._answers.refuse(self.ticket.call, FAILED_PRECONDITION, text)
        self.latency_us = self.age_us

    @property
    def waited_s(self) -> float:
        """How long the runtime waited for the answer, seconds; until now where it was not given here."""
        return (self.age_us if self.latency_us is None else self.latency_us) / 1e6

    @property
    def age_us(self) -> int:
        """Microseconds since the call's last byte was read."""
        return int((time.monotonic() - self._read_at) * 1e6)
