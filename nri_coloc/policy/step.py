"""The whole placement brain: `step(state, event, tuning) -> Outcome`, total, deterministic, without I/O.

An event is a cause ("a container is being created"), the outcome is the next state and what to say and do
about it. Nothing here waits, reads a clock or fails: what cannot be done is an outcome too.
"""

from typing import assert_never

from nri_coloc.model.decisions import Outcome
from nri_coloc.model.events import (
    AmountsGranted,
    ContainerCreating,
    ContainerGone,
    ContainerStarting,
    ContainerUpdating,
    CPUsFreed,
    Event,
    PodRemoved,
    PodStarted,
    PoolsSized,
    Reconfigured,
    Synchronized,
)
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import lifecycle, loans, ownership, resync, sizing, update, waiting


def step(state: NodeState, event: Event, tuning: Tuning) -> Outcome:
    """Return what follows from an event; the same state and event give the same outcome."""
    outcome = _answered(state, event, tuning)
    return sizing.followed(state, event, outcome) if state.pools.plan else outcome


def _answered(state: NodeState, event: Event, tuning: Tuning) -> Outcome:  # noqa: C901 - one case an event
    match event:
        case ContainerCreating():
            return lifecycle.create(state, event, tuning)
        case ContainerStarting():
            return ownership.start(state, event, tuning)
        case ContainerUpdating():
            return update.update(state, event, tuning)
        case ContainerGone():
            return lifecycle.gone(state, event)
        case PodStarted():
            return lifecycle.pod_started(state, event)
        case PodRemoved():
            return lifecycle.pod_removed(state, event)
        case Synchronized():
            return resync.synchronize(state, event, tuning)
        case Reconfigured():
            return resync.reconfigure(state, event, tuning)
        case PoolsSized():
            return sizing.sized(state, event)
        case AmountsGranted():
            return loans.granted(state, event)
        case CPUsFreed():
            return waiting.placed_again(state, tuning)
        case _:
            assert_never(event)
