"""CreateContainer, the hook that delays each container; it is answered before the decision if the answer is known.

No I/O before the answer, except one write without which the answer would fail.

A plain container has no annotation, no record and no CPUs in its spec. In a pool, its answer follows from its pod's
wish, the kubelet's values and the present pools. So an answer is remembered by these and sent at once. The decision is
made right after: two thirds of a creation's CPU time then come after the answer (docs/benchmarks.md). If pools change
in between and the decision differs, files correct the values before the first instruction. The same holds for any late
answer.
"""

import os
from typing import Any, Final, Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.core.decisions import ContainerCreating, Moves, Outcome
from nri_coloc.core.knobs import NO_KNOBS, Capability, Knobs
from nri_coloc.core.seams import Decided, all_of, superseded
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState, Pools
from nri_coloc.core.value import replace
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.hooks.common_steps import Consequences, Exchange
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri import codec, events
from nri_coloc.placing import record
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime import stored_specs

LONGEST: Final = 1024
"""Bytes of a container's resources up to which its answer is kept; a pod with many devices has more."""

MOST: Final = 1024
"""Answers kept; a node has a handful of different ones."""

Known = tuple[int, bool, bytes, int | None]


class Kubelet(Protocol):
    """Reads the kubelet's state file again if it has changed; costs two stats if it has not."""

    def look_at_kubelet(self) -> None: ...


class Foresight:
    """The answers to plain containers, for one set of pools, one tuning and one runtime; a change of any drops them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._holds_for: tuple[Pools | None, Tuning | None, Capability | None] = (None, None, None)
        self._answers: dict[Known, tuple[Wish, Any]] = {}

    def answer(self, hook: events.Hook, state: NodeState) -> Any | None:
        """Return the answer that an equal container got last, None if it must be decided first."""
        if not self._holds(state.pools):
            return None
        known = self._key(hook, state)
        found = self._answers.get(known) if known is not None else None
        # the id in the key is the wish's as long as an object holds it, as this one does
        return found[1] if found is not None else None

    def learn(self, hook: events.Hook, before: NodeState, after: NodeState, answer: Any) -> None:
        """Remember a decision's answer if the next equal container will get it too."""
        tuning = self._node.tuning
        if tuning.strict or tuning.observe or tuning.kept_by_kubelet or after.pools.plan:
            return
        if before.pools is not after.pools or names_cpus(hook):
            return
        if not self._holds(after.pools) or len(self._answers) >= MOST:
            self._holds_for, self._answers = (after.pools, tuning, self._node.can), {}
        known = self._key(hook, before)
        if known is not None:
            self._answers[known] = (before.pods[hook.pod.id].wish, answer)

    def _holds(self, pools: Pools) -> bool:
        """Return whether the answers hold for these pools, the present tuning and the present runtime.

        Compared by identity: equal values of other identity are rare, and a comparison is expensive.
        """
        of_pools, of_tuning, of_can = self._holds_for
        return of_pools is pools and of_tuning is self._node.tuning and of_can is self._node.can

    @staticmethod
    def _key(hook: events.Hook, state: NodeState) -> Known | None:
        container, place = hook.container, state.pods.get(hook.pod.id)
        if container is None or place is None or not place.wish.plain:
            return None
        if place.wish.qos is QoSClass.DEDICATED or container.id in state.containers:
            return None
        if codec.has_record(container):
            return None
        linux = container.linux
        resources = linux.resources.SerializeToString()
        if len(resources) > LONGEST:
            return None
        oom = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
        return id(place.wish), place.boxed, resources, oom


