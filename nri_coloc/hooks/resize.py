"""Answer UpdateContainer, and handle its Post event: the kubelet's resize, or our own push.

A few small files are written before the answer if other containers must leave CPUs. Otherwise the runtime would let the
container onto them first.
"""

from typing import Any

from nri_coloc._pb import nri_pb2
from nri_coloc.core.decisions import NO_MOVES, ContainerUpdating, Outcome
from nri_coloc.core.knobs import NO_KNOBS, NOTHING_KNOWN, Knobs
from nri_coloc.core.seams import Change, Decided, all_of
from nri_coloc.core.state import NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import shares_of_request
from nri_coloc.hooks.common_steps import Consequences, Exchange
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri import codec, events
from nri_coloc.placing.node import Node
from nri_coloc.placing.update import merge
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime import stored_specs


class Resize:
    """Answers one update at a time."""

    def __init__(
        self, node: Node, actuator: Actuator, translator: Translator, consequences: Consequences
    ) -> None:
        self._node = node
        self._actuator = actuator
        self._pusher = consequences.pusher
        self._translator = translator
        self._consequences = consequences

    def serve(self, hook: events.Hook, exchange: Exchange) -> None:
        """Answer with the requested values, replaced by the decided ones; answer our own push with newer values."""
        before = self._node.state
        within_pod = self._node.can.cgroup == 1
        event = self._translator.updating(hook, before, self._node.tuning, within_pod=within_pod)
        container_id = event.container.id
        if self._pusher.recognises(container_id, event.requested.knobs()):
            self._answer_own_push(container_id, exchange)
            return
        self._actuator.pushing(container_id)  # the kubelet's update makes the runtime write as a push does
        reply: list[Any] = [None]

        def deliverable(outcome: Outcome) -> bool:
            # without resources in the request an answer would crash containerd 1.7 (nri-protocol §5.3)
            if not outcome.refusal and hook.resources is not None and hook.resources.ByteSize():
                reply[0] = self._overlay(outcome, container_id)
            return exchange.claim()

        outcome = self._node.decide_if(event, deliverable)
        if outcome is None:
            self._consequences.tell_too_late(hook, exchange)
            self._serve_by_files(event)
            return
        if outcome.refusal:
            exchange.refuse(outcome.refusal)
            self._consequences.follow(
                Change(before, outcome.state, outcome.decisions, latency_us=exchange.latency_us)
            )
            return
        self._tell_resize(event.container.pod_id, before, outcome.state)
        decided = Decided(outcome, before, event.container.pod_id, container_id)
        drifts = self._consequences.prepare_answer(hook.kind, decided, exchange)
        exchange.send(reply[0])
        holds = stored_specs.of(merge(event.container.resources, event.requested))
        if reply[0] is not None:
            holds = holds.overlaid(outcome.orders_for(container_id).where_set(stored_specs.PUSHED))
            self._consequences.learn(reply[0], but=container_id)
        self._pusher.learned(container_id, holds)
        if drifts:
            self._consequences.tell_drift(container_id, *drifts)
        # specs are pushed only now: the answer has carried most of their values, perhaps all
        self._consequences.follow(all_of(outcome, before, left=NO_MOVES, latency_us=exchange.latency_us))

    def _serve_by_files(self, event: ContainerUpdating) -> None:
        """Decide an update that was answered without us: files carry its values."""
        before = self._node.state
        by_files = self._node.decide(replace(event, answered=False))
        self._consequences.follow(all_of(by_files, before))
        self._tell_resize(event.container.pod_id, before, by_files.state)

    def carried_out(self, hook: events.Hook, exchange: Exchange) -> None:
        """Handle PostUpdateContainer: check whether the runtime applied the answer."""
        exchange.answer(None)
        assert hook.container is not None  # events of containers carry one
        container_id = hook.container.id
        # certain only now: the answer may have come too late, and the request may have failed
        self._pusher.learned(
            container_id, stored_specs.of(codec.resources_of(hook.container.linux.resources))
        )
        self._pusher.submit((container_id,))
        self._actuator.pushed(container_id)
        self._actuator.bandwidths.place(container_id)
        drift = self._actuator.place(container_id)
        if drift is not None and not drift.former:
            # a value of our previous order is no drift: the runtime applies an update while the next is decided
            self._consequences.tell_drift(container_id, drift)

    def _tell_resize(self, pod_id: str, before: NodeState, after: NodeState) -> None:
        """Note the kubelet's resize of a pod, with its shares if they become fewer: the kubelet writes them last."""
        was, now = before.cpu_request_of(pod_id), after.cpu_request_of(pod_id)
        is_lowered = was is not None and now is not None and now < was
        self._actuator.resized(pod_id, Knobs(shares=shares_of_request(now or 0)) if is_lowered else NO_KNOBS)

    def _answer_own_push(self, container_id: str, exchange: Exchange) -> None:
        """Answer our own push with newer values: another container may own the pushed CPUs by now."""
        if exchange.claim():
            newer = codec.update(container_id, self._pusher.renew(container_id), NOTHING_KNOWN)
            exchange.send(nri_pb2.UpdateContainerResponse(update=[newer]) if newer is not None else None)

    def _overlay(self, outcome: Outcome, container_id: str) -> nri_pb2.UpdateContainerResponse | None:
        if self._node.tuning.observe:
            return None
        own = codec.update(container_id, outcome.orders_for(container_id), self._node.can)
        others = self._consequences.updates(outcome, but=container_id)
        if own is None and not others:
            return None
        return nri_pb2.UpdateContainerResponse(update=[*([own] if own is not None else []), *others])
