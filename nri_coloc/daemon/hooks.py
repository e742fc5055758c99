"""Each hook, from its message to its answer: translate, decide, answer, and only then act and speak.

Runs on the trunk's thread. CreateContainer, Synchronize, Stop, Remove and the Post events do no I/O before
their reply; RunPodSandbox, StartContainer and both updates may write a few small files first, for they are the last
safe points for what NRI cannot carry. The one broad `except` stands in `serve`: a failure of ours is
answered neutrally and audited, never passed to the runtime.
"""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.daemon import specs
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.drift import Drift
from nri_coloc.daemon.exchange import Answers, Exchange
from nri_coloc.daemon.foresight import Foresight, Terms
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.pusher import Pusher
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.translation import Translator
from nri_coloc.daemon.watchdog import Ticket, Watchdog
from nri_coloc.errors import TransportLost
from nri_coloc.knobs import adjustment
from nri_coloc.knobs.capability import NOTHING_KNOWN
from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Moves, Outcome
from nri_coloc.model.events import ContainerGone, Event, PodRemoved
from nri_coloc.model.knobs import NO_KNOBS, Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import NodeState
from nri_coloc.nri import codec, events
from nri_coloc.nri.subscription import HookKind
from nri_coloc.policy import admission, box, record

START_WAIT_S: Final = 0.4
"""How long a dedicated container's start may wait for its CPUs: within a quarter of the usual timeout."""


