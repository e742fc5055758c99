"""What HTTP shows of the daemon: every method reads the current immutable state, none takes the mutex."""

import time
from typing import Any, Final

from nri_coloc.admin.state_view import state_json
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.lending import Lending
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.readiness import Readiness
from nri_coloc.daemon.report import Report
from nri_coloc.model import cpuset
from nri_coloc.telemetry.audit import timestamp

HEALTHY_WITHIN_S: Final = 10.0


class DaemonView:
    """The daemon's answer to `admin.http`."""

    def __init__(
        self, node: Node, actuator: Actuator, readiness: Readiness, lending: Lending, report: Report
    ) -> None:
        self.alive_at = time.monotonic()
        self._node = node
        self._actuator = actuator
        self._readiness = readiness
        self._lending = lending
        self._report = report

    def metrics(self) -> bytes:
        """Return Prometheus' text."""
        return self._report.metrics.render()

    def healthy(self) -> bool:
        """Whether the housekeeping loop has turned lately."""
        return time.monotonic() - self.alive_at < HEALTHY_WITHIN_S

    def readiness(self) -> dict[str, Any]:
        """Return the checks."""
        return self._readiness.checks()

    def state(self) -> dict[str, Any]:
        """Return the node."""
        actual = {k: cpuset.render(mask) for k, mask in self._actuator.actual.copy().items()}
        return state_json(self._node.state, self._node.tuning.observe, actual)

    def capacity(self) -> dict[str, Any]:
        """Return what may be lent."""
        headroom = self._lending.headroom
        return {
            "cpu_milli": headroom.cpu_milli,
            "memory_bytes": headroom.memory_bytes,
            "headroom_cpu_milli": headroom.cpu_milli,
            "headroom_memory_bytes": headroom.memory_bytes,
            "online_cpu_milli": headroom.online_cpu_milli,
            "reason": headroom.binding.value,
            "at": timestamp(time.time_ns()),
        }

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return a page of records."""
        return self._report.audit.query(since, pod, limit)
