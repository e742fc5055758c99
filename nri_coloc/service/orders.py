"""The orders over the admin socket as values: the caller, the orders, and their results."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from nri_coloc.errors import ColocError

LONGEST_PAUSE_S: Final = 86400
LONGEST_REASON: Final = 200


class Caller(NamedTuple):
    """The caller, as the kernel reports it; a process of another PID namespace has the number 0."""

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
    """Whether the runtime's list was complete, and the missing containers or the obstacle."""

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
        """Repair values that another writer has changed."""

    def compare(self, caller: Caller) -> Compared:
        """Compare the runtime's list with CRI's list."""
