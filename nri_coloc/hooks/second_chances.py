"""Place waiting containers again when CPUs of their own become free: one pod a second, on the housekeeping thread.

The policy chooses the pod, under the mutex. Then, outside of it, all other containers leave its CPUs. After that is
read back, its containers are pinned to them. The runtime's specs follow, so that they show the CPUs after a restart.
"""

from collections.abc import Callable
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import CPUsFreed, Moves, Outcome
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.seams import After, Change, tell
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.texts import counted
from nri_coloc.placing import waiting
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator

EVERY_S: Final = 0.9
"""Least seconds between two pods; housekeeping runs once a second."""

LEAVE_WITHIN_S: Final = 0.4
"""Seconds that other containers have to leave the CPUs, as at a start. Then the owner is pinned, and the audit records
the delay."""


class SecondChances:
    """Places one waiting pod after the other.

    knows_all: returns whether every live container is known. Before that, CPUs that look free may have an owner.
    """

    def __init__(
        self,
        node: Node,
        actuator: Actuator,
        report: Report,
        *,
        after: After,
        knows_all: Callable[[], bool],
    ) -> None:
        self._node = node
        self._actuator = actuator
        self._after = after
        self._report = report
        self._knows_all = knows_all
        self._tried: NodeState | None = None
        self._trying: NodeState | None = None
        self._turn = 0
        self._turns_left = 0
        self._next_at = 0.0

    def look(self, now: float) -> None:
        """Place the next pod that can be placed. The same state is tried until each waiting pod was tried."""
        before = self._node.state
        if before is self._tried or now < self._next_at or not self._knows_all():
            return
        outcome = self._node.decide(CPUsFreed(self._turn))
        if not outcome.decisions:
            self._tried_in_vain(outcome.state, now)
            return
        self._tried, self._next_at = None, now + EVERY_S
        specs = self._carry_out(outcome)
        tell(self._after, Change(before, outcome.state, outcome.decisions, specs=specs))

    def _tried_in_vain(self, state: NodeState, now: float) -> None:
        """Note a turn without success. While very many requests differ, a state has several turns."""
        self._turn += 1
        if state is not self._trying:
            self._trying, self._turns_left = state, waiting.turns(state)
        self._turns_left -= 1
        if self._turns_left > 0:
            self._next_at = now + EVERY_S
        else:
            self._tried = state

    def _carry_out(self, outcome: Outcome) -> tuple[str, ...]:
        """Move other containers off the CPUs, then pin the new owners; return the ids to push, owners first."""
        state, placed = outcome.state, _placed(outcome)
        taken = 0
        for owner in placed:
            taken |= owner.exclusive
        staying = _without(outcome.moves, outcome.waits_for)
        left_behind = self._actuator.hand_over(taken, outcome.waits_for, staying, LEAVE_WITHIN_S)
        if left_behind:
            self._tell_late(placed[0], state, left_behind, taken)
        return (*staying.containers, *outcome.waits_for.containers)

    def _tell_late(self, owner: Assignment, state: NodeState, left_behind: int, taken: CPUMask) -> None:
        self._report.metrics.late_exclusivity()
        left = counted(left_behind, "cgroup")
        because = f"pinned before its CPUs were free: {left} not yet off CPUs {cpuset.render(taken)}"
        self._report.about(owner, state, (AuditEvent.LATE, Reason.TOO_LATE, because))


def _placed(outcome: Outcome) -> list[Assignment]:
    return [d.subject for d in outcome.decisions if d.reason is Reason.CPUS_FREED and d.subject is not None]


def _without(moves: Moves, leaving: Moves) -> Moves:
    pods, containers = set(leaving.pods), set(leaving.containers)
    return Moves(
        tuple(k for k in moves.pods if k not in pods),
        tuple(k for k in moves.containers if k not in containers),
    )
