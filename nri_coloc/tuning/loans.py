"""The loans of reclaimed containers, kept in step with the capacity: checked every few seconds, pushed seldom.

The caller supplies the capacity. Without a forecast, its CPU is the fast loop's headroom, and memory counts as
available: a daemon that measures no memory takes none back. Nothing happens before a capacity has lasted
(`AmountTuning.dwell_s`), nor for less than the dead band. A lowered memory limit is checked again whenever it is
pushed. Minutes may have passed since it was decided, and a limit below the use would kill.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from nri_coloc.core import report
from nri_coloc.core.decisions import AmountsGranted
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.lending import Capacity
from nri_coloc.core.report import Report
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.host.readings import CgroupReader
from nri_coloc.placing import loans
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.tuning import lent_amounts
from nri_coloc.tuning.lent_amounts import Loan, Settled

EVERY_S: Final = 5.0

CapacityNow = Callable[[], Capacity]
MemoryInUse = Callable[[Assignment], int | None]
"""Bytes that a container needs; None if they cannot be read."""


class Loans:
    """`look` is called by one thread, `ease` by any."""

    def __init__(self, node: Node, capacity: CapacityNow, in_use: MemoryInUse, report: Report) -> None:
        self._capacity = capacity
        self._node = node
        self._in_use = in_use
        self._report = report
        self._settled = Settled()
        self._looked_at = float("-inf")
        self._would: Mapping[str, Knobs] = {}

    def look(self, now: float, after: After) -> None:
        """Change containers' loans where a change is worth its cost, at most once in `EVERY_S`."""
        if now - self._looked_at < EVERY_S:
            return
        self._looked_at = now
        event = self._changes(self._node.state, now)
        if not event.amounts:
            self._would = {}
            return
        if self._node.tuning.observe:
            self._say_only(event)
            return
        before = self._node.state
        tell(after, all_of(self._node.decide(event), before))

    def ease(self, container_id: str) -> bool:
        """Raise a container's lowered memory limit above its present use; return False if that cannot be read.

        For a caller that is about to push the limit to the runtime.
        """
        assignment = self._node.state.containers.get(container_id)
        is_lowered = assignment is not None and assignment.granted.memory_limit is not None
        loan = self._loan(assignment) if assignment is not None and is_lowered else None
        if loan is None or loan.lent.memory_limit is None or self._node.tuning.observe:
            return True
        changes = lent_amounts.eased({container_id: loan}, self._node.tuning.reclaim.amounts)
        if changes:
            room = self._node.tuning.reclaim.amounts.memory_room
            inputs = {"in_use_bytes": loan.in_use, "memory_room_bytes": room}
            because = report.sentence(
                "lowered memory limit raised before its push: use has grown", inputs, inputs
            )
            before = self._node.state
            outcome = self._node.decide(AmountsGranted(changes, because, inputs))
            self._report.decided(outcome.decisions, outcome.state, before)
        return loan.in_use is not None

    def _changes(self, state: NodeState, now: float) -> AmountsGranted:
        tuning = self._node.tuning.reclaim
        if not tuning.enabled:
            self._settled = Settled()
            return AmountsGranted(dict(_whole_again(state)), "loans restored: lending is switched off")
        found = {a.id: loan for a in state.containers.values() if (loan := self._loan(a)) is not None}
        balanced = lent_amounts.rebalance(self._settled, found, self._capacity(), now, tuning.amounts)
        self._settled = balanced.settled
        return AmountsGranted(balanced.changes, balanced.because, balanced.inputs)

    def _loan(self, assignment: Assignment) -> Loan | None:
        """Return a container's loan without the values that its pod preserves; None if there is none."""
        wish = assignment.wish
        lent = lent_amounts.lent(wish)
        if lent is None or wish.handler != "container":
            return None
        if "cpu" in wish.preserve:
            lent = lent._replace(shares=None, quota=None, period=None)
        if "memory" in wish.preserve:
            lent = lent._replace(memory_limit=None)
        in_use = self._in_use(assignment) if lent.memory_limit is not None else None
        return Loan(
            lent=lent,
            present=lent.overlaid(assignment.granted),
            in_use=in_use,
            priority=wish.priority,
            pod_id=assignment.container.pod_id,
            confirmed=self._node.state.lent_to(assignment),
        )

    def _say_only(self, event: AmountsGranted) -> None:
        """Record once the changes that mode observe does not make."""
        if event.amounts != self._would:
            self._would = event.amounts
            self._report.decided(
                loans.granted(self._node.state, event).decisions, self._node.state, self._node.state
            )


def _whole_again(state: NodeState) -> list[tuple[str, Knobs]]:
    """Return the whole loans of containers that have less: without lending no capacity is measured."""
    return [
        (a.id, loans.loan(a.wish).where_set(a.granted))
        for a in state.containers.values()
        if a.granted != NO_KNOBS
    ]


def memory_in_use(cgroups: CgroupReader, assignment: Assignment) -> int | None:
    """Return the working set of a container, bytes; None if its cgroup cannot be read."""
    path = targets.container_path(assignment)
    found = cgroups.amounts(path, time.monotonic()) if path is not None else None
    return found.memory.working_set if found is not None and found.memory is not None else None
