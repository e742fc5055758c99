"""The policy's decisions as values: the shell renders, applies and audits them.

Each decision carries its audit words: `event`, `reason` (a code) and `because` (a sentence with every figure
that the decision used, enough to derive it again). `before` and `after` hold the changed knobs only.
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

    `bytes`: the memory asked for, 0 if none is known. `left`: with it, bytes by node id that are neither reserved
    nor promised to somebody bound. `ownable`: CPUs that could be free at all, which make a node whole.
    """

    bytes: int = 0
    left: tuple[tuple[int, int], ...] = ()
    ownable: CPUMask = 0


NO_ROOM: Final = Room()


@value
class Considered:
    """What CPUs of its own were chosen from: all that were free, for how many, by which wish after the gate."""

    free: CPUMask
    count: int
    wish: Wish
    room: Room = NO_ROOM


Figure = int | float | str | None
"""A figure of a decision: an amount, a name or a list of CPUs; None if unknown or unlimited."""

Inputs = Mapping[str, Figure]
"""Every figure that a decision used, by name with its unit, from which it can be derived again."""


class PlaceFigures(NamedTuple):
    """The figures of a container's place that are not the container's own; `placing.words.inputs` names them all.

    pod_request_milli: the pod's CPU request, thousandths of a CPU, None if not known.
    cpus: CPUs of the pool, or of the container that it follows.
    main: name of the container that it follows, "" for none.
    pool_asked_milli: requests in the pool, thousandths of a CPU, None for a pool that is not sized by them.
    """

    pod_request_milli: int | None
    cpus: CPUMask
    main: str
    pool_asked_milli: int | None


class Decision(NamedTuple):
    """One decision and its words; the subject is a container, a pod or a pool.

    `orders`: values that the answer to the hook must carry for the subject (creation: the adjustment;
    update: the overlay); empty for a decision that needs no answer. `considered`: only where CPUs were chosen.
    `inputs`: by name the figures that were used. `place`: such figures of a container's place, which get their names
    when the record is written: a hook does not wait for that. `qos`: that of a pod; a container's is its own.
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


@value
class Moves:
    """Whose CPUs, mems or weights changed: pods whose own cgroup is written, and live containers, by id.

    Ids, not values: the writer takes the value from the newest state, so a late write is never stale.
    """

    pods: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pods or self.containers)

    def without_pod(self, pod_id: str) -> "Moves":
        """Leave one pod's own cgroup out."""
        return Moves(tuple(k for k in self.pods if k != pod_id), self.containers)

    def __add__(self, other: "Moves") -> "Moves":
        """Join, each id once: two updates of one container in a reply would be a conflict with ourselves."""
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

    `waits_for`: the subject may not run on the CPUs that it took before these were moved and read back.
    `refusal`: only under `strict`: creation, or the resize, fails with this text.
    """

    state: NodeState
    decisions: tuple[Decision, ...] = ()
    moves: Moves = NOBODY
    waits_for: Moves = NOBODY
    refusal: str = ""

    def __add__(self, later: "Outcome") -> "Outcome":
        """Join two outcomes of one event, the second of which began where the first ended."""
        return Outcome(
            later.state,
            self.decisions + later.decisions,
            self.moves + later.moves,
            self.waits_for + later.waits_for,
            later.refusal,
        )

    def orders_for(self, container_id: str) -> Knobs:
        """Return what the answer to a container's update must carry for itself."""
        for decision in reversed(self.decisions):
            subject = decision.subject
            if decision.event is AuditEvent.UPDATE and subject is not None and subject.id == container_id:
                return decision.orders
        return NO_KNOBS
