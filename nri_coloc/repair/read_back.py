"""The CPUs of each container as they were last read back, by container id.

A cgroup file that cannot be read, or makes no sense, is recorded as every refusal of the kernel is. The value that was
read before it counts no longer: `unread` has the reason. The other containers are read nevertheless, because the
reclaim pool shrinks in the midst of these reads.
"""

from collections.abc import Iterable
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.report import Report
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
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

    def at(self, assignment: Assignment, state: NodeState) -> CPUMask | None:
        """Return the CPUs that a container has, read now; None if its cgroup is gone or cannot be read."""
        path = targets.lives_in(state, assignment)
        if path is None:
            self.note(assignment.id, None, NO_PATH)
            return None
        try:
            cpus = self._writer.cpus(path)
        except KernelInterfaceError as error:
            self._report.refused_by_kernel(error.as_value(), assignment, state)
            self.note(assignment.id, None, str(error))
            return None
        self.note(assignment.id, cpus)
        return cpus

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
        found = (self._cpus(path, state) for path in paths)
        return min((cpus.bit_count() for cpus in found if cpus), default=0)

    def _cpus(self, path: str, state: NodeState) -> CPUMask | None:
        try:
            return self._writer.cpus(path)
        except KernelInterfaceError as error:
            self._report.refused_by_kernel(error.as_value(), "", state)
            return None
