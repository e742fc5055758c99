"""Run the quota burst in the slow path: measure online containers that have a quota, and write higher or lower quotas.

Only containers on CPUs of `share` are raised, because the unused CPU is measured there. A pool with CPUs of its own can
be full while `share` is idle. If pools are sized by load, the use of all online pools counts. `share` then seems busier
than it is, never idler.

Off unless `BurstTuning.quota_percent` is above 100. Rates need two readings of the same cgroup. If a cgroup is new,
gone or created again in between, its rate is unknown. An unknown rate raises no quota. In `observe` the quotas that
would be written are recorded only. Quotas that were raised before, also by the previous process, are lowered.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from nri_coloc.core.changed_quota import ChangedQuota
from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.readings import GroupReading, milli_between, risen, seconds_between
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.settings import BurstTuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.tuning import quota_burst
from nri_coloc.tuning.bandwidths import PodBandwidths, may_be_raised
from nri_coloc.tuning.quota_burst import NO_BURST, Ground, Throttled

EVERY_S: Final = 2.0

_LOST: Final = "unreadable, or no longer allowed to be raised"

_UNKNOWN: Final = frozenset({Binding.NOT_MEASURED, Binding.LEARNING, Binding.STALE, Binding.LATE})


class Reader(Protocol):
    """Reads one container's counters; returns None if it is gone."""

    def cpu(self, path: str, at: float) -> GroupReading | None: ...


class QuotaBurstLoop:
    """Raises and lowers quotas; one thread calls `look`."""

    def __init__(
        self,
        node: Node,
        bandwidths: PodBandwidths,
        reader: Reader,
        headroom: Callable[[], Headroom],
        report: Report,
    ) -> None:
        self._knows_former = False
        self._node = node
        self._bandwidths = bandwidths
        self._reader = reader
        self._headroom = headroom
        self._report = report
        self._memory = NO_BURST
        self._before: Mapping[str, GroupReading] = {}
        self._looked_at = float("-inf")
        self._would: Mapping[str, int] = {}

    def look(self, now: float) -> None:
        """Compute all quotas and have them written; nothing while the burst is off and no quota is raised."""
        tuning = self._node.tuning.reclaim.burst
        self._take_over()
        if self._node.tuning.observe:
            self._restore("mode observe raises nothing")
        wanted = tuning.quota_percent > 100
        if not (wanted or self._raised or self._would):
            return
        if wanted and now - self._looked_at < EVERY_S:
            return  # switched off: raised quotas are lowered at once
        self._looked_at = now
        state = self._node.state
        reckoned = self._reckoned(state, now, tuning)
        if self._node.tuning.observe:
            self._say_only(reckoned, state)
            return
        self._would = {}
        former = self._raised
        lost = {k: one.ended(_LOST) for k, one in former.items() if k not in reckoned}
        raised = {k: one for k, one in reckoned.items() if one.quota is not None or k in former}
        self._bandwidths.sweep()
        self._bandwidths.change(lost | raised)

    @property
    def _raised(self) -> dict[str, ChangedQuota]:
        """The raised quotas, also those to be restored."""
        return {k: one for k, one in self._bandwidths.changed.items() if one.is_raise}

    def _reckoned(self, state: NodeState, now: float, tuning: BurstTuning) -> dict[str, ChangedQuota]:
        """Return the quota of each measured container; None for its own."""
        containers = self._measured(state, now)
        headroom = self._headroom()
        online = None if headroom.binding in _UNKNOWN else headroom.online_cpu_milli
        cpus = state.pools.share.bit_count() * 1000
        ground = Ground(quota_burst.node_state(online, cpus, tuning), online, cpus, headroom.unused_milli)
        self._memory, quotas = quota_burst.quota_burst(
            self._memory, containers, ground.state, ground.unused, now, tuning
        )
        return {
            k: ChangedQuota(
                quota=quota if quota > containers[k].quota else None,
                own=containers[k].quota,
                event=AuditEvent.UPDATE,
                reason=Reason.QUOTA_BURST,
                because=quota_burst.because(containers[k], quota, ground, tuning),
                inputs=quota_burst.inputs(containers[k], ground, tuning),
            )
            for k, quota in quotas.items()
        }

    def _say_only(self, reckoned: Mapping[str, ChangedQuota], state: NodeState) -> None:
        """Record once the quotas that would be written."""
        decisions = [
            Decision(
                one.event,
                one.reason,
                one.because,
                subject=state.containers[k],
                before=Knobs(quota=self._would.get(k, one.own)),
                after=Knobs(quota=one.quota or one.own),
                inputs=one.inputs,
            )
            for k, one in reckoned.items()
            if (one.quota or one.own) != self._would.get(k, one.own)
        ]
        self._would = {k: one.quota for k, one in reckoned.items() if one.quota is not None}
        self._report.decided(decisions, state, state)

    def end(self) -> None:
        """Restore raised quotas after the last `look`: no process watches them after the daemon's end."""
        self._bandwidths.drifts.forgive()
        self._restore("the daemon ends")

    def _restore(self, why: str) -> None:
        """Restore all raised quotas: no later step would lower them when the node is full."""
        self._bandwidths.change({k: one.ended(why) for k, one in self._raised.items()})

    def _take_over(self) -> None:
        """After the first Synchronize, have the quotas restored that the previous process changed."""
        if not self._knows_former and self._node.told:
            self._knows_former = True
            self._bandwidths.take_over()

    def _measured(self, state: NodeState, now: float) -> dict[str, Throttled]:
        found: dict[str, Throttled] = {}
        readings: dict[str, GroupReading] = {}
        for assignment in state.containers.values():
            changed = self._bandwidths.changed.get(assignment.id)
            is_lowered = changed is not None and not changed.is_raise
            if is_lowered or not may_be_raised(state, assignment):
                continue
            path = targets.container_path(assignment)
            reading = self._reader.cpu(path, now) if path is not None else None
            if reading is None:
                continue
            readings[assignment.id] = reading
            found[assignment.id] = _throttled(assignment, self._before.get(assignment.id), reading)
        self._before = readings
        return found


def _throttled(assignment: Assignment, before: GroupReading | None, now: GroupReading) -> Throttled:
    resources = assignment.container.resources
    return Throttled(
        resources.cpu_quota,
        resources.cpu_period,
        used_milli=milli_between(before, now),
        held_back=_held_back(before, now, resources.cpu_period),
        pod_id=assignment.container.pod_id,
    )


def _held_back(before: GroupReading | None, now: GroupReading, period_us: int) -> float | None:
    """Return the part of its periods in which the quota held a container back, 0 to 1; None if it is unknown."""
    if before is None or (seconds := seconds_between(before, now)) is None:
        return None
    held = risen(before.throttled_periods, now.throttled_periods)
    return None if held is None else min(1.0, held * period_us / 1e6 / seconds)