class Creation:
    """Answers one creation at a time."""

    def __init__(
        self,
        node: Node,
        actuator: Actuator,
        translator: Translator,
        consequences: Consequences,
        *,
        kubelet: Kubelet,
    ) -> None:
        self._node = node
        self._actuator = actuator
        self._translator = translator
        self._consequences = consequences
        self._kubelet = kubelet
        self._foresight = Foresight(node)

    def serve(self, hook: events.Hook, exchange: Exchange) -> None:
        """Send the foreseen answer, or else the answer that is decided now, and carry the decision out."""
        foreseen = self._foresight.answer(hook, self._node.state)
        if foreseen is None:
            self._decide_and_answer(hook, exchange)
        elif exchange.claim():
            exchange.send(foreseen)
            # such an answer moves no container, so nothing is urgent: a runtime that woke on this CPU goes first
            os.sched_yield()
            self._decide_answered(hook, exchange, foreseen)
        else:
            self._consequences.tell_too_late(hook, exchange)

    def _decide_answered(self, hook: events.Hook, exchange: Exchange, answer: Any) -> None:
        """Decide on a creation whose foreseen answer was sent; if the decision differs, files correct it."""
        before = self._node.state
        event = self._translator.creating(hook, before, self._node.tuning)
        outcome = self._node.decide(event)
        container_id = event.container.id
        assignment = outcome.state.containers[container_id]
        decided = self._response(outcome, assignment)
        if decided is answer or decided == answer:
            ours = self._told(assignment).where_set(stored_specs.PUSHED)
            self._actuator.answered(assignment, outcome.state)
        else:
            ours = stored_specs.of(codec.resources_of(answer.adjust.linux.resources))
            outcome = replace(outcome, moves=outcome.moves + Moves(containers=(container_id,)))
        self._consequences.learn_created(event, ours)
        ended = superseded(outcome)
        self._consequences.follow(all_of(outcome, before, ended=ended, latency_us=exchange.latency_us))

    def _decide_and_answer(self, hook: events.Hook, exchange: Exchange) -> None:
        if names_cpus(hook):  # no answer is foreseen for such a container
            self._kubelet.look_at_kubelet()
        event = self._translator.creating(hook, self._node.state, self._node.tuning)
        with self._consequences.prepared(event):
            self._decide_on(event, hook, exchange)

    def _decide_on(self, event: ContainerCreating, hook: events.Hook, exchange: Exchange) -> None:
        before = self._node.state
        reply: list[Any] = [None]

        def deliverable(outcome: Outcome) -> bool:
            if not outcome.refusal and not self._node.tuning.observe:
                reply[0] = self._response(outcome, outcome.state.containers[event.container.id])
            return exchange.claim()

        outcome = self._node.decide_if(event, deliverable)
        if outcome is None:
            self._consequences.tell_too_late(hook, exchange)
            return
        if outcome.refusal:
            exchange.refuse(outcome.refusal)
        else:
            decided = Decided(outcome, before, hook.pod.id, event.container.id)
            self._consequences.prepare_answer(hook.kind, decided, exchange)
            exchange.send(reply[0])
            assignment = outcome.state.containers[event.container.id]
            ours = self._told(assignment).where_set(stored_specs.PUSHED) if reply[0] is not None else NO_KNOBS
            self._consequences.learn_created(event, ours)
            self._consequences.learn(reply[0])
            if reply[0] is not None:
                self._actuator.answered(assignment, outcome.state)
                self._foresight.learn(hook, before, outcome.state, reply[0])
        change = all_of(
            outcome,
            before,
            owner=event.container.id,
            ended=superseded(outcome),
            latency_us=exchange.latency_us,
        )
        self._consequences.follow(change)

    def _told(self, assignment: Assignment) -> Knobs:
        """Return the values that the answer carries.

        Beside the DRA CPU driver the answer carries no CPUs. The driver names CPUs for every container, and the runtime
        refuses a container whose CPUs two plugins set. Files pin it before its first instruction.
        """
        knobs = assignment.knobs
        return knobs._replace(cpus=None) if self._node.tuning.dra_driver else knobs

    def _response(self, outcome: Outcome, assignment: Assignment) -> nri_pb2.CreateContainerResponse:
        former_oom = assignment.original.oom_score_adj
        response = codec.creation(
            self._told(assignment), record.write(assignment), self._node.can, former_oom
        )
        updates = self._consequences.updates(outcome) if outcome.moves else ()
        if not updates:
            return response
        with_others = nri_pb2.CreateContainerResponse(update=updates)
        with_others.MergeFrom(response)
        return with_others


def names_cpus(hook: events.Hook) -> bool:
    """Return whether a container's spec names CPUs.

    No answer is learnt from such a container, and so none is found for it: its resources are in the key.
    """
    return hook.container is not None and bool(hook.container.linux.resources.cpu.cpus)
