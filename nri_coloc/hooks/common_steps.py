"""The steps common to all hooks: writes before the answer, other containers' updates in it, observers after it."""

from collections.abc import Mapping
from typing import Any, Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.events import ContainerCreating
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift, Report
from nri_coloc.core.seams import After, BeforeAnswer, Change, Decided, tell
from nri_coloc.hooks.watchdog import Exchange
from nri_coloc.nri import adjustment, codec, events
from nri_coloc.nri.calls import HookKind
from nri_coloc.placing import admission
from nri_coloc.placing.node import Node
from nri_coloc.repair.neighbours import Neighbours
from nri_coloc.runtime import stored_specs
from nri_coloc.runtime.pusher import Pusher

Steps = Mapping[HookKind, tuple[BeforeAnswer, ...]]
"""At most three steps by kind of hook; a kind without an entry is answered at once."""


class HookReport(Report, Protocol):
    """The reports of rooms, and two that only hooks need."""

    @property
    def neighbours(self) -> Neighbours: ...

    def about_hook(self, hook: events.Hook, what: tuple[AuditEvent, Reason, str]) -> None:
        """Record an event about a hook's container or pod, whether known or not."""


class Consequences:
    """Has no state of its own: an old runtime's list comes on another thread than hooks do."""

    def __init__(
        self, node: Node, pusher: Pusher, report: HookReport, *, before_answer: Steps, after: After
    ) -> None:
        self._node = node
        self._pusher = pusher
        self._report = report
        self._before_answer = before_answer
        self._after = after

    # ---- before the answer ----

    def prepare_answer(self, kind: HookKind, decided: Decided, exchange: Exchange) -> list[Drift]:
        """Take this hook's steps; return the values that other writers had changed."""
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
        return adjustment.updates([(k, Knobs(cpus=one.cpus)) for k, one in orders], self._node.can)

    # ---- after it ----

    def learn(self, sent: Any | None) -> None:
        """Note the values that the runtime's specs hold after an answer that was sent."""
        for update in getattr(sent, "update", ()):
            values = stored_specs.of(codec.resources_of(update.linux.resources))
            self._pusher.learned(update.container_id, values)

    def named_cpus(self, event: ContainerCreating) -> None:
        """Note an answer that names CPUs: the runtime refuses it if another plugin names CPUs too."""
        name = f"{event.pod.namespace}/{event.pod.name}/{event.container.name}"
        self._report.neighbours.creations.answered(event.container.id, name)

    def follow(self, change: Change) -> None:
        """Pass a change to every observer."""
        tell(self._after, change)

    def tell_drift(self, container_id: str, *drifts: Drift | None) -> None:
        """Record values of a container that another writer had changed."""
        state = self._node.state
        assignment = state.containers.get(container_id)
        for drift in filter(None, drifts):
            if assignment is not None:
                self._report.drifted(assignment, state, drift)

    def tell_too_late(self, hook: events.Hook, exchange: Exchange) -> None:
        """Record that the watchdog answered before the decision was made: control files carry out the decision."""
        is_update = hook.kind is HookKind.UPDATE_CONTAINER
        when = "now" if is_update else "at the container's start"
        because = (
            f"{hook.kind.value} was answered without changes: the decision came too late, "
            f"after {exchange.age_us / 1000:.1f} ms; its values are written to control files {when}"
        )
        self._report.about_hook(hook, (AuditEvent.LATE, Reason.TOO_LATE, because))
