"""Report decisions and failures to audit, metrics and the operator's log, in one call each.

Everything here runs after the reply was sent. Nothing here decides or fails.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from nri_coloc.core import report
from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift, Subject
from nri_coloc.core.seams import Change
from nri_coloc.core.state import NodeState
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Pod
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.nri.events import Hook
from nri_coloc.placing import allocator, request, words
from nri_coloc.placing.candidates import candidates
from nri_coloc.repair.neighbours import Neighbours
from nri_coloc.service import logs
from nri_coloc.service.audit import AuditLog, Record, pod_of, worded
from nri_coloc.service.metrics import Metrics
from nri_coloc.service.unwritten import Unwritten

Lacking = Callable[[Knobs], Knobs]
"""Returns the values that this machine does not take."""


class Report:
    """Implements `core.report.Report` and the reports that only hooks and operators need; for every thread."""

    def __init__(self, audit: AuditLog, metrics: Metrics, lacking: Lacking) -> None:
        self.audit = audit
        self.metrics = metrics
        self.neighbours = Neighbours()
        self.unwritten = Unwritten()
        self._lacking = lacking
        self.log = logs.logger("daemon")
        self._numbers = count(1)
        self._listeners: tuple[list[str], ...] = ()

    def changed(self, change: Change) -> None:
        """Record the decisions of a change."""
        if change.decisions:
            self.decided(change.decisions, change.after, change.before, change.latency_us)

    def decided(
        self,
        decisions: Iterable[Decision],
        state: NodeState,
        previous: NodeState,
        latency_us: int | None = None,
    ) -> None:
        """Record the decisions of one event; they share a decision id."""
        decision_id = f"d{next(self._numbers)}"
        for decision in decisions:
            pod = pod_of(decision, state, previous)
            # not the states themselves: a record that waits must not keep their containers alive
            absent = NO_KNOBS if decision.after is NO_KNOBS else self._lacking(decision.after)
            set_here = decision if absent == NO_KNOBS else _without(decision, absent)
            self.audit.submit(partial(recorded, set_here, pod, state.topology, decision_id, latency_us))
            self.metrics.decided(decision)
            if absent != NO_KNOBS:
                self._not_set(decision, absent, pod, decision_id)

    def _not_set(self, decision: Decision, absent: Knobs, pod: Pod, decision_id: str) -> None:
        """Record that values of a decision are in force nowhere, because this machine does not take them."""
        values = absent.named()
        names = ", ".join(values)
        said = Decision(
            AuditEvent.WRITE_FAILED,
            Reason.NO_FILE,
            f"not set: this machine has no file for the value ({names})",
            subject=decision.subject,
            pod_id=decision.pod_id,
            pool=decision.pool,
            qos=decision.qos,
            inputs=values,
        )
        record = worded(said, pod, decision_id, None)
        self.audit.submit(replace(record, extra={"inputs": values}))
        self.metrics.decided(said)
        self.metrics.without_file(values)
        self.unwritten.absent(values)

    def said(
        self, event: AuditEvent, reason: Reason, because: str, *, decision_id: str = "", **fields: Any
    ) -> None:
        """Record an event that is not a decision of the policy.

        decision_id: of the cause, if an earlier record has the same cause.
        """
        decision_id = decision_id or f"d{next(self._numbers)}"
        self.audit.submit(Record(event, reason, because, decision_id=decision_id, **fields))
        self.metrics.decision(event, reason)

    def memory_taken(self, regime: str, amount: int) -> None:
        """Count bytes that were taken back from reclaimed pods."""
        self.metrics.memory_taken(regime, amount)

    def unread_file(self, sentence: str) -> None:
        """Report a file of the state folder that cannot be read; the daemon goes on without it."""
        self.log.warning(sentence)
        self.said(AuditEvent.STATE_FOLDER, Reason.TAKEN_OVER, f"state file ignored: {sentence}")

    def about_hook(self, hook: Hook, what: tuple[AuditEvent, Reason, str]) -> None:
        """Record an event about a hook's container or pod, whether known or not."""
        pod, container = hook.pod, hook.container
        whom = {"namespace": pod.namespace, "pod": pod.name, "pod_uid": pod.uid}
        if container is not None:
            whom |= {"container": container.name, "container_id": container.id}
        event, reason, because = what
        self.said(event, reason, because, **whom)

    def about(self, subject: Subject, state: NodeState, what: tuple[AuditEvent, Reason, str]) -> None:
        """Record an event about a container, or about a pod by its id, that is not a decision of the policy."""
        event, reason, because = what
        if isinstance(subject, str):
            decision = Decision(event, reason, because, pod_id=subject)
        else:
            decision = Decision(event, reason, because, subject=subject)
        self.decided((decision,), state, state)

    def drifted(self, subject: Subject, state: NodeState, drift: Drift) -> None:
        """Record that another writer changed a cgroup's values and that they were repaired."""
        self.metrics.drift_repaired()
        if not drift.former:
            self.neighbours.repaired(_cgroup(subject, state, drift), drift, time.monotonic())
        for listener in self._listeners:
            listener.append(f"{_named(subject, state)}{drift.because}")
        told = (AuditEvent.DRIFT_REPAIR, Reason.FOUND_DIFFERENT, drift.because)
        if isinstance(subject, str):
            decision = Decision(*told, pod_id=subject, before=drift.before, after=drift.after)
        else:
            decision = Decision(*told, subject=subject, before=drift.before, after=drift.after)
        self.decided((decision,), state, state)

    @contextmanager
    def overhearing(self) -> Iterator[list[str]]:
        """Collect a sentence on every repair while the context is open."""
        heard: list[str] = []
        self._listeners += (heard,)
        try:
            yield heard
        finally:
            self._listeners = tuple(one for one in self._listeners if one is not heard)

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: Subject, state: NodeState) -> None:
        """Record that a file could not be written or read. The same refusal again is only counted."""
        self.metrics.write_failed(failure.path)
        if self.unwritten.refused(failure.path, failure.reason, time.monotonic()):
            self.decided((_refused(failure, subject),), state, state)


