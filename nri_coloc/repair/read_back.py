"""The CPUs of each container as they were last read back, and waits until cgroups have left CPUs, as read back.

A cgroup file that cannot be read, or makes no sense, is recorded as every refusal of the kernel is. The value that was
read before it counts no longer: `unread` has the reason. The other containers are read nevertheless, because the
reclaim pool shrinks in the midst of these reads.

The start of a dedicated container waits for its barrier until the former users have left its CPUs. A hand-over holds
its new owners back until then. Every wait is bounded by its caller.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_MOVES, Moves
from nri_coloc.core.report import Report
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.cpusets import Found
from nri_coloc.repair import targets

NO_PATH: Final = "the runtime has not reported its cgroup"
NO_CGROUP: Final = "its cgroup, or the cpuset of its cgroup, does not exist"


class CpusetReadings:
    """Each container is in `actual`, in `unread`, or was not read yet; every thread may read both.

    `unread`: why the last reading of a container failed, a sentence.
    """

    def __init__(self, writer: CgroupWriter, report: Report) -> None:
        self.actual: dict[str, CPUMask] = {}
        self.unread: dict[str, str] = {}
        self._writer = writer
        self._report = report

    def at(self, assignment: Assignment, state: NodeState) -> Found | None:
        """Return the CPUs that a container has, read now; None if its cgroup is gone or cannot be read."""
        path = targets.lives_in(state, assignment)
        if path is None:
            self.note(assignment.id, None, NO_PATH)
            return None
        try:
            found = self._writer.look(path)
        except KernelInterfaceError as error:
            self._report.refused_by_kernel(error.as_value(), assignment, state)
            self.note(assignment.id, None, str(error))
            return None
        self.note(assignment.id, None if found is None else found.cpus)
        return found

    def note(self, container_id: str, cpus: CPUMask | None, problem: str = NO_CGROUP) -> None:
        """Keep the result of a reading; without CPUs keep the problem, and drop the CPUs of the reading before."""
        if cpus is None:
            self.actual.pop(container_id, None)
            self.unread[container_id] = problem
        else:
            self.actual[container_id] = cpus
            self.unread.pop(container_id, None)

    def forget(self, container_id: str) -> None:
        """Drop the readings of a container that ended."""
        self.actual.pop(container_id, None)
        self.unread.pop(container_id, None)

    def at_all(self, assignments: Iterable[Assignment], state: NodeState) -> None:
        """Read the CPUs of each container."""
        for assignment in assignments:
            self.at(assignment, state)

    def fewest(self, paths: Iterable[str], state: NodeState) -> int:
        """Return the number of CPUs of the cgroup that has the fewest; 0 if none has any."""
        looks = (self._look(path, state) for path in paths)
        return min((found.cpus.bit_count() for found in looks if found is not None and found.cpus), default=0)

    def _look(self, path: str, state: NodeState) -> Found | None:
        try:
            return self._writer.look(path)
        except KernelInterfaceError as error:
            self._report.refused_by_kernel(error.as_value(), "", state)
            return None


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
        self.incoming = NO_MOVES
        self._barriers: dict[str, Barrier] = {}
        self._handed_over: Barrier | None = None

    @property
    def owners(self) -> set[str]:
        """The ids of containers with own CPUs that other cgroups have not left, as far as known."""
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
            self._handed_over, self.incoming = None, NO_MOVES

    def settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        """Note the CPUs that were read back from a cgroup; None: the cgroup does not exist."""
        for barrier in (*self._barriers.values(), self._handed_over):
            if barrier is not None:
                barrier.settle(kind, id_, cpus)

    def forget(self, owner: str) -> None:
        """Drop the barrier of a container that ended."""
        self._barriers.pop(owner, None)
