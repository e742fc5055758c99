"""Hold the node's state and decide the outcome of each event: `step(state, event, tuning) -> Outcome`.

An event is a cause ("a container is being created"). The outcome has the next state, the decisions to record and the
moves to apply. `step` is total and deterministic: it does not wait, read a clock or fail, and a request that cannot be
met is an outcome too. `Node` decides under its mutex, the only one in this room, and callers act after it.

Readers take the current value without a lock, because it is immutable and its reference is replaced as a whole. Only
`Node` replaces it; `decide_if` does so only if the caller can still deliver the answer.
"""

from collections.abc import Callable
from threading import Lock
from typing import assert_never

from nri_coloc.core import knobs
from nri_coloc.core.decisions import (
    AmountsGranted,
    ContainerCreated,
    ContainerCreating,
    ContainerGone,
    ContainerStarting,
    ContainerUpdating,
    CPUsFreed,
    Decision,
    Event,
    FactsReported,
    Moves,
    Outcome,
    PodRemoved,
    PodResized,
    PodStarted,
    PoolsSized,
    Reconfigured,
    Synchronized,
)
from nri_coloc.core.knobs import NOTHING_KNOWN, Capability, Knobs
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Pod
from nri_coloc.placing import (
    change,
    lifecycle,
    loans,
    ownership,
    protection,
    resynchronisation,
    starts,
    supply,
    update,
    waiting,
    words,
)

_OfContainer = ContainerCreating | ContainerStarting | ContainerUpdating


def step(state: NodeState, event: Event, tuning: Tuning) -> Outcome:
    """Return the outcome of an event; the same state and event give the same outcome."""
    if isinstance(event, _OfContainer):
        outcome = _with_request(state, event, tuning)
    else:
        outcome = _answered(state, event, tuning)
    return change.followed(state, event, outcome) if state.pools.plan else outcome


def _with_request(state: NodeState, event: _OfContainer, tuning: Tuning) -> Outcome:
    """Return the outcome of a container's event, after a resize of its pod if the event has another request of it."""
    place = state.pods.get(event.pod.id)
    if place is None or place.pod is event.pod or _requested(place.pod) == _requested(event.pod):
        return _beside_owners(change.with_request(state, event.pod), event, tuning)
    others = {k: wish for k, wish in event.judged.items() if k != event.container.id}
    resized = ownership.pod_resized(state, PodResized(event.pod, others), tuning)
    return resized + _beside_owners(resized.state, event, tuning)


def _requested(pod: Pod) -> tuple[int | None, int | None]:
    return pod.cpu_request, pod.memory_request


def _beside_owners(state: NodeState, event: _OfContainer, tuning: Tuning) -> Outcome:
    """Return the outcome of a container's event; before a new container comes its pod's owners make room for it."""
    room = None
    if event.container.id not in state.containers and state.owners_of_pod(event.container.pod_id):
        room = ownership.beside_new(state, event.container, event.wish, tuning)
    return _answered(state, event, tuning) if room is None else room + _answered(room.state, event, tuning)


def _answered(state: NodeState, event: Event, tuning: Tuning) -> Outcome:  # noqa: C901, PLR0912 - one case an event
    match event:
        case ContainerCreating():
            return lifecycle.create(state, event, tuning)
        case ContainerCreated():
            return starts.created(state, event)
        case ContainerStarting():
            return ownership.start(state, event, tuning)
        case ContainerUpdating():
            return update.update(state, event, tuning)
        case ContainerGone():
            return lifecycle.gone(state, event)
        case PodStarted():
            return lifecycle.pod_started(state, event)
        case PodResized():
            return ownership.pod_resized(state, event, tuning)
        case PodRemoved():
            return lifecycle.pod_removed(state, event)
        case Synchronized():
            return resynchronisation.synchronize(state, event, tuning)
        case Reconfigured():
            return resynchronisation.reconfigure(state, event, tuning)
        case PoolsSized():
            return change.sized(state, event)
        case AmountsGranted():
            return loans.granted(state, event)
        case FactsReported():
            return _reported(state, event)
        case CPUsFreed():
            return waiting.placed_again(state, tuning, turn=event.turn)
        case _:
            assert_never(event)


def _reported(state: NodeState, event: FactsReported) -> Outcome:
    """Return the state with the newest facts, and the pods whose memory protection follows from them."""
    after = replace(state, facts=event.facts, generation=state.generation + 1)
    found = [_protected_anew(state, after, pod_id) for pod_id in protection.asking(state)]
    decisions = tuple([each for each in found if each is not None])
    return Outcome(after, decisions, Moves(pods=tuple([each.pod_id for each in decisions])))


def _protected_anew(before: NodeState, after: NodeState, pod_id: str) -> Decision | None:
    said = words.of_protection(before, after, pod_id)
    if said is None:
        return None
    because = "memory protection changed: the companion reported the pod's memory request"
    if supply.told_memory(after, pod_id) is None:
        because = "memory protection changed: the companion no longer reports the pod"
    return said._replace(reason=Reason.POD_FACTS, because=because)


class Node:
    """State, settings and capabilities, each an immutable value that any thread may read.

    told: whether the runtime has ever sent its list. Read it before `state`: the list is then in that state.
    can: the control files and calls that the kernel and the connected runtime take.
    memory_bytes: the machine's memory.
    """

    def __init__(self, state: NodeState, tuning: Tuning, memory_bytes: int) -> None:
        self.state = state
        self.tuning = tuning
        self.told = False
        self.can = NOTHING_KNOWN
        self.memory_bytes = memory_bytes
        self._mutex = Lock()

    def decide(self, event: Event) -> Outcome:
        """Run the policy on an event, replace the state and return the outcome."""
        with self._mutex:
            return self._adopted(event, step(self.state, event, self.tuning))

    def decide_if(self, event: Event, counts: Callable[[Outcome], bool]) -> Outcome | None:
        """Do the same if the outcome counts; return None, and leave the state as it is, if it does not.

        counts: called under the mutex.
        """
        with self._mutex:
            outcome = step(self.state, event, self.tuning)
            return self._adopted(event, outcome) if counts(outcome) else None

    def _adopted(self, event: Event, outcome: Outcome) -> Outcome:
        self.state = outcome.state
        self.told = self.told or isinstance(event, Synchronized)
        return outcome

    def retune(self, event: Event, tuning: Tuning) -> Outcome:
        """Replace the tuning and apply the event that informs the policy, as one change; return the outcome."""
        with self._mutex:
            outcome = step(self.state, event, tuning)
            self.state, self.tuning = outcome.state, tuning
            return outcome

    def lacking(self, wanted: Knobs) -> Knobs:
        """Return the values among `wanted` that this machine does not take."""
        return knobs.lacking(wanted, self.can)

    def learn(self, can: Capability, instead_of: Capability | None = None) -> None:
        """Replace the known capabilities.

        instead_of: replace them only if these are still the known ones. A thread that read files for a while must not
            overwrite the capabilities of a new connection.
        """
        with self._mutex:
            if instead_of is None or self.can is instead_of:
                self.can = can
