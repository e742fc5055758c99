"""The reports that rooms make: records for the audit, figures for the metrics, lines for the operator's log.

`service.report` implements `Report`. Rooms know only these protocols, so that no room depends on audit files, HTTP or
a logging library.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.readings import Toll
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.errors import KernelInterfaceError

Subject = Assignment | str
"""The subject of a record: a container, or a pod by its id."""


class Drift(NamedTuple):
    """Values of one cgroup that another writer changed, and their repair.

    before: the values found.
    after: the values that hold again.
    because: the repair in words.
    former: whether every value found is one that we ourselves had ordered before.
    times: repairs of this cgroup within the minute, this one included.
    path: the cgroup, if no pod has it.
    """

    before: Knobs
    after: Knobs
    because: str
    former: bool = False
    times: int = 0
    path: str = ""

    def at(self, path: str) -> "Drift":
        """Return the drift with its cgroup's path, for a cgroup without a pod's name."""
        return self._replace(because=self.because.replace(": ", f" in {path}: ", 1), path=path)


class Log(Protocol):
    """The operator's log: an event in plain words, and values by name."""

    def info(self, event: str, **values: Any) -> Any: ...

    def warning(self, event: str, **values: Any) -> Any: ...

    def error(self, event: str, **values: Any) -> Any: ...

    def exception(self, event: str, **values: Any) -> Any: ...


class Metrics(Protocol):
    """Figures that rooms count or set; `service.metrics` documents each."""

    def connected(self, *, now: bool) -> None: ...

    def reconnected(self) -> None: ...

    def hook(self, name: str, seconds: float) -> None: ...

    def neutral_reply(self, hook: str) -> None: ...

    def late_exclusivity(self) -> None: ...

    def waiting(self, containers: int) -> None: ...

    def ticks(self, late: Iterable[float], headroom_milli: int) -> None: ...

    def loaded(self, loads: Mapping[str, float]) -> None: ...

    def surveyed(self, picture_s: float, headroom_bytes: int, by_node: Mapping[int, int]) -> None: ...

    def advertised(self, cpu_milli: int, memory_bytes: int) -> None: ...

    def working_sets(self, held: Mapping[tuple[str, str], int]) -> None: ...

    def containers_felt(self, qos: str, pool: str, toll: Toll) -> None: ...

    def pods_felt(self, qos: str, toll: Toll) -> None: ...


class Recorder(Protocol):
    """Records decisions. Every thread may call it; no call waits, decides or fails."""

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None:
        """Record the decisions of one event."""


class Report(Recorder, Protocol):
    """Reports to audit, metrics and log. Every thread may call it; no call waits, decides or fails."""

    @property
    def log(self) -> Log: ...

    @property
    def metrics(self) -> Metrics: ...

    def decided(
        self,
        decisions: Iterable[Decision],
        state: NodeState,
        previous: NodeState,
        latency_us: int | None = None,
    ) -> None:
        """Record the decisions of one event."""

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None:
        """Record an event that is not a decision of the policy."""

    def about(self, subject: Subject, state: NodeState, what: tuple[AuditEvent, Reason, str]) -> None:
        """Record an event about a container, or about a pod by its id, that is not a decision of the policy."""

    def drifted(self, subject: Subject, state: NodeState, drift: Drift) -> None:
        """Record that another writer changed a cgroup's values and that they were repaired."""

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: Subject, state: NodeState) -> None:
        """Record that a file could not be written or read."""
