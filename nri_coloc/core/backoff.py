"""Double the waiting time of retries, with jitter, so that a thousand nodes do not retry in the same second."""

from collections.abc import Callable
from typing import Final

FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 30.0

MOST_ASKED_S: Final = 90.0
"""The longest wait that a server may ask for. With jitter it is three minutes, after which the controller closes a node
without a report. A proxy may ask for an hour while the server behind it restarts; Kubernetes asks for seconds."""


class Backoff:
    """Waiting times of retries: doubled up to a limit, each drawn between a half and the whole.

    draw: returns a random number between 0 and 1.
    first_s: the first waiting time.
    most_s: the longest one.
    """

    def __init__(
        self, draw: Callable[[], float], first_s: float = FIRST_RETRY_S, most_s: float = LAST_RETRY_S
    ) -> None:
        self._draw = draw
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def failed(self, at_least_s: float = 0.0) -> float:
        """Return the seconds until the next try.

        at_least_s: the least wait that the server asks for (Retry-After of HTTP), `MOST_ASKED_S` at most. It asks all
            clients for the same wait, so each one waits once to twice that long.
        """
        asked_s = min(MOST_ASKED_S, at_least_s)
        whole_s, self._next_s = self._next_s, min(self._most_s, 2 * self._next_s)
        return max(2 * asked_s, whole_s) * (1 + self._draw()) / 2

    def succeeded(self) -> None:
        """Begin with the shortest waiting time again."""
        self._next_s = self._first_s
