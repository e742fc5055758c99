"""The orders of the admin socket: callers, orders and results."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.evictions import Result
from nri_coloc.errors import ColocError

LONGEST_PAUSE_S: Final = 86400
LONGEST_REASON: Final = 200


class Caller(NamedTuple):
    """The peer of a connection, as the kernel reports it; the pid of another PID namespace is 0."""

    uid: int
    pid: int

    def __str__(self) -> str:
        return f"uid {self.uid}, pid {self.pid}"


class OrderDeclined(ColocError):
    """The order is not possible now; it changed nothing."""


class OrderInvalid(ColocError):
    """The order is not valid; it changed nothing."""


class OrderLate(ColocError):
    """The order was not carried out in time; it may be carried out later."""


class Repaired(NamedTuple):
    """The result of a repair: the number of checked pods and containers, and a sentence for each repaired cgroup."""

    looked_at: int
    sentences: Sequence[str]


class Compared(NamedTuple):
    """The result of a comparison.

    complete: whether the daemon knew all pods and containers of the runtime.
    detail: missing pods and containers, or the reason why there was no comparison.
    """

    complete: bool
    detail: str


class RunningPod(NamedTuple):
    """A reclaimed pod that still runs, as NAMESPACE/NAME, and why."""

    name: str
    why: str


class LendingEnds(NamedTuple):
    """The result of an order to switch lending off.

    because: the present state, and why.
    until: when that changes, RFC 3339; "" for not by time.
    not_kept: why a restart of the daemon undoes the order; "" if it is stored.
    running: the reclaimed pods that still run.
    outside: the cgroups outside Kubernetes that are lent to; they are not drained.
    """

    because: str
    until: str
    not_kept: str
    running: Sequence[RunningPod]
    outside: Sequence[str]


class LendingBegins(NamedTuple):
    """The result of an order to switch lending on; the fields as above."""

    was_off: bool
    because: str
    not_kept: str


class Orders(Protocol):
    """Carries out orders. Each method may be called from several threads and waits for the result, for a limited time.

    All raise OrderDeclined, OrderInvalid and OrderLate.
    """

    def pause_lending(self, caller: Caller, seconds: int, reason: str) -> str:
        """Pause lending for some seconds; return the end of the pause in RFC 3339."""

    def resume_lending(self, caller: Caller) -> bool:
        """End a pause; return whether lending was paused."""

    def lending_off(self, caller: Caller, grace_s: int | None, *, drain: bool) -> LendingEnds:
        """Switch lending off; without a grace the schedule's holds for a drain, and none otherwise."""

    def lending_on(self, caller: Caller) -> LendingBegins:
        """Undo `lending_off`."""

    def reload(self, caller: Caller) -> str:
        """Read the configuration file; return its problems, "" if it is in force."""

    def repair(self, caller: Caller) -> Repaired:
        """Check all pods and containers, and repair drift."""

    def evict(self, caller: Caller, namespace: str, pod: str, reason: str) -> Result:
        """Order the eviction of a reclaimed pod; return its result."""

    def compare(self, caller: Caller) -> Compared:
        """Compare the runtime's list with the daemon's state."""
