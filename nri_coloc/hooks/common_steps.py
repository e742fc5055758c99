"""The steps common to all hooks: one answer in time, writes before it, updates of other containers in it, observers.

Every call is answered exactly once, by the thread that claims it first. The runtime waits with a global lock for our
answer and drops us when its timeout passes. So a hook that is not answered within a quarter of that time gets the
neutral answer from the watchdog's thread. The late decision finds its ticket claimed and is discarded.

The writes bring cgroups to a decision on the hook's thread. They are the last safe points for values that NRI cannot
carry, or that the runtime must find in place. A start and a resize wait, within bounds, until other containers have
left the CPUs that are taken.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.decisions import ContainerCreating, Event, Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift, Report
from nri_coloc.core.seams import After, BeforeAnswer, Decided, Prepare, prepared, tell
from nri_coloc.core.texts import counted
from nri_coloc.host.alarm import Alarm
from nri_coloc.nri import codec, events
from nri_coloc.nri.calls import HookKind
from nri_coloc.placing import admission
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator
from nri_coloc.repair.neighbours import Neighbours
from nri_coloc.runtime import stored_specs
from nri_coloc.runtime.pusher import Pusher

SHARE_OF_TIMEOUT: Final = 0.25
"""The part of the runtime's timeout after which a hook gets the neutral answer."""

DEFAULT_TIMEOUT_S: Final = 2.0
"""Seconds. containerd's plugin_request_timeout, for a request that states none."""

POLL_S: Final = 0.25
"""Seconds between two checks for a deadline: half of the usual half second, so that no deadline passes unseen. A check
takes 50 to 100 µs on an idle core."""

RESTS_AFTER: Final = 40
"""Checks in a row without a hook, ten seconds. Then the watchdog sleeps until the next hook wakes it. On a quiet node
the checks were a 25th of the daemon's cost. The number is not lower, because a woken thread wants the interpreter's
lock beside the hook."""

REST_S: Final = 3600.0

FAILED_PRECONDITION: Final = 9
"""The gRPC code of a refusal under `strict`."""


class Ticket:
    """The right to answer one call; taken once."""

    __slots__ = ("_claim", "call", "deadline", "hook")

    def __init__(self, call: events.Call, hook: str, now: float) -> None:
        timeout = call.timeout_nano / 1e9 or DEFAULT_TIMEOUT_S
        self.call = call
        self.hook = hook
        self.deadline = now + timeout * SHARE_OF_TIMEOUT
        self._claim = Lock()

    def claim(self) -> bool:
        """Take the right to answer; return False if another thread has it."""
        return self._claim.acquire(blocking=False)

    @property
    def claimed(self) -> bool:
        """Whether a thread answers or has answered."""
        return self._claim.locked()


class Answers(Protocol):
    """The connection as hooks use it: each call is answered once, framed and sent."""

    def answer(self, call: events.Call, message: Any | None) -> None: ...

    def refuse(self, call: events.Call, code: int, message: str) -> None: ...


class Exchange:
    """One call of the runtime and the right to answer it, which the watchdog may take first.

    latency_us: from the call's last byte to the answer; None until it is answered.
    """

    def __init__(self, ticket: Ticket, answers: Answers, read_at: float) -> None:
        self.ticket = ticket
        self.claimed_by_us = False
        self.latency_us: int | None = None
        self._answers = answers
        self._read_at = read_at

    def claim(self) -> bool:
        """Take the right to answer; return False if the watchdog was first."""
        self.claimed_by_us = self.ticket.claim()
        return self.claimed_by_us

    def answer(self, message: Any | None) -> None:
        """Claim and send; nothing if the watchdog was first."""
        if self.claim():
            self.send(message)

    def send(self, message: Any | None) -> None:
        """Send the answer of a claimed call."""
        self._answers.answer(self.ticket.call, message)
        self.latency_us = self.age_us

    def refuse(self, text: str) -> None:
        """Fail the runtime's operation with a text."""
        self._answers.refuse(self.ticket.call, FAILED_PRECONDITION, text)
        self.latency_us = self.age_us

    @property
    def waited_s(self) -> float:
        """Seconds for which the runtime waited for the answer; until now if it was not answered here."""
        return (self.age_us if self.latency_us is None else self.latency_us) / 1e6

    @property
    def age_us(self) -> int:
        """Microseconds since the call's last byte was read."""
        return int((time.monotonic() - self._read_at) * 1e6)


