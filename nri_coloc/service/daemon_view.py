"""Return the daemon's state for HTTP: every method reads the current immutable state, none takes the mutex."""

import time
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.placing import waiting
from nri_coloc.placing.node import Node
from nri_coloc.pressure import disk_space
from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.disks import Disks
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.reclaimer import Reclaimer
from nri_coloc.repair.actuator import Actuator
from nri_coloc.service import lending_clock
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.offer_view import OfferView
from nri_coloc.service.readiness import Readiness
from nri_coloc.service.report import Report
from nri_coloc.service.state_view import ReadBack, state_json

HEALTHY_WITHIN_S: Final = 10.0


class DaemonView:
    """The data of `service.http`."""

    def __init__(
        self,
        node: Node,
        report: Report,
        *,
        actuator: Actuator,
        readiness: Readiness,
        clock: LendingClock,
        offer: OfferView,
        disks: Disks,
        pressure: Pressure,
        degrader: Degrader,
        reclaimer: Reclaimer,
        evictor: Evictor,
    ) -> None:
        self._alive_at = time.monotonic()
        self._node = node
        self._actuator = actuator
        self._readiness = readiness
        self._clock = clock
        self._offer = offer
        self._disks = disks
        self._pressure = pressure
        self._degrader = degrader
        self._reclaimer = reclaimer
        self._evictor = evictor
        self._report = report

    def turned(self, now: float) -> None:
        """Note a turn of the housekeeping loop."""
        self._alive_at = now

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self._report.metrics.waiting(len(waiting.of(self._node.state)))
        self._report.metrics.throttled(len(self._pressure.throttled))
        self._report.metrics.degraded(self._degrader.count)
        self._report.metrics.cooling(self._cooling_s())
        self._report.metrics.disks_left(self._disks.left, is_short=bool(self._disks.shortage))
        return self._report.metrics.render()

    def healthy(self) -> bool:
        """Return whether the housekeeping loop has turned lately."""
        return time.monotonic() - self._alive_at < HEALTHY_WITHIN_S

    def readiness(self) -> dict[str, Any]:
        """Return the body of `/readyz`."""
        return self._readiness.checks()

    def state(self) -> dict[str, Any]:
        """Return the body of `/v1/state`."""
        state = self._node.state
        actual = {k: cpuset.render(mask) for k, mask in self._actuator.actual.copy().items()}
        waits_for = {a.id: waiting.lack(state, a) for a in waiting.of(state)}
        found = ReadBack(actual, self._actuator.unread.copy(), self._actuator.members_outside())
        return state_json(
            state,
            observe=self._node.tuning.observe,
            found=found,
            waits_for=waits_for,
            lending={
                **lending_clock.shown(self._clock.lending, self._clock.switch),
                "cooling_s": round(self._cooling_s()),
                "memory_taken_back": self._reclaimer.shown,
                "disk_short": self._disks.shortage,
                "disk_remark": disk_space.remark(self._node.tuning.pressure.disk),
            },
            throttled=self._pressure.throttled,
        )

    def _cooling_s(self) -> float:
        """Return the rest of the cool-down after an eviction, seconds; 0 for none."""
        now_s = time.monotonic()
        return max(0.0, self._evictor.pace.ends_s(now_s) - now_s)

    def capacity(self) -> dict[str, Any]:
        """Return the body of `/v1/capacity`."""
        return self._offer.body()

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return a page of audit records."""
        return self._report.audit.query(since, pod, limit)