def _refused(failure: KernelInterfaceError, subject: Subject) -> Decision:
    """Return the decision that says which file of a cgroup could not be written or read, and why."""
    because = f"cannot {failure.action} {failure.path}: {failure.reason}"
    inputs = {"file": failure.path, "action": failure.action, "error": failure.reason}
    said = Decision(AuditEvent.WRITE_FAILED, Reason.REFUSED, because, inputs=inputs)
    return said._replace(pod_id=subject) if isinstance(subject, str) else said._replace(subject=subject)


def _named(subject: Subject, state: NodeState) -> str:
    """Return the cgroup's pod and container as the beginning of a sentence; "" if the sentence has it already."""
    if isinstance(subject, str):
        pod_id, container = subject, ""
    else:
        pod_id, container = subject.container.pod_id, f"/{subject.container.name}"
    place = state.pods.get(pod_id)
    return "" if place is None else f"{place.pod.namespace}/{place.pod.name}{container}: "


def _cgroup(subject: Subject, state: NodeState, drift: Drift) -> str:
    """Return a drifted cgroup's name for people: its pod or container, else the path in the drift."""
    return _named(subject, state).removesuffix(": ") or drift.path


def recorded(
    decision: Decision,
    pod: Pod,
    topology: Topology,
    decision_id: str,
    latency_us: int | None,
) -> Record:
    """Return the record of a decision, with the figures that were used.

    For `explain` it has the nodes that a dedicated container could have got.
    """
    record = worded(decision, pod, decision_id, latency_us)
    subject, considered = decision.subject, decision.considered
    used: dict[str, Any] = dict(decision.inputs or {})
    extra: dict[str, Any] = {}
    if decision.place is not None and subject is not None:
        used |= words.inputs(subject, decision.place)
    if considered is not None and subject is not None:
        found = candidates(topology, considered, subject.exclusive)
        extra["candidates"] = [each.as_json() for each in found]
        used |= {
            "request_milli": request.of_container(subject.container, subject.wish).milli,
            **allocator.inputs(topology, considered, subject.exclusive),
        }
    if not used:
        return record
    because = report.sentence(decision.because, used, decision.shows)
    return replace(record, because=because, extra={"inputs": used, **extra})


def _without(decision: Decision, absent: Knobs) -> Decision:
    """Return a decision without the values that this machine does not take."""
    before, after = (knobs.without(absent) for knobs in (decision.before, decision.after))
    return decision._replace(before=before, after=after)
