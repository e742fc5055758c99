"""The inputs and outputs of a decision: events of the node, and decisions as values.

Events are causes, not wire messages. The daemon translates hooks into these and adds each container's `Wish`, so that
the policy sees neither annotations nor protobuf. Every event may name a pod or container that the state does not know:
messages get lost around a registration. The policy then takes the event's own facts.

The shell renders, applies and audits decisions. Each carries its audit texts: `event`, `reason` (a code) and `because`
(what was done, and the cause). `inputs` has every figure that the decision used, enough to derive it again. `before`
and `after` hold the changed knobs only.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.pod_facts import PodFacts
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import value
from nri_coloc.core.workload import Container, Pod, QoSClass, Resources, Wish


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
        values that replace the kubelet's). Empty if the decision needs no answer.
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


NO_MOVES: Final = Moves()


@value
class Outcome:
    """The new state, the decisions, and the containers to re-pin (containers on taken CPUs first).

    waits_for: the subject may run on the CPUs that it took only after these moves are written and read back.
    refusal: only under `strict`: creation, or the resize, fails with this text.
    """

    state: NodeState
    decisions: tuple[Decision, ...] = ()
    moves: Moves = NO_MOVES
    waits_for: Moves = NO_MOVES
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


@value
class PodStarted:
    """A sandbox runs; its cgroup exists and holds no container yet. `wish` is the pod's own."""

    pod: Pod
    wish: Wish


@value
class PodResized:
    """A pod's CPU request changed.

    wishes: by container id, for its containers that have another class under the new request.
    """

    pod: Pod
    wishes: Mapping[str, Wish] = field(default_factory=dict)


@value
class PodRemoved:
    """A sandbox was stopped or removed; stopping is final for all of its containers."""

    pod_id: str


@value
class ContainerCreating:
    """The runtime asks for a container's adjustment; the container does not exist yet.

    judged: wishes by id of the pod's containers that have another class under a new request of the pod.
    """

    pod: Pod
    container: Container
    wish: Wish
    judged: Mapping[str, Wish] = field(default_factory=dict)


@value
class ContainerCreated:
    """The runtime has stored a container, which has no cgroup yet. `cpus`: the CPUs that its specification names."""

    pod_id: str
    container_id: str
    cpus: CPUMask


@value
class ContainerStarting:
    """The container's task exists and has not run an instruction: the last safe moment.

    running: whether it already runs.
    judged: as of a creation, if the creation was missed.
    """

    pod: Pod
    container: Container
    wish: Wish
    running: bool = False
    judged: Mapping[str, Wish] = field(default_factory=dict)


@value
class ContainerUpdating:
    """The kubelet asks for new resources; in `requested`, 0, "" and None mean "keep".

    wish: the container's wish with the new resources.
    judged: wishes by id of the pod's containers that have another class under the new requests.
    lowered: the pod with the lower request that the kubelet writes after this update; None if the request stays.
    answered: False if the runtime already has an answer without our values. Then only files can carry the new values.
    within_pod: the kernel refuses CPUs for a container that its pod does not have (cgroup v1).
    """

    pod: Pod
    container: Container
    wish: Wish
    requested: Resources
    judged: Mapping[str, Wish] = field(default_factory=dict)
    lowered: Pod | None = None
    answered: bool = True
    within_pod: bool = False


@value
class ContainerGone:
    """The container's process is dead, or the container was removed. `vanished`: CRI's list showed it, no hook did."""

    container_id: str
    removed: bool = False
    vanished: bool = False


@value
class Synchronized:
    """The runtime's complete list; a container or pod that is not in it is gone."""

    pods: tuple[tuple[Pod, Wish], ...]
    containers: tuple[tuple[Container, Wish], ...]


@value
class Reconfigured:
    """New tuning or a changed machine; wishes by container id and by pod id, read again under the new tuning.

    requests: CPU requests by pod id, thousandths of a CPU, that the new tuning needs and that were unknown.
    """

    topology: Topology
    wishes: Mapping[str, Wish]
    pod_wishes: Mapping[str, Wish]
    requests: Mapping[str, int] = field(default_factory=dict)


@value
class PoolsSized:
    """The number of CPUs for each pool, from the lending loop; the policy chooses the CPUs.

    counts: by pool. A pool that is not named has no size of its own.
    because: the figures behind the counts, for the audit.
    reason: set if the counts alone do not show it. By default the policy derives it from them.
    inputs: the figures by name.
    """

    counts: Mapping[str, int]
    because: str
    reason: Reason | None = None
    inputs: Inputs | None = None


@value
class AmountsGranted:
    """Parts of loans changed: by container id, with the changed knobs set.

    because: the figures behind the amounts, for the audit.
    inputs: the figures by name.
    """

    amounts: Mapping[str, Knobs]
    because: str
    inputs: Inputs | None = None


@value
class FactsReported:
    """The companion reported facts about pods; they replace all facts before."""

    facts: PodFacts


@value
class CPUsFreed:
    """CPUs may be free: the policy places the oldest pod again that waits for CPUs and can have them now.

    turn: the number of earlier turns that placed no pod.
    """

    turn: int = 0


Event = (
    PodStarted
    | PodResized
    | PodRemoved
    | ContainerCreating
    | ContainerCreated
    | ContainerStarting
    | ContainerUpdating
    | ContainerGone
    | Synchronized
    | Reconfigured
    | PoolsSized
    | AmountsGranted
    | FactsReported
    | CPUsFreed
)
