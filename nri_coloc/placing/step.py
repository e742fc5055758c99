"""Decide the outcome of each event: `step(state, event, tuning) -> Outcome`, total, deterministic, without I/O.

An event is a cause ("a container is being created"). The outcome has the next state, the decisions to record and the
moves to apply. Nothing here waits, reads a clock or fails: a request that cannot be met is an outcome too.
"""

from typing import assert_never

from nri_coloc.core.decisions import (
    AmountsGranted,
    ContainerCreated,
    ContainerCreating,
    ContainerGone,
    ContainerStarting,
    ContainerUpdating,
    CPUsFreed,
    Event,
    FactsReported,
    Outcome,
    PodRemoved,
    PodResized,
    PodStarted,
    PoolsSized,
    Reconfigured,
    Synchronized,
)
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.placing import (
    lifecycle,
    loans,
    ownership,
    reported_facts,
    resynchronisation,
    sizing,
    starts,
    update,
    waiting,
)

_OfContainer = ContainerCreating | ContainerStarting | ContainerUpdating


def step(state: NodeState, event: Event, tuning: Tuning) -> Outcome:
    """Return the outcome of an event; the same state and event give the same outcome."""
    if isinstance(event, _OfContainer):
        outcome = _with_request(state, event, tuning)
    else:
        outcome = _answered(state, event, tuning)
    return sizing.followed(state, event, outcome) if state.pools.plan else outcome


def _with_request(state: NodeState, event: _OfContainer, tuning: Tuning) -> Outcome:
    """Return the outcome of a container's event, after a resize of its pod if the event has a new CPU request of it."""
    place = state.pods.get(event.pod.id)
    if place is None or place.pod.cpu_request == event.pod.cpu_request:
        return _answered(state, event, tuning)
    judged = event.judged if isinstance(event, ContainerUpdating) else {}
    others = {k: wish for k, wish in judged.items() if k != event.container.id}
    resized = ownership.pod_resized(state, PodResized(event.pod, others), tuning)
    return resized + _answered(resized.state, event, tuning)


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
            return sizing.sized(state, event)
        case AmountsGranted():
            return loans.granted(state, event)
        case FactsReported():
            return reported_facts.reported(state, event)
        case CPUsFreed():
            return waiting.placed_again(state, tuning)
        case _:
            assert_never(event)
