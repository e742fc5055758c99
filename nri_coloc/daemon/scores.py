"""The oom_score_adj of containers' processes: written where the runtime could not give it, or gave a former one.

A process has no file that a sweep could compare for nothing, so each container is looked at once a life, and again when
what it is to have has changed. Whom the runtime answered needs no look: it was given the score with its creation.
"""

from collections.abc import Iterator

from nri_coloc.core.state import Assignment
from nri_coloc.daemon import targets
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.host.cgroups import CgroupWriter


class Scores:
    """Called by whoever deals with a container at the time: the actuator's thread, the trunk's, the pusher's."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self._known: dict[str, int | None] = {}

    @property
    def ids(self) -> set[str]:
        """Of whom anything is known."""
        return {*self._known}

    def answered(self, assignment: Assignment) -> None:
        """Know what the runtime was told for a container that it is making."""
        self._known[assignment.id] = wanted(assignment)

    def keep(self, assignment: Assignment) -> None:
        """Write a container's score unless it is known to have it."""
        if self._known.get(assignment.id) != wanted(assignment):
            self.write(assignment)

    def write(self, assignment: Assignment) -> None:
        """Give a container's processes its score; what they execute inherits it."""
        score, pid = wanted(assignment), assignment.container.pid
        if score is None or not pid:
            return
        self._known[assignment.id] = score
        path = targets.container_path(assignment) or ""
        kubelets = assignment.container.oom_score_adj
        failure = self._writer.score(path, self._processes(path, pid), score, kubelets)
        if failure is not None:
            self._report.refused_by_kernel(failure, assignment, self._node.state)

    def forget(self, container_id: str) -> None:
        """Drop a container that ended."""
        self._known.pop(container_id, None)

    def _processes(self, path: str, first: int) -> Iterator[int]:
        yield first
        yield from (pid for pid in (self._writer.members(path) if path else ()) if pid != first)


def wanted(assignment: Assignment) -> int | None:
    """Return what a container's processes are to have: ours, or what they had before us where ours was taken back."""
    if assignment.wish.handler != "container":
        return None
    ours = assignment.wish.knobs.oom_score_adj
    return assignment.returned.oom_score_adj if ours is None else ours
