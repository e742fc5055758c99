"""The real daemon that kills itself, with no chance to tidy up, at one named step of its work.

Run instead of `python -m nri_coloc`, the step's name first. It dies in the work for a pod that carries the
annotation DOOMED and for no other; everything else is the product, untouched. SIGKILL to itself is what a kill
from outside is, at a moment that nobody outside could hit.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from nri_coloc.actuation.cgroups import Applied, CgroupWriter, Target
from nri_coloc.actuation.journal import Journal
from nri_coloc.cli import main
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.model import events
from nri_coloc.model.decisions import Moves, Outcome
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import step as brain

PROGRAM: Final = ("-m", "tests.rig.mortal_daemon")
DOOMED: Final = "rig.test/doomed"

OF_POD: Final = ("pod-deciding", "journalled")
OF_CREATION: Final = ("deciding", "decided", "answered", "moving")
OF_START: Final = ("starting", "departing")
LATER: Final = ("updating", "releasing")
STEPS: Final = (*OF_POD, *OF_CREATION, *OF_START, *LATER)
SYNCHRONISING: Final = "synchronising"

_quick: Final = brain.step


def die() -> NoReturn:
    """End at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


class Fate:
    """Knows for which pod's work it dies and at which step."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._containers: set[str] = set()
        self._armed = False
        self._moved = 0

    def decide(self, state: NodeState, event: events.Event, tuning: Tuning) -> Outcome:
        """In the place of `policy.step`: the last moment before a decision and the first after it."""
        doomed = self._concerns(event)
        match event:
            case events.PodStarted() if doomed:
                self._die_at("pod-deciding")
            case events.ContainerCreating() if doomed:
                self._die_at("deciding")
        outcome = _quick(state, event, tuning)
        if doomed:
            self._armed = True
            self._decided(event)
        return outcome

    def _decided(self, event: events.Event) -> None:
        match event:
            case events.ContainerCreating():
                self._die_at("decided")
            case events.ContainerStarting():
                self._die_at("starting")
            case events.ContainerUpdating():
                self._die_at("updating")
            case events.ContainerGone():
                self._die_at("releasing")
            case events.Synchronized():
                self._die_at(SYNCHRONISING)

    def _concerns(self, event: events.Event) -> bool:
        match event:
            case events.PodStarted(pod=pod):
                return DOOMED in pod.annotations
            case events.ContainerCreating(pod=pod, container=container):
                if DOOMED in pod.annotations:
                    self._containers.add(container.id)
                return DOOMED in pod.annotations
            case events.ContainerStarting(pod=pod) | events.ContainerUpdating(pod=pod):
                return DOOMED in pod.annotations
            case events.ContainerGone(container_id=container_id):
                return container_id in self._containers
            case events.Synchronized(pods=pods):
                return any(DOOMED in pod.annotations for pod, _ in pods)
        return False

    def _die_at(self, step: str) -> None:
        if self._step == step:
            die()

    # ---- after the decision ----

    def submit(self, actuator: Actuator, moves: Moves, owner: str = "", *others: Any, **named: Any) -> None:
        """In the place of `Actuator.submit`: the answer has left, no file is written yet."""
        if self._armed and owner in self._containers:
            self._die_at("answered")
        _submit(actuator, moves, owner, *others, **named)

    def apply(self, writer: CgroupWriter, target: Target) -> Applied:
        """In the place of `CgroupWriter.apply`: between one cgroup and the next."""
        if self._armed and self._containers:
            self._moved += 1
            if self._moved > 1:
                self._die_at("moving")
        return _apply(writer, target)

    def note(self, journal: Journal, file: str, original: str) -> None:
        """In the place of `Journal.note`: the journal is written, the value is not."""
        _note(journal, file, original)
        if self._armed:
            self._die_at("journalled")

    def depart(self, actuator: Actuator, owner: str, seconds: float) -> Any:
        """In the place of `Actuator.await_departure`: a start waits for its CPUs."""
        if owner in self._containers:
            self._die_at("departing")
        return _depart(actuator, owner, seconds)


_submit: Final[Callable[..., None]] = Actuator.submit
_depart: Final[Callable[..., Any]] = Actuator.await_departure
_apply: Final[Callable[..., Applied]] = CgroupWriter.apply
_note: Final[Callable[..., None]] = Journal.note


def _weave(fate: Fate) -> None:
    """Put the steps into the product's own classes, which is what this program is for."""
    brain.step = fate.decide
    for owner, name, step in (
        (Actuator, "submit", fate.submit),
        (Actuator, "await_departure", fate.depart),
        (CgroupWriter, "apply", fate.apply),
        (Journal, "note", fate.note),
    ):
        setattr(owner, name, _as_method(step))


def _as_method(step: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return step(self, *arguments, **named)

    return method


if __name__ == "__main__":
    _weave(Fate(sys.argv[1]))
    sys.exit(main.main(sys.argv[2:], os.environ))
