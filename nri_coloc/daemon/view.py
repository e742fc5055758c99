"""What HTTP shows of the daemon: every method reads the current immutable state, none takes the mutex."""

import time
from typing import Any, Final, NamedTuple

from nri_coloc.admin.state_view import state_json
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.lending import Lending
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.readiness import Readiness
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.survey import Survey
from nri_coloc.model import cpuset
from nri_coloc.model.lending import Binding, Capacity
from nri_coloc.model.readings import Picture
from nri_coloc.reclaim import capacity
from nri_coloc.reclaim.memory import MemoryHeadroom
from nri_coloc.telemetry.audit import timestamp

HEALTHY_WITHIN_S: Final = 10.0


class Loops(NamedTuple):
    """Who measures: the fast loop and the slow one."""

    lending: Lending
    survey: Survey


class DaemonView:
    """The daemon's answer to `admin.http`."""

    def __init__(
        self, node: Node, actuator: Actuator, readiness: Readiness, loops: Loops, report: Report
    ) -> None:
        self.alive_at = time.monotonic()
        self._node = node
        self._actuator = actuator
        self._readiness = readiness
        self._loops = loops
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
        """Return what is advertised, and what may be lent at this moment; `at`: when the newest picture was taken."""
        now, survey = self._loops.lending.headroom, self._loops.survey
        tuning = self._node.tuning.reclaim
        pauses = tuning.enabled and tuning.paused
        # an offer is made with a picture; nobody shall take one that was withdrawn since
        offer = capacity.paused(tuning) if pauses else survey.outlook.capacity
        reason, because = _reason(offer, survey.memory.headroom)
        return {
            "cpu_milli": offer.cpu_milli,
            "memory_bytes": offer.memory_bytes,
            "headroom_cpu_milli": now.cpu_milli,
            "headroom_memory_bytes": survey.memory.headroom_bytes,
            "online_cpu_milli": now.online_cpu_milli,
            "reason": reason.value,
            "because": because,
            "at": timestamp(time.time_ns() - _ns_since(survey.picture)),
        }

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return a page of records."""
        return self._report.audit.query(since, pod, limit)


def _reason(offer: Capacity, memory: MemoryHeadroom | None) -> tuple[Binding, str]:
    """Return why it is so much: a headroom of 0 that is only not known is no full node's."""
    if memory is not None or offer.binding in (Binding.DISABLED, Binding.PAUSED):
        return offer.binding, offer.because
    unknown = "how much memory may be lent now is not known: the node's or its pods' was not read"
    return Binding.NOT_MEASURED, f"{offer.because}; {unknown}" if offer.because else unknown


def _ns_since(picture: Picture | None) -> int:
    return 0 if picture is None else max(0, time.monotonic_ns() - int(picture.at * 1e9))
