"""Quotas and bursts of pods and containers, written to cgroup files and never to the runtime's spec.

A burst is a percentage of a container's own quota, ordered by annotation or for its class. Its pod's cgroup gets the
sum of its containers' bursts: with less, a container could never use its burst. If the quota burst is on, it raises
quotas. A degraded container's quota is lowered, and no quota burst raises it. Pods without a burst and without a
changed quota are not read.

Hooks, the sweep, the quota burst and degrading write here. Values are computed from the newest state, under the lock of
all writes. A raised or lowered quota holds only for the own quota that it was computed from. So neither it nor a burst
outlives a resize. During a resize no quota in the pod is raised or lowered. On cgroup v1 the kernel refuses the
kubelet's write to the pod while a container has more (kernel/sched/core.c, tg_cfs_schedulable_down).

Every changed quota is recorded: one record for each container, and one for the pod.
"""

import time
from collections.abc import Mapping
from threading import Lock
from typing import Final

from nri_coloc.core import report
from nri_coloc.core.changed_quota import ChangedQuota, left_behind
from nri_coloc.core.decisions import Decision, Inputs
from nri_coloc.core.knobs import NO_KNOBS, NO_LIMIT, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.host import knob_files
from nri_coloc.host.bandwidth import POD
from nri_coloc.host.bandwidth_files import QUOTAS, PodBandwidth, Share, Write, Written
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import Correction
from nri_coloc.placing import admission, loans, reclaim_cgroups
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.drift import Drifts, worded

RESIZE_LASTS_S: Final = 10.0
"""Seconds that the kubelet may take from a container's update to the last write of a pod's resize. Meanwhile runc runs
once for each container of the pod, and the pod's cgroup is written."""