class Hooks:
    """Serves one hook at a time."""

    def __init__(
        self, node: Node, actuator: Actuator, pusher: Pusher, translator: Translator, report: Report
    ) -> None:
        self._node = node
        self._actuator = actuator
        self._pusher = pusher
        self._translator = translator
        self._report = report
        self._foresight = Foresight()
        self.expecting_member: Callable[[], AbstractContextManager[None]] = nullcontext
        self.expecting_list: Callable[[], AbstractContextManager[None]] = nullcontext
        self._routes = {
            HookKind.RUN_POD_SANDBOX: self._run_pod,
            HookKind.STOP_POD_SANDBOX: self._pod_gone,
            HookKind.REMOVE_POD_SANDBOX: self._pod_gone,
            HookKind.UPDATE_POD_SANDBOX: self._update_pod,
            HookKind.CREATE_CONTAINER: self._create,
            HookKind.START_CONTAINER: self._start,
            HookKind.POST_START_CONTAINER: self._started,
            HookKind.UPDATE_CONTAINER: self._update,
            HookKind.POST_UPDATE_CONTAINER: self._updated,
            HookKind.STOP_CONTAINER: self._gone,
            HookKind.REMOVE_CONTAINER: self._gone,
        }

    def serve(self, hook: events.Hook, answers: Answers, watchdog: Watchdog, read_at: float) -> None:
        """Answer one hook; whatever goes wrong inside is answered neutrally."""
        ticket = watchdog.begin(hook.call, hook.kind.value)
        exchange = Exchange(ticket, answers, read_at)
        try:
            route = self._routes.get(hook.kind, self._nothing)
            route(hook, exchange)
        except TransportLost:
            raise  # there is nobody left to answer
        except Exception as error:  # noqa: BLE001 - a failure of ours never fails a container (invariant 8)
            self._failed(hook, ticket, answers, error)
        finally:
            watchdog.end()
            self._report.metrics.hook(hook.kind.value, exchange.waited_s)

    # ---- pods ----

    def _run_pod(self, hook: events.Hook, exchange: Exchange) -> None:
        event = self._translator.pod_started(hook, self._node.tuning)
        with self.expecting_member() if box.belongs(event.wish) else nullcontext():
            before = self._node.state
            outcome = self._node.decide(event)
        self._actuator.place_pod(event.pod.id)
        exchange.answer(None)
        # its cgroup was written above; only what the event means for others is left to do
        others = replace(outcome, moves=outcome.moves.without_pod(event.pod.id))
        self._after(others, before, exchange)

    def _pod_gone(self, hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)
        gone = [assignment.id for assignment in self._node.state.of_pod(hook.pod.id)]
        self._decide_and_act(PodRemoved(hook.pod.id), exchange)
        for container_id in gone:
            self._actuator.forget(container_id)
            self._pusher.forget(container_id)

    def _update_pod(self, hook: events.Hook, exchange: Exchange) -> None:
        self._actuator.resized(hook.pod.id)
        exchange.answer(None)

    # ---- containers ----

    def _create(self, hook: events.Hook, exchange: Exchange) -> None:
        terms = Terms(self._node.tuning, self._actuator.can)
        foreseen = self._foresight.answer(hook, self._node.state, terms)
        if foreseen is None:
            self._decide_and_answer(hook, exchange)
        elif exchange.claim():
            exchange.send(foreseen)
            # such an answer moves nobody, so nothing is urgent: a runtime that woke on this CPU goes first
            os.sched_yield()
            self._decide_answered(hook, exchange, foreseen)
        else:
            self._too_late(hook, exchange)

    def _decide_answered(self, hook: events.Hook, exchange: Exchange, answer: Any) -> None:
        """Decide on a creation whose answer was foreseen and has left; files mend what it should have said."""
        before = self._node.state
        event = self._translator.creating(hook, before, self._node.tuning)
        outcome = self._node.decide(event)
        container_id = event.container.id
        decided = self._creation(outcome, container_id)
        if decided is answer or decided == answer:
            ours = outcome.state.containers[container_id].knobs.where_set(specs.PUSHED)
            self._actuator.answered(container_id, outcome.state)
        else:
            ours = specs.of(codec.resources_of(answer.adjust.linux.resources))
            outcome = replace(outcome, moves=outcome.moves + Moves(containers=(container_id,)))
        self._pusher.learned(container_id, specs.of(event.container.resources).overlaid(ours))
        self._after(outcome, before, exchange)

    def _decide_and_answer(self, hook: events.Hook, exchange: Exchange) -> None:
        before = self._node.state
        event = self._translator.creating(hook, before, self._node.tuning)
        reply: list[Any] = [None]

        def deliverable(outcome: Outcome) -> bool:
            if not outcome.refusal and not self._node.tuning.observe:
                reply[0] = self._creation(outcome, event.container.id)
            return exchange.claim()

        outcome = self._node.decide(event, deliverable)
        if not exchange.claimed_by_us:
            self._too_late(hook, exchange)
            return
        if outcome.refusal:
            exchange.refuse(outcome.refusal)
        else:
            if before.boxed(hook.pod.id) and not outcome.state.boxed(hook.pod.id):
                # the one write before this answer: on cgroup v1 a container whose spec names CPUs that its pod's
                # cgroup lacks cannot start, and the runtime may be quicker than the actuator
                self._actuator.place_pod(hook.pod.id)
            exchange.send(reply[0])
            assignment = outcome.state.containers[event.container.id]
            ours = assignment.knobs.where_set(specs.PUSHED) if reply[0] is not None else NO_KNOBS
            self._pusher.learned(assignment.id, specs.of(event.container.resources).overlaid(ours))
            self._learn(reply[0])
            if reply[0] is not None:
                self._actuator.answered(event.container.id, outcome.state)
                terms = Terms(self._node.tuning, self._actuator.can)
                self._foresight.learn(hook, before, outcome.state, terms, reply[0])
        self._after(outcome, before, exchange, owner=event.container.id)

    def _creation(self, outcome: Outcome, container_id: str) -> nri_pb2.CreateContainerResponse:
        assignment = outcome.state.containers[container_id]
        can = self._actuator.can
        former_oom = assignment.original.oom_score_adj
        response = adjustment.creation(assignment.knobs, record.write(assignment), can, former_oom)
        if not outcome.moves.containers:
            return response
        with_others = nri_pb2.CreateContainerResponse(update=self._updates(outcome, can))
        with_others.MergeFrom(response)
        return with_others

    def _updates(self, outcome: Outcome, can: Any, but: str = "") -> list[nri_pb2.ContainerUpdate]:
        """Render the others' new sets, or none where a reply may not carry them all: files move them (decision 6)."""
        others = [k for k in outcome.moves.containers if k != but]
        if len(others) > self._node.tuning.updates_per_reply:
            return []
        orders = ((k, admission.orders(outcome.state, outcome.state.containers[k])) for k in others)
        return adjustment.updates([(k, Knobs(cpus=one.cpus)) for k, one in orders], can)

    def _learn(self, sent: Any | None) -> None:
        """Note what the runtime's specs hold after an answer of ours; one that was discarded taught it nothing."""
        for update in getattr(sent, "update", ()):
            values = specs.of(codec.resources_of(update.linux.resources))
            self._pusher.learned(update.container_id, values)

    def _start(self, hook: events.Hook, exchange: Exchange) -> None:
        before = self._node.state
        event = self._translator.starting(hook, before, self._node.tuning, running=False)
        outcome = self._node.decide(event)
        container_id = event.container.id
        self._act(outcome, container_id)
        drift = self._actuator.place(container_id)
        self._actuator.finish(container_id)
        self._set_oom_score(outcome.state, container_id)
        self._wait_for_own_cpus(outcome.state, container_id, exchange)
        exchange.answer(None)
        self._say(outcome, before, exchange)
        self._say_drift(container_id, drift)

    def _started(self, hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)
        before = self._node.state
        event = self._translator.starting(hook, before, self._node.tuning, running=True)
        outcome = self._node.decide(event)
        self._after(outcome, before, exchange)
        self._actuator.bandwidths.place(event.container.id)
        self._say_drift(event.container.id, self._actuator.place(event.container.id))

    def _update(self, hook: events.Hook, exchange: Exchange) -> None:
        before = self._node.state
        event = self._translator.updating(hook, before, self._node.tuning)
        if self._pusher.recognises(event.container.id, event.requested.knobs()):
            self._answer_own_push(event.container.id, exchange)
            return
        reply: list[Any] = [None]

        def deliverable(outcome: Outcome) -> bool:
            # without resources in the request an answer would crash containerd 1.7 (nri-protocol §5.3)
            if not outcome.refusal and hook.resources is not None and hook.resources.ByteSize():
                reply[0] = self._overlay(outcome, event.container.id)
            return exchange.claim()

        outcome = self._node.decide(event, deliverable)
        if not exchange.claimed_by_us:
            self._too_late(hook, exchange)
            self._decide_and_act(replace(event, answered=False), exchange)
            self._actuator.resized(event.container.pod_id)
            return
        if outcome.refusal:
            exchange.refuse(outcome.refusal)
            self._say(outcome, before, exchange)
            return
        self._actuator.resized(event.container.pod_id)
        self._make_way(outcome, event.container.id, exchange)
        exchange.send(reply[0])
        asked = specs.of(event.container.resources).overlaid(specs.of(event.requested))
        self._pusher.learned(event.container.id, asked)
        self._learn(reply[0])
        self._pusher.submit(outcome.moves.containers)  # only now: the answer has said most of it, perhaps all
        self._say(outcome, before, exchange)

    def _answer_own_push(self, container_id: str, exchange: Exchange) -> None:
        """Have it say what is newer: others may own by now what it would give."""
        if exchange.claim():
            newer = adjustment.update(container_id, self._pusher.renew(container_id), NOTHING_KNOWN)
            exchange.send(nri_pb2.UpdateContainerResponse(update=[newer]) if newer is not None else None)

    def _make_way(self, outcome: Outcome, container_id: str, exchange: Exchange) -> None:
        """Move whom a resize concerns before the answer: the runtime would let others in first.

        They leave what it takes before it comes, and it leaves what it returns before they come.
        """
        if outcome.moves and not outcome.waits_for:
            self._say_drift(container_id, self._actuator.place(container_id))
        self._move(outcome, container_id)
        if outcome.waits_for:
            self._wait_for_own_cpus(outcome.state, container_id, exchange)

    def _overlay(self, outcome: Outcome, container_id: str) -> nri_pb2.UpdateContainerResponse | None:
        if self._node.tuning.observe:
            return None
        can = self._actuator.can
        own = adjustment.update(container_id, outcome.orders_for(container_id), can)
        others = self._updates(outcome, can, but=container_id)
        if own is None and not others:
            return None
        return nri_pb2.UpdateContainerResponse(update=[*([own] if own is not None else []), *others])

    def _updated(self, hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)
        assert hook.container is not None  # events of containers carry one
        container_id = hook.container.id
        # only now is it certain: what we answered may have come too late, what was asked for may have failed
        self._pusher.learned(container_id, specs.of(codec.resources_of(hook.container.linux.resources)))
        self._pusher.submit((container_id,))
        self._actuator.bandwidths.place(container_id)
        drift = self._actuator.place(container_id)
        if drift is not None and not drift.former:
            # what we ordered before was only overtaken: the runtime carries out an update while the next is decided
            self._say_drift(container_id, drift)

    def _gone(self, hook: events.Hook, exchange: Exchange) -> None:
        assert hook.container is not None  # events of containers carry one
        removed = hook.kind is HookKind.REMOVE_CONTAINER
        before = self._node.state
        outcome = self._node.decide(ContainerGone(hook.container.id, removed))
        is_silent = removed or self._node.tuning.observe
        updates = [] if is_silent else self._updates(outcome, self._actuator.can)
        answer = nri_pb2.StopContainerResponse(update=updates) if updates else None
        exchange.answer(answer)
        if exchange.claimed_by_us:
            self._learn(answer)
        self._after(outcome, before, exchange)
        self._actuator.forget(hook.container.id)
        self._pusher.forget(hook.container.id)

    def _nothing(self, _hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)

    # ---- around the answer ----

    def synchronize(self, listed: events.Synchronize, answers: Answers) -> None:
        """Take the runtime's whole list, answer at once without updates, then compare everything."""
        self._list(listed, lambda: answers.answer(listed.call, nri_pb2.SynchronizeResponse()))

    def learn(self, listed: events.Synchronize) -> None:
        """Take the runtime's list that came over a connection made for it alone."""
        self._list(listed, lambda: None)

    def _list(self, listed: events.Synchronize, answer: Callable[[], None]) -> None:
        event = self._translator.synchronized(listed.pods, listed.containers, self._node.tuning)
        with self.expecting_list():
            before = self._node.state
            outcome = self._node.decide(event)
            answer()
        self._pusher.learned_all({c.id: specs.of(c.resources) for c, _ in event.containers})
        self._report.decided(outcome.decisions, outcome.state, before)
        self._act(outcome)
        self._actuator.take_over()

    def _decide_and_act(self, event: Event, exchange: Exchange) -> None:
        before = self._node.state
        outcome = self._node.decide(event)
        self._after(outcome, before, exchange)

    def _after(self, outcome: Outcome, before: NodeState, exchange: Exchange, owner: str = "") -> None:
        self._act(outcome, owner)
        self._say(outcome, before, exchange)

    def _act(self, outcome: Outcome, owner: str = "") -> None:
        self._move(outcome, owner)
        self._pusher.submit(outcome.moves.containers)

    def _move(self, outcome: Outcome, owner: str) -> None:
        if outcome.moves and not self._node.tuning.observe:
            taken = outcome.state.owners.get(owner, 0)
            self._actuator.submit(outcome.moves, owner if taken else "", taken, outcome.waits_for)

    def _say(self, outcome: Outcome, before: NodeState, exchange: Exchange) -> None:
        if outcome.decisions:
            self._report.decided(outcome.decisions, outcome.state, before, exchange.latency_us)

    def _wait_for_own_cpus(self, state: NodeState, container_id: str, exchange: Exchange) -> None:
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

    def _set_oom_score(self, state: NodeState, container_id: str) -> None:
        assignment = state.containers.get(container_id)
        if assignment is None or self._node.tuning.observe:
            return
        wanted, former = assignment.knobs.oom_score_adj, assignment.original.oom_score_adj
        if assignment.by_file or not self._actuator.can.oom_by_answer(wanted, former):
            self._actuator.set_oom_score(assignment)

    def _say_drift(self, container_id: str, drift: Drift | None) -> None:
        state = self._node.state
        assignment = state.containers.get(container_id)
        if drift is not None and assignment is not None:
            self._report.drifted(assignment, state, drift)

    def _too_late(self, hook: events.Hook, exchange: Exchange) -> None:
        is_update = hook.kind is HookKind.UPDATE_CONTAINER
        what = "files carry out what it asks for" if is_update else "files place it when it starts"
        because = (
            f"{hook.kind.value} was decided after {exchange.age_us} µs, when the neutral answer had left; "
            f"the decision is discarded, {what}"
        )
        self._report.about_hook(hook, (AuditEvent.LATE, Reason.TOO_LATE, because))

    def _failed(self, hook: events.Hook, ticket: Ticket, answers: Answers, error: Exception) -> None:
        if ticket.claim():
            answers.answer(hook.call, None)
        self._report.log.error(
            "a hook failed inside; it was answered neutrally", hook=hook.kind.value, exc_info=error
        )
        self._report.metrics.neutral_reply(hook.kind.value)
        because = f"{hook.kind.value} failed inside: {type(error).__name__}: {error}; answered neutrally"
        self._report.about_hook(hook, (AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, because))
