"""Which quotas and bursts pods and containers are to have now, by files: never in the runtime's spec.

A burst is a percentage of a container's own quota, ordered by annotation; its pod's cgroup gets as much as its
containers together, or a container's would never be used. Quotas are raised by the quota burst, where that is on.
Pods of which nobody wants either are not even looked at.
"""

import time
from collections.abc import Mapping
from typing import Final

from nri_coloc.actuation.bandwidths import PodBandwidth, Share
from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.daemon import targets
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.policy import admission

REPAIRS_PER_MINUTE: Final = 6
"""As for cpusets: a pod that somebody resets again and again is repaired so often, and no more."""


class PodBandwidths:
    """`raised`: quotas of containers beyond their own, by id, µs; swapped whole by whoever runs the quota burst."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self.raised: Mapping[str, int] = {}
        self._node = node
        self._writer = writer
        self._report = report
        self._applied: dict[str, PodBandwidth] = {}
        self._repairs: dict[str, list[float]] = {}

    def place(self, container_id: str) -> None:
        """Bring a container that starts, or was updated, and its pod to their values."""
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and _wants(assignment, self.raised):
            self.apply(assignment.container.pod_id)

    def apply(self, pod_id: str) -> None:
        """Bring one pod to its values."""
        wanted = self._of_pod(self._node.state, pod_id)
        if wanted is not None and not self._node.tuning.observe:
            self._write(pod_id, wanted)

    def sweep(self) -> None:
        """Bring every pod to its values, and put right what somebody reset, within the limit."""
        state = self._node.state
        if self._node.tuning.observe:
            return
        wanting = {a.container.pod_id for a in state.containers.values() if _wants(a, self.raised)}
        for pod_id in wanting | self._applied.keys():
            wanted = self._of_pod(state, pod_id)
            if wanted is None:
                self._forget(pod_id)
            elif self._applied.get(pod_id) != wanted:
                self._write(pod_id, wanted)
            elif not self._too_often(pod_id) and self._write(pod_id, wanted):
                self._repaired(pod_id)

    def resized(self, container_id: str) -> None:
        """Go by a container's new quota before the runtime writes it: below a burst the kernel would refuse it.

        A raise ends here: the kubelet's new quota is the one to be seen.
        """
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and container_id in self.raised:
            self.raised = {**self.raised, container_id: _own(assignment)}
        self.place(container_id)

    def _of_pod(self, state: NodeState, pod_id: str) -> PodBandwidth | None:
        place = state.pods.get(pod_id)
        pod = targets.pod_path(place.pod) if place is not None else ""
        if not pod:
            return None
        shares = {}
        for assignment in state.of_pod(pod_id):
            path = targets.container_path(assignment)
            if path is not None and assignment.wish.handler == "container":
                shares[path] = self._share(state, assignment)
        return PodBandwidth(pod, shares)

    def _share(self, state: NodeState, assignment: Assignment) -> Share:
        raised = self.raised.get(assignment.id) or None
        return Share(_own(assignment), raised, admission.orders(state, assignment).burst)

    def _write(self, pod_id: str, wanted: PodBandwidth) -> int:
        self._applied[pod_id] = wanted
        written = self._writer.bandwidth(wanted)
        for failure in written.failures:
            self._report.refused_by_kernel(failure, pod_id, self._node.state)
        return written.files - len(written.failures)

    def _forget(self, pod_id: str) -> None:
        self._applied.pop(pod_id, None)
        self._repairs.pop(pod_id, None)

    def _too_often(self, pod_id: str) -> bool:
        now = time.monotonic()
        self._repairs[pod_id] = [at for at in self._repairs.get(pod_id, ()) if now - at < 60]
        return len(self._repairs[pod_id]) >= REPAIRS_PER_MINUTE

    def _repaired(self, pod_id: str) -> None:
        self._repairs[pod_id].append(time.monotonic())
        self._report.metrics.drift_repaired()
        because = "quotas or bursts of the pod or its containers were not what they should be; put right"
        words = (AuditEvent.DRIFT_REPAIR, Reason.FOUND_DIFFERENT, because)
        self._report.about(pod_id, self._node.state, words)


def _own(assignment: Assignment) -> int:
    """Return the quota that the kubelet gave, 0 for none."""
    return max(0, assignment.container.resources.quota or 0)


def _wants(assignment: Assignment, raised: Mapping[str, int]) -> bool:
    return assignment.wish.cpu_burst_percent is not None or assignment.id in raised