class PodBandwidths:
    """Applies quotas and bursts.

    changed: quotas of ours by container id, also those to be restored until their original value is written.

    Size: one lock for all writes of quotas and bursts, by hooks, sweeps, the quota burst and degrading.
    """

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self.changed: Mapping[str, ChangedQuota] = {}
        self._node = node
        self._writer = writer
        self._report = report
        self._applied: dict[str, PodBandwidth] = {}
        self._not_lowered: dict[str, frozenset[str]] = {}
        self._resized_at: dict[str, float] = {}
        self.drifts = Drifts()
        self._turn = Lock()

    def take_over(self) -> None:
        """Restore the quotas that the previous process changed. The next sweep checks all files that it wrote.

        The quota burst calls this once the runtime has sent its list.
        """
        state, left = self._node.state, self._writer.held_back()
        paths = {a.id: targets.container_path(a) for a in state.containers.values()}
        for pod_id, place in state.pods.items():
            mine = {targets.pod_path(place.pod), *(paths[a.id] for a in state.of_pod(pod_id))}
            if mine & left.keys():
                self._applied.setdefault(pod_id, _OTHER_VALUES)
        # independent of its present class and handler; the quota of a loan is kept
        self.change(
            {
                a.id: left_behind(a.container.resources.cpu_quota, left[path])
                for a in state.containers.values()
                if (path := paths[a.id]) in left and loans.loan(a.wish).quota is None
            }
        )

    def change(self, changed: Mapping[str, ChangedQuota]) -> None:
        """Change the quotas of some containers, by id, and write those that are new; all others stay.

        In mode observe only quotas to be restored may be passed. Such an entry is kept until its write succeeds.
        """
        containers = self._node.state.containers
        with self._turn:
            known = self.changed
            self.changed = {k: one for k, one in {**known, **changed}.items() if k in containers}
        pods = {
            containers[k].container.pod_id
            for k, one in changed.items()
            if k in containers and (one.quota is None or not _is_same(known.get(k), one))
        }
        for pod_id in pods:
            with self._turn:
                self._keep(pod_id)

    def place(self, container_id: str) -> None:
        """Apply the quota and burst of a container that starts or was updated, and of its pod."""
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and self._wants(assignment):
            self.apply(assignment.container.pod_id)

    def follow(self, container_id: str) -> None:
        """Apply the values of a container's pod if they differ from the values that were applied last."""
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None:
            return
        pod_id = assignment.container.pod_id
        if pod_id in self._applied or self._wants(assignment):
            wanted = self._of_pod(state, pod_id)
            if wanted is not None and self._applied.get(pod_id) != wanted:
                self.apply(pod_id)

    def apply(self, pod_id: str) -> None:
        """Apply one pod's values."""
        with self._turn:
            wanted = self._of_pod(self._node.state, pod_id)
            if wanted is not None and not self._node.tuning.observe:
                self._change(pod_id, wanted)

    def sweep(self) -> None:
        """Apply every pod's values, and repair drift within the limit of repairs."""
        state = self._node.state
        if self._node.tuning.observe:
            return
        wanting = {a.container.pod_id for a in state.containers.values() if self._wants(a)}
        for pod_id in wanting | self._applied.keys():
            with self._turn:
                self._keep(pod_id)

    def resized(self, pod_id: str) -> None:
        """Take back changed quotas and bursts of a pod before the runtime and the kubelet write its new quotas.

        The kernel refuses a quota below a burst, and on cgroup v1 a pod's quota below a container's. The end of a
        container may be part of a resize that restarts it. The kubelet then writes the pod's quota before the new
        container exists.
        """
        now = time.monotonic()
        with self._turn:
            self._note_resize(pod_id, now)
        if pod_id in self._applied or any(map(self._wants, self._node.state.containers.of_pod(pod_id))):
            self.apply(pod_id)

    def _note_resize(self, pod_id: str, now: float) -> None:
        """Note a pod, the latest last, and drop pods whose resize is over."""
        self._resized_at.pop(pod_id, None)
        self._resized_at[pod_id] = now
        while now - self._resized_at[first := next(iter(self._resized_at))] >= RESIZE_LASTS_S:
            del self._resized_at[first]

    def is_refused(self, container_id: str) -> bool:
        """Return whether the kernel refused part of the values last wanted for a container's pod.

        A lower quota that it would refuse is not written at all.
        """
        assignment = self._node.state.containers.get(container_id)
        if assignment is None:
            return False
        pod_id = assignment.container.pod_id
        is_left_out = targets.container_path(assignment) in self._not_lowered.get(pod_id, ())
        return is_left_out or self.drifts.refusals.refused(pod_id)

    def is_degraded(self, container_id: str) -> bool:
        """Return whether a container has a lowered quota now."""
        assignment, changed = self._node.state.containers.get(container_id), self.changed.get(container_id)
        if assignment is None or changed is None or changed.is_raise or changed.quota is None:
            return False
        return self._holds(assignment, changed) and not self.is_refused(container_id)

    def _keep(self, pod_id: str) -> None:
        state = self._node.state
        wanted = self._of_pod(state, pod_id)
        if wanted is None:
            self._forget(pod_id)
        elif self._applied.get(pod_id) == wanted and self.drifts.lets_be(pod_id):
            return
        elif not any(self._wants(a) for a in state.of_pod(pod_id)):
            self._give_back(pod_id, wanted)
        elif self._applied.get(pod_id) != wanted or self._is_unfinished(pod_id):
            self._change(pod_id, wanted)
        else:
            self._say_repaired(pod_id, self._write(pod_id, wanted).done)

    def _is_unfinished(self, pod_id: str) -> bool:
        """Return whether the last write was refused: the next one is a change of ours, and no repair."""
        restores = (k for k, one in self.changed.items() if one.quota is None)
        containers = self._node.state.containers
        waits = any(k in containers and containers[k].container.pod_id == pod_id for k in restores)
        return waits or self.drifts.refusals.refused(pod_id)

    def _of_pod(self, state: NodeState, pod_id: str) -> PodBandwidth | None:
        place = state.pods.get(pod_id)
        pod = targets.pod_path(place.pod) if place is not None else ""
        if place is None or not pod:
            return None
        shares = {}
        for assignment in state.of_pod(pod_id):
            path = targets.container_path(assignment)
            if path is not None and self._has_share(assignment):
                shares[path] = self._share(state, assignment)
        unit = reclaim_cgroups.knobs(state, pod_id) if place.wish.handler == "pod" else NO_KNOBS
        return PodBandwidth(pod, shares, unit.quota, unit.burst)

    def _has_share(self, assignment: Assignment) -> bool:
        """Return whether a container's own cgroup may have values of ours, also from before its handler changed.

        A VM's values are its pod's. An ignored container has no values, so that its original ones are restored.
        """
        return assignment.wish.handler != "pod" or assignment.id in self.changed

    def _share(self, state: NodeState, assignment: Assignment) -> Share:
        own, changed = assignment.container.resources.cpu_quota, self.changed.get(assignment.id)
        burst = None if self._node.tuning.observe else admission.orders(state, assignment).burst
        if burst is not None and self.is_resized(assignment.container.pod_id):
            burst = 0
        if changed is None:
            return Share(own, None, burst)
        quota = changed.quota if self._holds(assignment, changed) else None
        return Share(own, quota or own or None, burst, is_changed=True)

    def _holds(self, assignment: Assignment, changed: ChangedQuota) -> bool:
        """Return whether a changed quota was computed from the present own one, and no resize is in progress."""
        container = assignment.container
        return changed.own == container.resources.cpu_quota and not self.is_resized(container.pod_id)

    def _wants(self, assignment: Assignment) -> bool:
        wish = assignment.wish
        lends = wish.handler == "pod" and loans.loan(wish).quota is not None
        return lends or wish.cpu_burst_percent is not None or assignment.id in self.changed

    def is_resized(self, pod_id: str) -> bool:
        """Return whether a resize of a pod is in progress."""
        at = self._resized_at.get(pod_id)
        return at is not None and time.monotonic() - at < RESIZE_LASTS_S

    def _change(self, pod_id: str, wanted: PodBandwidth) -> Written:
        """Write new values, record the quotas that changed, and forget those that were restored."""
        written = self._write(pod_id, wanted)
        quotas = {each.target: each.file for each in written.done if each.file.name in QUOTAS}
        if quotas:
            self._say_changed(pod_id, wanted, quotas)
        restored = {a.id for a in self._node.state.of_pod(pod_id) if self._is_restored(a)}
        self.changed = {k: one for k, one in self.changed.items() if k not in restored}
        return written

    def _is_restored(self, assignment: Assignment) -> bool:
        changed = self.changed.get(assignment.id)
        return changed is not None and changed.quota is None and not self.is_refused(assignment.id)

    def _write(self, pod_id: str, wanted: PodBandwidth) -> Written:
        written = self._writer.bandwidth(wanted, time.monotonic())
        self._applied[pod_id] = _OTHER_VALUES if written.is_waiting else wanted
        self._not_lowered[pod_id] = written.not_lowered
        self.drifts.refusals.tried(pod_id, written.failures)
        for failure in written.failures:
            self._report.refused_by_kernel(failure, pod_id, self._node.state)
        return written

    def _give_back(self, pod_id: str, wanted: PodBandwidth) -> None:
        """Restore a pod's original values; if none is refused, stop checking the pod."""
        if not self._change(pod_id, wanted).failures:
            self._forget(pod_id)

    def _forget(self, pod_id: str) -> None:
        self._applied.pop(pod_id, None)
        self._not_lowered.pop(pod_id, None)
        self.drifts.forget(pod_id)

    def _say_changed(self, pod_id: str, wanted: PodBandwidth, quotas: Mapping[str, Correction]) -> None:
        state = self._node.state
        members = {targets.container_path(one): one for one in state.of_pod(pod_id)}
        decisions = []
        for target, file in quotas.items():
            before, after = (knob_files.shown(file.name, text) for text in (file.was, file.now))
            if target == POD and wanted.quota is not None:
                continue  # a VM's quota: recorded when it was decided
            if target == POD:
                why = "pod quota raised: its containers' quotas were raised"
                of_pod = Decision(AuditEvent.POD_LIMIT, Reason.QUOTA_BURST, why, pod_id=pod_id)
                raised: Inputs = {"raised_by": wanted.extra, "containers": len(members)}
                of_pod = of_pod._replace(inputs=raised, shows=(*raised,))
                decisions.append(of_pod._replace(before=before, after=after))
            elif (member := members.get(target)) is not None and member.id in self.changed:
                said = self._said(member, self.changed[member.id], after.quota)
                of_member = Decision(
                    said.event, said.reason, said.because, subject=member, inputs=said.inputs
                )
                decisions.append(of_member._replace(before=_told(before), after=_told(after)))
        self._report.decided(decisions, state, state)

    def _said(self, member: Assignment, changed: ChangedQuota, quota: int | None) -> ChangedQuota:
        """Return a changed quota with the record of the quota that was written, µs."""
        if changed.quota is None:
            return changed
        if not self._holds(member, changed):
            is_resized = self.is_resized(member.container.pod_id)
            why = "a resize of its pod is in progress" if is_resized else "its own quota is another one"
            return changed._replace(own=member.container.resources.cpu_quota).ended(why)
        if quota is not None and quota < changed.quota:
            both: Inputs = {**changed.inputs, "quota": quota, "wanted_quota": changed.quota}
            why = "quota raised to its pod's: the pod's rises first"
            because = report.sentence(why, both, ("quota", "wanted_quota"))
            return changed._replace(because=because, inputs=both)
        return changed

    def _say_repaired(self, pod_id: str, done: tuple[Write, ...]) -> None:
        """Record the repairs of a pod and its containers, each cgroup in one record."""
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


_OTHER_VALUES: Final = PodBandwidth("")
"""Applied values that differ from all wanted values, so that the next sweep writes."""


def may_be_raised(state: NodeState, assignment: Assignment) -> bool:
    """Return whether the quota burst may raise a container's quota: its quota is its only limit.

    It is an online container with a quota and CPUs of `share` only, and the daemon may change it. A VM's quota is its
    pod's. The spare CPU of other pools is not measured.
    """
    is_online = assignment.qos is QoSClass.SHARED and not state.cpus_of(assignment) & ~state.pools.share
    return assignment.is_managed and is_online and assignment.container.resources.cpu_quota > 0


def _is_same(known: ChangedQuota | None, one: ChangedQuota) -> bool:
    """Return whether two entries have the same values written."""
    return known is not None and (known.quota, known.own) == (one.quota, one.own)


def _told(knobs: Knobs) -> Knobs:
    """Return a quota file's knob with -1 for no limit."""
    return Knobs(quota=NO_LIMIT) if knobs.quota is None else knobs
