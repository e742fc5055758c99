"""The policy's decisions as values: the shell renders, applies and audits them.

Each decision carries its audit texts: `event`, `reason` (a code) and `because` (what was done, and the cause). `inputs`
has every figure that the decision used, enough to derive it again. `before` and `after` hold the changed knobs only.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import value
from nri_coloc.core.workload import QoSClass, Wish


@value
class Room:
    """The figures of a binding to memory nodes; empty for a wish without one.

    bytes: the requested memory in bytes, 0 if unknown.
    left: if `bytes` is known, by node id the bytes that are neither reserved nor promised to a bound container.
    ownable: CPUs that a container could own at all; a node with all of them free counts as whole.
    """

    bytes: int = 0
    left: tuple[tuple[int, int], ...] = ()
    ownable: CPUMask = 0


NO_ROOM: Final = Room()


@value
class Considered:
    """The input of a choice of owned CPUs.

    free: all CPUs that were free.
    count: the number of CPUs to choose.
    wish: the container's wish, without the values that its pod may not order.
    """

    free: CPUMask
    count: int
    wish: Wish
    room: Room = NO_ROOM


Figure = int | float | str | None
"""A figure of a decision: an amount, a name or a list of CPUs; None if unknown or unlimited."""

Inputs = Mapping[str, Figure]
"""Every figure that a decision used, by name with its unit. The decision can be derived again from them."""


class PlaceFigures(NamedTuple):
    """The figures of a container's place that are not the container's own; `placing.words.inputs` names them all.

    pod_request_milli: the pod's CPU request, thousandths of a CPU, None if unknown.
    cpus: CPUs of the pool, or of the container that it follows.
    main: name of the container that it follows, "" for none.
    pool_asked_milli: requests in the pool, thousandths of a CPU, None for a pool that is not sized by them.
    pod_owned: CPUs that other containers of its pod own, None for a container that may own none.
    """

    pod_request_milli: int | None
    cpus: CPUMask
    main: str
    pool_asked_milli: int | None
    pod_owned: int | None = None


class Decision(NamedTuple):
    """One decision and its audit texts; the subject is a container, a pod or a pool.

    orders: values that the answer to the hook must carry for the subject (creation: the adjustment; update: the
        overlay). Empty if the decision needs no answer.
    because: `<what was done>: <cause>`. The record adds the figures of `shows`, so that no hook waits for that.
    shows: names of the figures that the record's sentence ends with.
    considered: set only if CPUs were chosen.
    inputs: the figures that were used, by name.
    place: the figures of a container's place. They get their names when the record is written, so that no hook waits
        for that.
    qos: the class of a pod. A container has its own.
    """

    event: AuditEvent
    reason: Reason
    because: str
    subject: Assignment | None = None
    pod_id: str = ""
    pool: str = ""
    before: Knobs = NO_KNOBS
    after: Knobs = NO_KNOBS
    orders: Knobs = NO_KNOBS
    key: str = ""
    value: str = ""
    allowed: str = ""
    used: str = ""
    considered: Considered | None = None
    inputs: Inputs | None = None
    place: PlaceFigures | None = None
    qos: QoSClass | None = None
    shows: tuple[str, ...] = ()


@value
class Moves:
    """The cgroups to write: pods whose own cgroup changes, and live containers, by id.

    Ids, not values: the writer takes the value from the newest state, so a late write is never stale.
    """

    pods: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pods or self.containers)

    def without_pod(self, pod_id: str) -> "Moves":
        """Return the moves without one pod's own cgroup."""
        return Moves(tuple(k for k in self.pods if k != pod_id), self.containers)

    def __add__(self, other: "Moves") -> "Moves":
        """Return both together, each id once: two updates of one container in one reply would conflict."""
        if not self:
            return other
        return Moves(
            tuple(dict.fromkeys(self.pods + other.pods)),
            tuple(dict.fromkeys(self.containers + other.containers)),
        )


NOBODY: Final = Moves()


@value
class Outcome:
    """The new state, the decisions, and the containers to re-pin (containers on taken CPUs first).

    waits_for: the subject may run on the CPUs that it took only after these moves are written and read back.
    refusal: only under `strict`: creation, or the resize, fails with this text.
    """

    state: NodeState
    decisions: tuple[Decision, ...] = ()
    moves: Moves = NOBODY
    waits_for: Moves = NOBODY
    refusal: str = ""

    @property
    def is_silent(self) -> bool:
        """Return whether no observer needs to know of this outcome: nothing was decided, and nothing moves."""
        return not (self.decisions or self.moves)

    def __add__(self, later: "Outcome") -> "Outcome":
        """Return two outcomes of one event as one; the later begins with the state in which the earlier ended."""
        return Outcome(
            later.state,
            self.decisions + later.decisions,
            self.moves + later.moves,
            self.waits_for + later.waits_for,
            later.refusal,
        )

    def orders_for(self, container_id: str) -> Knobs:
        """Return the values that the answer to a container's update must carry for the container itself."""
        for decision in reversed(self.decisions):
            subject = decision.subject
            if decision.event is AuditEvent.UPDATE and subject is not None and subject.id == container_id:
                return decision.orders
        return NO_KNOBS
