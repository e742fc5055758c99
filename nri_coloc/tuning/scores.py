"""Write the oom_score_adj of containers' processes if the runtime could not give it, or gave an old one.

Processes have no file that a sweep could compare cheaply. So each container is checked once in its life, and again when
its wanted score changes. A container whose creation was answered needs no check, because the runtime gave it the score.
"""

from collections.abc import Iterator

from nri_coloc.core.report import Report
from nri_coloc.core.state import Assignment
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets


class Scores:
    """Scores by container. The threads of the actuator, the trunk and the pusher call it."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self._known: dict[str, int | None] = {}

    @property
    def ids(self) -> set[str]:
        """The ids of containers with a known score."""
        return {*self._known}

    def answered(self, assignment: Assignment) -> None:
        """Note that the answer to a container's creation carried its score."""
        self._known[assignment.id] = wanted(assignment)

    def keep(self, assignment: Assignment) -> None:
        """Write a container's score unless it is known to be set."""
        if self._known.get(assignment.id) != wanted(assignment):
            self.write(assignment)

    def write(self, assignment: Assignment) -> None:
        """Write the score of a container's processes; programs that they start inherit it."""
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
    """Return the score that a container's processes should have: ours, or the original value if ours was withdrawn."""
    if assignment.wish.handler != "container":
        return None
    ours = assignment.wish.knobs.oom_score_adj
    return assignment.returned.oom_score_adj if ours is None else ours
