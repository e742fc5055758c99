"""What a decision entails beside the answer to its own hook: others move, specs follow, the audit is told.

The others' new sets go into the reply where it may carry them. Files, pushes and words come after it, but where a start
or a resize must find others gone.
"""

import time
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.daemon import specs
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.drift import Drift
from nri_coloc.daemon.exchange import Exchange
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.pusher import Pusher
from nri_coloc.daemon.report import Report
from nri_coloc.knobs import adjustment
from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Outcome
from nri_coloc.model.events import ContainerCreating
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import NodeState
from nri_coloc.nri import codec, events
from nri_coloc.nri.subscription import HookKind
from nri_coloc.policy import admission

START_WAIT_S: Final = 0.4
"""How long a dedicated container's start may wait for its CPUs: within a quarter of the usual timeout."""


class Consequences:
    """Has no state of its own, for an old runtime's list comes on another thread than hooks do."""

    def __init__(self, node: Node, actuator: Actuator, pusher: Pusher, report: Report) -> None:
        self._node = node
        self._actuator = actuator
        self._pusher = pusher
        self._report = report

    # ---- within the reply ----

    def updates(self, outcome: Outcome, but: str = "") -> list[nri_pb2.ContainerUpdate]:
        """Render the others' new sets, or none where a reply may not carry them all: files move them (decision 6).

        Beside the DRA CPU driver it may carry none: the driver updates others' CPUs in its own replies.
        """
        if self._node.tuning.dra_driver:
            return []
        others = [k for k in outcome.moves.containers if k != but]
        if len(others) > self._node.tuning.updates_per_reply:
            return []
        orders = ((k, admission.orders(outcome.state, outcome.state.containers[k])) for k in others)
        return adjustment.updates([(k, Knobs(cpus=one.cpus)) for k, one in orders], self._node.can)

    def learn(self, sent: Any | None) -> None:
        """Note what the runtime's specs hold after an answer of ours; one that was discarded taught it nothing."""
        for update in getattr(sent, "update", ()):
            values = specs.of(codec.resources_of(update.linux.resources))
            self._pusher.learned(update.container_id, values)

    def named_cpus(self, event: ContainerCreating) -> None:
        """Note an answer with CPUs, which the runtime refuses if another plugin names some too."""
        name = f"{event.pod.namespace}/{event.pod.name}/{event.container.name}"
        self._report.neighbours.creations.answered(event.container.id, name)

    # ---- beside it ----

    def follow(self, outcome: Outcome, before: NodeState, exchange: Exchange, owner: str = "") -> None:
        """Act on a decision, then tell of it; `owner`: the container that may have taken others' CPUs."""
        self.act(outcome, owner)
        self.tell(outcome, before, exchange)

    def act(self, outcome: Outcome, owner: str = "") -> None:
        """Have files and the runtime's specs brought to what was decided."""
        self.move(outcome, owner)
        self._pusher.submit(outcome.moves.containers)
        for decision in outcome.decisions:
            if decision.reason is Reason.SUPERSEDED and decision.subject is not None:
                # no hook will come at its end
                self._actuator.forget(decision.subject.id)
                self._pusher.forget(decision.subject.id)

    def move(self, outcome: Outcome, owner: str) -> None:
        """Have the files brought to it; specs follow later."""
        if outcome.moves and not self._node.tuning.observe:
            taken = outcome.state.owners.get(owner, 0)
            self._actuator.submit(outcome.moves, owner if taken else "", taken, outcome.waits_for)

    def wait_for_own_cpus(self, state: NodeState, container_id: str, exchange: Exchange) -> None:
        """Hold an answer back until the former users of the CPUs are gone, within bounds."""
        left = min(START_WAIT_S, exchange.ticket.deadline - time.monotonic() - 0.02)
        barrier = self._actuator.await_departure(container_id, max(left, 0.0))
        if barrier is None:
            return
        self._report.metrics.late_exclusivity()
        cpus = cpuset.render(barrier.taken)
        because = f"it comes while {barrier.open} cgroups are not read back off its CPUs {cpus}"
        assignment = state.containers[container_id]
        self._report.about(assignment, state, (AuditEvent.LATE, Reason.TOO_LATE, because))

    # ---- words ----

    def tell(self, outcome: Outcome, before: NodeState, exchange: Exchange) -> None:
        """Tell what was decided, and how long the runtime waited for it."""
        if outcome.decisions:
            self._report.decided(outcome.decisions, outcome.state, before, exchange.latency_us)

    def tell_drift(self, container_id: str, drift: Drift | None) -> None:
        """Tell what somebody else had changed, if anything."""
        state = self._node.state
        assignment = state.containers.get(container_id)
        if drift is not None and assignment is not None:
            self._report.drifted(assignment, state, drift)

    def tell_too_late(self, hook: events.Hook, exchange: Exchange) -> None:
        """Tell that the watchdog had answered, and who does instead what was decided."""
        is_update = hook.kind is HookKind.UPDATE_CONTAINER
        what = "files carry out what it asks for" if is_update else "files place it when it starts"
        because = (
            f"{hook.kind.value} was decided after {exchange.age_us} µs, when the neutral answer had left; "
            f"the decision is discarded, {what}"
        )
        self._report.about_hook(hook, (AuditEvent.LATE, Reason.TOO_LATE, because))
