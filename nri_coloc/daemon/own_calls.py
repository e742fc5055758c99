"""Calls of ours that wait for the runtime's answer: sent by one thread, answered on the trunk's.

They wait without a limit, for a deadline of ours could pass while the runtime holds its lock; the end of the
connection ends the waiting.
"""

from concurrent.futures import CancelledError, Future
from threading import Lock

from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.nri.events import RuntimeAnswered


class OwnCalls:
    """By stream; safe against threads."""

    def __init__(self) -> None:
        self._waiting: dict[int, Future[RuntimeAnswered]] = {}
        self._lock = Lock()

    def expect(self, stream: int) -> "Future[RuntimeAnswered]":
        """Have an answer to this call kept; before its bytes are sent."""
        waiting: Future[RuntimeAnswered] = Future()
        with self._lock:
            self._waiting[stream] = waiting
        return waiting

    def answered(self, answer: RuntimeAnswered) -> None:
        """Wake whoever waits for this answer; one that nobody waits for is dropped."""
        with self._lock:
            waiting = self._waiting.pop(answer.stream, None)
        if waiting is not None:
            waiting.set_result(answer)

    def lost(self) -> None:
        """Wake everybody: the connection is gone."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.cancel()


def outcome(waiting: "Future[RuntimeAnswered]") -> None:
    """Wait for an answer; RuntimeRefused for one that says no, TransportLost for none."""
    try:
        answer = waiting.result()
    except CancelledError as error:
        raise TransportLost("the connection ended before the runtime answered") from error
    if answer.code:
        raise RuntimeRefused(f"UpdateContainers: code {answer.code}: {answer.message}")
