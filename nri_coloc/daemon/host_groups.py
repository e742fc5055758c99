"""The box's members outside Kubernetes: cgroups that the operator's configuration names."""

from threading import Lock

from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.daemon import targets
from nri_coloc.daemon.drift import Drifts
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.knobs.capability import Capability
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, NodeState


class HostGroups:
    """Kept by the sweep, resized and looked at by the fast loop: one at a time, from the newest state each."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self.drifts = Drifts()
        self._placed: set[str] = set()
        self._looks_back = False
        self._turn = Lock()

    def take_over(self) -> None:
        """Know that the runtime told everything: who was a member in a former life may get its own back."""
        self._looks_back = True

    def place(self, can: Capability) -> None:
        """Bring all members to the box's values; who is none any more gets its own back."""
        tuning = self._node.tuning
        if tuning.observe:
            return
        with self._turn:
            state = self._node.state
            wanted = targets.host_groups(state, tuning)
            if self._looks_back:
                self._looks_back = False
                self._placed |= self._of_a_former_life(state) - set(wanted)
            for path in wanted:
                self._bring(path, state, can)
            for path in self._placed - set(wanted):
                self._let_go(path, state)
            self._placed = set(wanted)

    def guard(self, path: str, can: Capability) -> None:
        """Look at one member; what somebody reset is put back and told, within the limit."""
        with self._turn:
            if path in self._placed and not self._node.tuning.observe:
                self._bring(path, self._node.state, can)

    def _bring(self, path: str, state: NodeState, can: Capability) -> None:
        target = targets.of_host_group(state, path, can)
        if self.drifts.too_often(path) and self.drifts.holds(path, target):
            return
        applied = self._writer.apply(target)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, "", state)
        drift = self.drifts.judge(path, target, applied)
        if drift is not None:
            self._report.drifted("", state, drift.at(path))
        if path not in self._placed:
            because = f"the configuration names {path} a member of the box"
            self._report.said(AuditEvent.POD_LIMIT, Reason.BOX_MEMBER, because, pool=RECLAIM)

    def _let_go(self, path: str, state: NodeState) -> None:
        self.drifts.forget(path)
        for failure in self._writer.put_back(path, frozenset()):
            self._report.refused_by_kernel(failure, "", state)

    def _of_a_former_life(self, state: NodeState) -> set[str]:
        """Return what was placed before us and is nobody's of whom we know: host groups of other settings."""
        known = {targets.container_path(one) for one in state.containers.values()}
        return self._writer.placed() - known - {targets.pod_path(place.pod) for place in state.pods.values()}
