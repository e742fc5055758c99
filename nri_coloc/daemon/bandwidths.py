"""Which quotas and bursts pods and containers are to have now, by files: never in the runtime's spec.

A burst is a percentage of a container's own quota, ordered by annotation; its pod's cgroup gets as much as its
containers together, or a container's would never be used. Quotas are raised by the quota burst, where that is on.
Pods of which nobody wants either are not even looked at.
"""

from collections.abc import Mapping

from nri_coloc.actuation.bandwidths import PodBandwidth, Share, Write
from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.actuation.files import Correction
from nri_coloc.daemon import targets
from nri_coloc.daemon.drift import Drifts, worded
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.policy import admission


class PodBandwidths:
    """`raised`: quotas of containers beyond their own, by id, µs; swapped whole by whoever runs the quota burst."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self.raised: Mapping[str, int] = {}
        self._node = node
        self._writer = writer
        self._report = report
        self._applied: dict[str, PodBandwidth] = {}
        self.drifts = Drifts()

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
            elif not self.drifts.too_often(pod_id):
                self._say_repaired(pod_id, self._write(pod_id, wanted))

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

    def _write(self, pod_id: str, wanted: PodBandwidth) -> tuple[Write, ...]:
        self._applied[pod_id] = wanted
        written = self._writer.bandwidth(wanted)
        for failure in written.failures:
            self._report.refused_by_kernel(failure, pod_id, self._node.state)
        return written.done

    def _forget(self, pod_id: str) -> None:
        self._applied.pop(pod_id, None)
        self.drifts.forget(pod_id)

    def _say_repaired(self, pod_id: str, done: tuple[Write, ...]) -> None:
        """Tell what somebody had reset, the pod and its containers each in one record."""
        if not done:
            return
        state = self._node.state
        members = {targets.container_path(one): one for one in state.of_pod(pod_id)}
        by_target: dict[str, list[Correction]] = {}
        for each in done:
            by_target.setdefault(each.target, []).append(each.file)
        times = self.drifts.count(pod_id)
        for target, found in by_target.items():
            self._report.drifted(members.get(target, pod_id), state, worded(found, times))


def _own(assignment: Assignment) -> int:
    """Return the quota that the kubelet gave, 0 for none."""
    return max(0, assignment.container.resources.quota or 0)


def _wants(assignment: Assignment, raised: Mapping[str, int]) -> bool:
    return assignment.wish.cpu_burst_percent is not None or assignment.id in raised
