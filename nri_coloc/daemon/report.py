"""Where decisions and mishaps are said: audit, metrics and the operator's log, in one call each.

Everything here runs after the reply has left. Nothing here decides or fails.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model.decisions import Decision
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.telemetry import logs
from nri_coloc.telemetry.audit import AuditLog, Record, record_of
from nri_coloc.telemetry.metrics import Metrics


class Report:
    """Speaks to all three audiences; may be called from every thread."""

    def __init__(self, audit: AuditLog, metrics: Metrics) -> None:
        self.audit = audit
        self.metrics = metrics
        self.log = logs.logger("daemon")
        self._numbers = count(1)

    def decided(
        self,
        decisions: Iterable[Decision],
        state: NodeState,
        previous: NodeState,
        latency_us: int | None = None,
    ) -> None:
        """Write the decisions of one event; they share a decision id."""
        decision_id = f"d{next(self._numbers)}"
        for decision in decisions:
            self.audit.submit(record_of(decision, state, decision_id, latency_us, previous))
            self.metrics.decided(decision)

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None:
        """Write one record that is not the policy's decision."""
        decision_id = f"d{next(self._numbers)}"
        self.audit.submit(Record(event, reason, because, decision_id=decision_id, **fields))
        self.metrics.decision(event, reason)

    def about(
        self, assignment: Assignment, state: NodeState, event: AuditEvent, reason: Reason, because: str
    ) -> None:
        """Write one record about a container that is not a decision of the policy."""
        self.decided((Decision(event, reason, because, subject=assignment),), state, state)

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str) -> None:
        """Say that a file could not be written or read."""
        self.metrics.write_failed(failure.path)
        self.said(AuditEvent.WRITE_FAILED, Reason.KERNEL_REFUSED, f"{subject}: {failure}")
