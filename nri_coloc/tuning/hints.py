"""Scheduling hints for containers' tasks, by class, from a container's start on while lending is on.

At a container's start its few tasks get the hint, and their children inherit it. Containers that started before the
daemon, or that changed their class, get it in the sweep. So do tasks that came in from outside (an exec), one container
a turn.
"""

from itertools import count
from typing import Final, Protocol

from nri_coloc.core import scheduler_hints
from nri_coloc.core.report import Report
from nri_coloc.core.scheduler_hints import Hint, SchedulerCapability
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import Phase
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.drift import Refusals

A_SWEEP: Final = 32
"""Containers whose tasks get hints in one sweep: each costs a few system calls for each thread."""


class Tasks(Protocol):
    """Hints of the tasks of a container's cgroup, by its path; journalled. A refusal is returned."""

    def hint(self, path: str, hint: Hint) -> KernelInterfaceError | None: ...

    def unhint(self, path: str) -> KernelInterfaceError | None: ...

    def hinted(self) -> set[str]: ...


class Hints:
    """Applies scheduling hints to containers' tasks.

    can: the hints that this machine takes; None if it takes none.
    refusals: by container, the hints that the kernel refused.
    """

    def __init__(self, node: Node, tasks: Tasks, report: Report, can: SchedulerCapability | None) -> None:
        self._can = can
        self._node = node
        self._tasks = tasks
        self._report = report
        self.refusals = Refusals()
        self._told: dict[str, Hint] = {}
        self._turn = count()

    def place(self, container_id: str) -> None:
        """Give a starting container's tasks their hint."""
        assignment = self._node.state.containers.get(container_id)
        hint = self._wanted(assignment) if assignment is not None else None
        if assignment is not None and hint is not None:
            self._tell(assignment, hint)

    def sweep(self) -> None:
        """Give hints to containers that have another one or none, and take back hints that are no longer wanted."""
        if self._can is None or self._node.tuning.observe:
            return
        state = self._node.state
        wanted = {
            a.id: hint
            for a in state.containers.values()
            if a.container.phase is not Phase.CREATED and (hint := self._wanted(a)) is not None
        }
        self._take_back(state, wanted)
        due = [k for k, hint in wanted.items() if self._told.get(k) != hint][:A_SWEEP]
        if wanted and not due:
            due = [list(wanted)[next(self._turn) % len(wanted)]]
        for container_id in due:
            is_new = self._told.get(container_id) != wanted[container_id]
            if is_new or not self.refusals.pauses(container_id):
                self._tell(state.containers[container_id], wanted[container_id])

    def _take_back(self, state: NodeState, wanted: dict[str, Hint]) -> None:
        """Take back hints of the previous process or of an earlier class; an ended container needs nothing."""
        paths = {targets.container_path(a): k for k, a in state.containers.items()}
        for path in self._tasks.hinted():
            container_id = paths.get(path)
            if container_id is None:
                continue
            told = self._told.get(container_id)
            if told in (None, wanted.get(container_id)) and self.refusals.pauses(container_id):
                continue
            if container_id not in wanted or (told is not None and told != wanted[container_id]):
                self._say(self._tasks.unhint(path), state.containers[container_id])
                self._told.pop(container_id, None)
        self._told = {k: hint for k, hint in self._told.items() if k in state.containers}
        for gone in self.refusals.ids - state.containers.keys():
            self.refusals.forget(gone)

    def _wanted(self, assignment: Assignment) -> Hint | None:
        tuning, wish = self._node.tuning, assignment.wish
        if self._can is None or tuning.observe or not tuning.reclaim.enabled:
            return None
        if wish.handler != "container" or "cpu" in wish.preserve:
            return None
        return scheduler_hints.hint(assignment.qos, tuning.reclaim.hints, self._can)

    def _tell(self, assignment: Assignment, hint: Hint) -> None:
        path = targets.container_path(assignment)
        if path is None:
            return
        self._told[assignment.id] = hint
        self._say(self._tasks.hint(path, hint), assignment)

    def _say(self, failure: KernelInterfaceError | None, assignment: Assignment) -> None:
        self.refusals.tried(assignment.id, () if failure is None else (failure,))
        if failure is not None:
            # by kind, not by task: the same refusal of every task is one record
            told = KernelInterfaceError("/proc/PID/sched", failure.action, failure.reason)
            self._report.refused_by_kernel(told, assignment, self._node.state)
