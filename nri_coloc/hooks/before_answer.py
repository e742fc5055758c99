"""Steps that bring cgroups to a decision before its hook is answered, on the hook's thread.

They are the last safe points for values that NRI cannot carry, or that the runtime must find in place. A start and a
resize wait, within bounds, until other containers have left the CPUs that are taken.
"""

import time
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift, Report
from nri_coloc.core.seams import Decided
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator

START_WAIT_S: Final = 0.4
"""Seconds that a dedicated container's start may wait for its CPUs: within a quarter of the usual timeout."""

ANSWER_S: Final = 0.02
"""The part of the deadline that is reserved for the answer itself."""


class CgroupSteps:
    """Each method is one step of `seams.BeforeAnswer`."""

    def __init__(self, node: Node, actuator: Actuator, report: Report) -> None:
        self._node = node
        self._actuator = actuator
        self._report = report

    def place_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the pod's values to its cgroup."""
        self._actuator.place_pod(decided.pod_id)

    def place_moved_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the pod's values to its cgroup if the decision changed them."""
        if decided.pod_id in decided.outcome.moves.pods:
            self._actuator.place_pod(decided.pod_id)

    def widen_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the values of a pod that leaves the reclaim cgroups.

        This is the one write before CreateContainer is answered. On cgroup v1 a container cannot start if its spec
        names CPUs that its pod's cgroup lacks. The runtime may be quicker than the actuator.
        """
        if decided.before.boxed(decided.pod_id) and not decided.outcome.state.boxed(decided.pod_id):
            self._actuator.place_pod(decided.pod_id)

    def move_others(self, decided: Decided, _deadline: float) -> None:
        """Have the actuator move other containers off the CPUs that this one takes."""
        outcome, owner = decided.outcome, decided.container_id
        if outcome.moves and not self._node.tuning.observe:
            self._actuator.order(outcome.moves, outcome.state, owner, outcome.waits_for)

    def place_start(self, decided: Decided, deadline: float) -> Drift | None:
        """Apply a starting container's values, its pod's cgroup first; return its drift.

        Values that no spec carries are set too. The pod's cgroup had more CPUs until the task was there.
        """
        self.place_moved_pod(decided, deadline)
        drift = self._actuator.place(decided.container_id)
        self._actuator.finish(decided.container_id)
        return drift

    def leave_own(self, decided: Decided, _deadline: float) -> Drift | None:
        """Apply a resized container's values before others get the CPUs that it returns; return its drift."""
        if decided.outcome.moves and not decided.outcome.waits_for:
            return self._actuator.place(decided.container_id)
        return None

    def wait_for_own_cpus(self, decided: Decided, deadline: float) -> None:
        """Wait until the former users of the container's CPUs have left them, read back, within bounds."""
        left = min(START_WAIT_S, deadline - time.monotonic() - ANSWER_S)
        barrier = self._actuator.await_departure(decided.container_id, max(left, 0.0))
        if barrier is None:
            return
        self._report.metrics.late_exclusivity()
        cpus = cpuset.render(barrier.taken)
        because = f"started before its CPUs were free: {barrier.open} cgroups not yet off CPUs {cpus}"
        state = decided.outcome.state
        assignment = state.containers[decided.container_id]
        self._report.about(assignment, state, (AuditEvent.LATE, Reason.TOO_LATE, because))
