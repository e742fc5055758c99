"""The reports that rooms make: records for the audit, figures for the metrics, lines for the operator's log.

`service.report` implements `Report`. Rooms know only these protocols, so that no room depends on audit files, HTTP or
a logging library. `Cadence` decides how often changes of an amount are recorded: an amount that moves one way often,
one that swings seldom. Time is an argument, seconds of one clock.

`sentence` writes figures for people: `request_milli: 1500` becomes `request=1.5 cores`. The end of a figure's name is
its unit. An audit sentence ends with the figures that an operator asks for first; the record has all of them in
`inputs`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, Self

from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Change
from nri_coloc.core.readings import SharingCost
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.texts import Log
from nri_coloc.errors import KernelInterfaceError

ONE_WAY_S: Final = 1.0
"""Seconds between two records of a pool that moves one way."""

SWING_S: Final = 60.0
"""Seconds between two records of a pool that swings. Without a turn for this time the swing is over."""

SWINGS_FROM: Final = 3
"""Turns, each within SWING_S after the last one, that make a swing. One burst is two turns: down and up."""

_NEVER: Final = float("-inf")


class Cadence(NamedTuple):
    """The state that decides when a record may be written.

    written_at: time of the last record.
    direction: direction of the last change.
    turned_at: time of the last turn.
    turns: turns so far, each within SWING_S after the last one.
    """

    written_at: float = _NEVER
    direction: Change = Change.KEEP
    turned_at: float = _NEVER
    turns: int = 0

    def turns_by(self, change: Change) -> bool:
        """Return whether a change goes against the direction. The first change is never a turn."""
        return Change.KEEP not in (change, self.direction) and change is not self.direction

    def moved(self, change: Change, at: float) -> Self:
        """Return the cadence after a change."""
        if not self.turns_by(change):
            return self if change is Change.KEEP else self._replace(direction=change)
        is_quick = at - self.turned_at < SWING_S
        return self._replace(direction=change, turned_at=at, turns=self.turns + 1 if is_quick else 1)

    def swings(self, at: float) -> bool:
        """Return whether the pool swings."""
        return self.turns >= SWINGS_FROM and at - self.turned_at < SWING_S

    def is_due(self, at: float) -> bool:
        """Return whether the next record may be written. A clock that went back makes it due."""
        pause_s = SWING_S if self.swings(at) else ONE_WAY_S
        return not 0.0 <= at - self.written_at < pause_s

    def allows(self, change: Change, at: float) -> bool:
        """Return whether a record may be written right after this change, which the cadence does not hold yet."""
        after = self.moved(change, at)
        return after.is_due(at) or (self.turns_by(change) and not after.swings(at))


class Extent(NamedTuple):
    """The lowest and the highest value of an amount."""

    low: int
    high: int

    def with_value(self, value: int) -> "Extent":
        """Return the extent that covers `value` too."""
        low, high = self
        if low <= value <= high:
            return self
        return Extent(min(low, value), max(high, value))


LONGEST: Final = 160
"""Characters of an audit sentence: readable in a terminal."""

_BYTES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def sentence(text: str, inputs: Mapping[str, object], names: Iterable[str]) -> str:
    """Return `<text> (name=value unit, …)` with the named figures, as many as fit into `LONGEST` characters.

    Figures that are missing or None (unknown, unlimited) are left out.
    """
    found: list[str] = []
    room = LONGEST - len(text) - len(" ()")
    for name in names:
        value = inputs.get(name)
        if value is None:
            continue
        words = shown(name, value)
        if len(words) <= room:
            found.append(words)
            room -= len(words) + len(", ")
    return f"{text} ({', '.join(found)})" if found else text


def shown(name: str, value: object) -> str:
    """Return one figure with its unit, such as `dwell=30 s`."""
    label, _, unit = name.rpartition("_")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit == "milli":
            return f"{label}={_number(value / 1000)} {'core' if value == 1000 else 'cores'}"
        if unit == "bytes":
            return f"{label}={size(int(value))}"
        if unit == "s":
            return f"{label}={_number(value)} s" if value >= 1 else f"{label}={value * 1000:.0f} ms"
        return f"{label if label and unit == 'cpus' else name}={_number(value)}"
    return f"{name}={value if value != '' else 'none'}"


def size(amount: int) -> str:
    """Return an amount of bytes with the unit that people read."""
    for scale, unit in _BYTES:
        if amount >= scale:
            return f"{_number(amount / scale)} {unit}"
    return f"{amount} bytes"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{round(value, 2):g}"


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

    def containers_felt(self, qos: str, pool: str, cost: SharingCost) -> None: ...

    def pods_felt(self, qos: str, cost: SharingCost) -> None: ...


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
