"""Wait until cgroups have left CPUs that another container takes, as read back.

The start of a dedicated container waits for its barrier. A hand-over holds its new owners back until the former users
have left. Every wait is bounded by its caller.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NOBODY, Moves


class Barrier:
    """The cgroups that have not left some CPUs yet, as read back; the caller bounds its wait."""

    def __init__(self, taken: CPUMask, moves: Moves) -> None:
        self.taken = taken
        self._open = {"pod": {*moves.pods}, "container": {*moves.containers}}
        self._done = Event()
        if not self.open:
            self._done.set()

    def settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        """Note the CPUs that were read back from a cgroup; None: the cgroup does not exist."""
        if cpus is None or not cpus & self.taken:
            self._open[kind].discard(id_)
        if not self.open:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Return True when all cgroups have left, False after so many seconds."""
        return self._done.wait(seconds)

    @property
    def open(self) -> int:
        """Return the number of cgroups that may still use the CPUs that were taken."""
        return len(self._open["pod"]) + len(self._open["container"])


class Departures:
    """The barriers of owners of CPUs, and of one hand-over at a time.

    is_awaited: whether a thread waits for an owner's barrier now.
    incoming: the pods and containers that a hand-over holds back.
    """

    def __init__(self) -> None:
        self.is_awaited = False
        self.incoming = NOBODY
        self._barriers: dict[str, Barrier] = {}
        self._handed_over: Barrier | None = None

    @property
    def owners(self) -> set[str]:
        """The owners that have a barrier."""
        return {*self._barriers}

    def expect(self, owner: str, taken: CPUMask, leaving: Moves) -> None:
        """Give an owner of CPUs a barrier for the cgroups that leave them."""
        self._barriers[owner] = Barrier(taken, leaving)

    def wait(self, owner: str, seconds: float) -> Barrier | None:
        """Return None after the cgroups that had an owner's CPUs have left them; the barrier if the time is over."""
        barrier = self._barriers.get(owner)
        if barrier is None:
            return None
        self.is_awaited = True
        gone = barrier.wait(seconds)
        self.is_awaited = False
        self._barriers.pop(owner, None)
        return None if gone else barrier

    @contextmanager
    def handing_over(self, taken: CPUMask, leaving: Moves, owners: Moves) -> Iterator[Barrier]:
        """Hold the new owners back while the context is open; the context is the barrier of the former users."""
        barrier = Barrier(taken, leaving)
        self._handed_over, self.incoming = barrier, owners
        try:
            yield barrier
        finally:
            self._handed_over, self.incoming = None, NOBODY

    def settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        """Note the CPUs that were read back from a cgroup; None: the cgroup does not exist."""
        for barrier in (*self._barriers.values(), self._handed_over):
            if barrier is not None:
                barrier.settle(kind, id_, cpus)

    def forget(self, owner: str) -> None:
        """Drop the barrier of a container that ended."""
        self._barriers.pop(owner, None)
