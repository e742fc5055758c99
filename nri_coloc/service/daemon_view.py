"""Return the daemon's state for HTTP: every method reads the current immutable state, none takes the mutex."""

import time
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.placing import waiting
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.actuator import Actuator
from nri_coloc.service.lending_view import LendingView
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
        offer: OfferView,
        lending: LendingView,
    ) -> None:
        self._alive_at = time.monotonic()
        self._node = node
        self._actuator = actuator
        self._readiness = readiness
        self._offer = offer
        self._lending = lending
        self._report = report

    def turned(self, now: float) -> None:
        """Note a turn of the housekeeping loop."""
        self._alive_at = now

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self._report.metrics.waiting(len(waiting.of(self._node.state)))
        self._lending.pressure.measure(self._report.metrics)
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
        waits_for = waiting.lacks(state)
        found = ReadBack(
            cpus=actual,
            unread=self._actuator.unread.copy(),
            host_groups=self._actuator.host_groups.members,
            pod_cgroups=targets.kubepods(state),
        )
        return state_json(
            state,
            observe=self._node.tuning.observe,
            found=found,
            waits_for=waits_for,
            lending=self._lending.body(),
            throttled=self._lending.pressure.throttled,
            degraded=self._lending.pressure.degraded,
            remarks=self._lending.remarks(),
        )

    def capacity(self) -> dict[str, Any]:
        """Return the body of `/v1/capacity`."""
        return self._offer.body()

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return a page of audit records."""
        return self._report.audit.query(since, pod, limit)
