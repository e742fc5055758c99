"""What may be changed over the admin socket, in our own words: who orders, what can be ordered, what comes of it."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from nri_coloc.errors import ColocError

LONGEST_PAUSE_S: Final = 86400
LONGEST_REASON: Final = 200


class Caller(NamedTuple):
    """Who is at the other end, as the kernel tells it; a process of another PID namespace has the number 0."""

    uid: int
    pid: int

    def __str__(self) -> str:
        return f"uid {self.uid}, pid {self.pid}"


class OrderDeclined(ColocError):
    """It cannot be done as things are; nothing was changed."""


class OrderInvalid(ColocError):
    """It was asked wrongly; nothing was changed."""


class OrderLate(ColocError):
    """It was not done in time; it may be done yet."""


class Repaired(NamedTuple):
    """Pods and containers that were looked at, and a sentence for each cgroup that was put right."""

    looked_at: int
    sentences: Sequence[str]


class Compared(NamedTuple):
    """Whether the runtime had told everything, and what was missing or kept us from asking."""

    complete: bool
    detail: str


class Orders(Protocol):
    """Carries orders out; each may be called from several threads at once, waits for the outcome and has a bound.

    They raise OrderDeclined, OrderInvalid and OrderLate.
    """

    def pause_lending(self, caller: Caller, seconds: int, reason: str) -> str:
        """Return until when, RFC 3339."""

    def resume_lending(self, caller: Caller) -> bool:
        """Return whether it was paused."""

    def reload(self, caller: Caller) -> str:
        """Return what is wrong with the configuration file, "" if it is in force."""

    def repair(self, caller: Caller) -> Repaired:
        """Put right whatever somebody else has changed."""

    def compare(self, caller: Caller) -> Compared:
        """Compare the runtime's list with what it has told."""