class Watchdog:
    """Checks the one ticket in flight (the runtime serialises hooks) and answers it when it is overdue."""

    def __init__(self, answer_neutral: Callable[[Ticket], None]) -> None:
        self._answer_neutral = answer_neutral
        self._ticket: Ticket | None = None
        self._quiet = 0
        self._rests = False
        self._stopping = False
        self._alarm = Alarm()
        self._thread = Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the checks; return at once."""
        self._stopping = True
        self._alarm.ring()

    def begin(self, call: events.Call, hook: str) -> Ticket:
        """Return a ticket for a call that is being handled."""
        ticket = Ticket(call, hook, time.monotonic())
        self._ticket, self._quiet = ticket, 0
        if self._rests:
            self._rests = False
            self._alarm.ring()
        return ticket

    def end(self) -> None:
        """Forget the ticket: its hook was handled."""
        self._ticket = None

    def _run(self) -> None:
        pause = POLL_S
        while not self._stopping:
            self._alarm.sleep(pause)
            pause = self._look()

    def _look(self) -> float:
        """Answer an overdue hook; return the seconds to the next check."""
        self._quiet += 1
        self._rests = self._quiet > RESTS_AFTER
        ticket = self._ticket  # after `_rests`: a hook that begins later rings
        if ticket is None or ticket.claimed:
            return REST_S if self._rests else POLL_S
        self._rests = False
        left = ticket.deadline - time.monotonic()
        if left > 0:
            return min(POLL_S, left)
        if ticket.claim():
            self._answer_neutral(ticket)
        return POLL_S


Steps = Mapping[HookKind, tuple[BeforeAnswer, ...]]
"""At most three steps by kind of hook; a kind without an entry is answered at once."""

START_WAIT_S: Final = 0.4
"""Seconds that a dedicated container's start may wait for its CPUs: within a quarter of the usual timeout."""

ANSWER_S: Final = 0.02
"""Seconds before the deadline that are reserved for the answer itself."""


class Seams(NamedTuple):
    """The seams around a decision, as `core.seams` describes them.

    prepare: entered around a hook's decision.
    before_answer: steps by kind of hook.
    after: observers of every decision, each with a queue of its own.
    """

    prepare: tuple[Prepare, ...]
    before_answer: Steps
    after: After


class HookReport(Report, Protocol):
    """The reports of rooms, and two that only hooks need."""

    @property
    def neighbours(self) -> Neighbours: ...

    def about_hook(self, hook: events.Hook, what: tuple[AuditEvent, Reason, str]) -> None:
        """Record an event about a hook's container or pod, whether known or not."""


class Consequences:
    """The seams around a decision, and the records of hooks.

    It has no state of its own: an old runtime's list comes on another thread than hooks do.

    follow: passes a change to every observer, after the answer.
    timed: counts the seconds that the runtime waited for an answer, by kind of hook.
    pusher: brings the specs that the runtime stores to the decided values.
    """

    def __init__(self, node: Node, pusher: Pusher, report: HookReport, seams: Seams) -> None:
        self.follow = partial(tell, seams.after)
        self.timed = report.metrics.hook
        self._node = node
        self.pusher = pusher
        self._report = report
        self._prepare = seams.prepare
        self._before_answer = seams.before_answer

    # ---- before the answer ----

    def prepared(self, event: Event) -> AbstractContextManager[object]:
        """Return the preparations to enter around the decision on an event."""
        return prepared(self._prepare, event)

    def prepare_answer(self, kind: HookKind, decided: Decided, exchange: Exchange) -> list[Drift]:
        """Do what this kind of hook does before its answer; return the values that other writers had changed."""
        drifts = []
        for step in self._before_answer.get(kind, ()):
            drift = step(decided, exchange.ticket.deadline)
            if drift is not None:
                drifts.append(drift)
        return drifts

    # ---- within the answer ----

    def updates(self, outcome: Outcome, but: str = "") -> list[nri_pb2.ContainerUpdate]:
        """Return the new CPUs of other containers; none if there are more than one answer may carry.

        Files move these containers then (decision 6). Beside the DRA CPU driver an answer carries none: the driver
        updates other containers' CPUs in its own answers.
        """
        moved = outcome.moves.containers
        most = self._node.tuning.updates_per_reply + (but in moved)
        if self._node.tuning.dra_driver or len(moved) > most:
            return []
        others = [k for k in moved if k != but]
        orders = ((k, admission.orders(outcome.state, outcome.state.containers[k])) for k in others)
        return codec.updates([(k, Knobs(cpus=one.cpus)) for k, one in orders], self._node.can)

    # ---- after it ----

    def learn(self, sent: Any | None, but: str = "") -> None:
        """Note the values that other containers' specs hold after an answer that was sent."""
        for update in getattr(sent, "update", ()):
            if update.container_id == but:
                continue
            values = stored_specs.of(codec.resources_of(update.linux.resources))
            self.pusher.learned(update.container_id, values)

    def learn_created(self, event: ContainerCreating, ours: Knobs) -> None:
        """Note the values that a new container's spec holds after its answer.

        ours: values in the answer. The runtime refuses CPUs in it if another plugin names CPUs too. A creation with a
            class of the runtime may fail because the runtime has no such class: its author names it.
        """
        self.pusher.learned(event.container.id, stored_specs.of(event.container.resources).overlaid(ours))
        wished = event.wish.knobs
        if ours.cpus is not None and wished.blockio_class is None and wished.rdt_class is None:
            name = f"{event.pod.full_name}/{event.container.name}"
            self._report.neighbours.creations.answered(event.container.id, name)

    def created(self, container_id: str) -> None:
        """Note that the runtime went on with a creation, so it accepted the answer."""
        self._report.neighbours.creations.created(container_id)

    def ended(self, container_id: str) -> None:
        """Note the end of a container, also of one whose creation the runtime undid."""
        self._report.neighbours.creations.ended(container_id, time.monotonic())

    def tell_drift(self, container_id: str, *drifts: Drift | None) -> None:
        """Record values of a container that another writer had changed."""
        for drift in filter(None, drifts):
            state = self._node.state
            assignment = state.containers.get(container_id)
            if assignment is not None:
                self._report.drifted(assignment, state, drift)

    def tell_failed(self, hook: events.Hook, error: Exception) -> None:
        """Record that a hook was answered neutrally because of an error of ours."""
        self._report.log.error(
            "a hook failed by an error in the plugin; it was answered neutrally",
            hook=hook.kind.value,
            exc_info=error,
        )
        self._report.metrics.neutral_reply(hook.kind.value)
        cause = f"{type(error).__name__}: {error}"
        because = f"{hook.kind.value} was answered without changes: error in the daemon: {cause}"
        self._report.about_hook(hook, (AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, because))

    def tell_too_late(self, hook: events.Hook, exchange: Exchange) -> None:
        """Record that the watchdog answered before the decision was made: control files carry out the decision."""
        is_update = hook.kind is HookKind.UPDATE_CONTAINER
        when = "now" if is_update else "at the container's start"
        because = (
            f"{hook.kind.value} was answered without changes: the decision came too late, "
            f"after {exchange.age_us / 1000:.1f} ms; its values are written to control files {when}"
        )
        self._report.about_hook(hook, (AuditEvent.LATE, Reason.TOO_LATE, because))


