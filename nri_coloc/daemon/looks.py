"""What containers really have: their CPUs as they were last read back, by container id.

A file that refuses, or makes no sense, is told of as every refusal of the kernel; it is no reason for the others to go
unread, and least of all for a cut of the box to end half way: who was cut is looked at in the midst of it.
"""

from collections.abc import Iterable

from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.daemon import targets
from nri_coloc.daemon.report import Report, Subject
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.state import Assignment, NodeState


class Looks:
    """`actual` is read by anybody, and written by whoever looks."""

    def __init__(self, writer: CgroupWriter, report: Report) -> None:
        self.actual: dict[str, CPUMask] = {}
        self._writer = writer
        self._report = report

    def at(self, assignment: Assignment, state: NodeState) -> CPUMask | None:
        """Read what a container has; None if its cgroup is gone or cannot be read."""
        path = targets.lives_in(state, assignment)
        cpus = self._cpus(path, assignment, state) if path is not None else None
        if cpus is not None:
            self.actual[assignment.id] = cpus
        return cpus

    def at_all(self, assignments: Iterable[Assignment], state: NodeState) -> None:
        """Read what each of them has."""
        for assignment in assignments:
            self.at(assignment, state)

    def fewest(self, paths: Iterable[str], state: NodeState) -> int:
        """Return how many CPUs that one of some cgroups has that has the fewest; 0 where there is none."""
        found = (self._cpus(path, "", state) for path in paths)
        return min((cpus.bit_count() for cpus in found if cpus), default=0)

    def _cpus(self, path: str, subject: Subject, state: NodeState) -> CPUMask | None:
        try:
            return self._writer.cpus(path)
        except KernelInterfaceError as error:
            self._report.refused_by_kernel(error.as_value(), subject, state)
            return None