class CgroupSteps:
    """The writes before an answer: each method is one step of `seams.BeforeAnswer`."""

    def __init__(self, node: Node, actuator: Actuator, report: Report) -> None:
        self._node = node
        self._actuator = actuator
        self._report = report

    def place_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the pod's values to its cgroup."""
        self._actuator.place_pod(decided.pod_id)

    def place_moved_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the pod's values to its cgroup if the decision changed them."""
        if decided.pod_id in decided.outcome.moves.pods:
            self._actuator.place_pod(decided.pod_id)

    def widen_pod(self, decided: Decided, _deadline: float) -> None:
        """Apply the values of a pod that leaves the reclaim cgroups.

        This is the one write before CreateContainer is answered. On cgroup v1 a container cannot start if its spec
        names CPUs that its pod's cgroup lacks. The runtime may be quicker than the actuator.
        """
        if decided.before.boxed(decided.pod_id) and not decided.outcome.state.boxed(decided.pod_id):
            self._actuator.place_pod(decided.pod_id)

    def move_others(self, decided: Decided, _deadline: float) -> None:
        """Have the actuator move other containers off the CPUs that this one takes."""
        outcome, owner = decided.outcome, decided.container_id
        if outcome.moves and not self._node.tuning.observe:
            self._actuator.order(outcome.moves, outcome.state, owner, outcome.waits_for)

    def place_start(self, decided: Decided, deadline: float) -> Drift | None:
        """Apply a starting container's values, its pod's cgroup first; return its drift.

        Values that no spec carries are set too. The pod's cgroup had more CPUs until the task was there.
        """
        self.place_moved_pod(decided, deadline)
        drift = self._actuator.place(decided.container_id)
        self._actuator.finish(decided.container_id)
        return drift

    def leave_own(self, decided: Decided, _deadline: float) -> Drift | None:
        """Apply a resized container's values before others get the CPUs that it returns; return its drift."""
        if decided.outcome.moves and not decided.outcome.waits_for:
            return self._actuator.place(decided.container_id)
        return None

    def wait_for_own_cpus(self, decided: Decided, deadline: float) -> None:
        """Wait until the former users of the container's CPUs have left them, read back, within bounds."""
        left = min(START_WAIT_S, deadline - time.monotonic() - ANSWER_S)
        barrier = self._actuator.await_departure(decided.container_id, max(left, 0.0))
        if barrier is None:
            return
        self._report.metrics.late_exclusivity()
        cpus = cpuset.render(barrier.taken)
        because = (
            f"started before its CPUs were free: {counted(barrier.open, 'cgroup')} not yet off CPUs {cpus}"
        )
        state = decided.outcome.state
        assignment = state.containers[decided.container_id]
        self._report.about(assignment, state, (AuditEvent.LATE, Reason.TOO_LATE, because))
