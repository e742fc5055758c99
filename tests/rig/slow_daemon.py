"""The real daemon with decisions that are slow on purpose, for a pod with the annotation SLOW or SLOW_UPDATE.

A decision waits for the seconds in the annotation. If the annotation is a path, it waits until that file exists. So a
test can let an event happen before a decision, however slow the machine is.

Run instead of `python -m nri_coloc`, with the same arguments. Only the creation of such a pod's containers, or an
update of them that can still be answered, is slow; everything else is the product, untouched.
"""

import os
import sys
from pathlib import Path
from threading import Event
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.decisions import ContainerCreating, ContainerUpdating, Outcome
from nri_coloc.core.decisions import Event as Happening
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import KnownKeys
from nri_coloc.hooks import translation
from nri_coloc.placing import node as brain
from tests.rig.patient_daemon import be_patient

SLOW: Final = "rig.test/slow"
SLOW_UPDATE: Final = "rig.test/slow-update"
LOOK_AGAIN_S: Final = 0.02
_quick: Final = brain.step
_known: Final = translation._known_keys


def step(state: NodeState, event: Happening, tuning: Tuning) -> Outcome:
    """Return the product's outcome after the delay of the pod's annotation."""
    if isinstance(event, ContainerCreating) and SLOW in event.pod.annotations:
        think(event.pod.annotations[SLOW])
    if isinstance(event, ContainerUpdating) and event.answered and SLOW_UPDATE in event.pod.annotations:
        think(event.pod.annotations[SLOW_UPDATE])
    return _quick(state, event, tuning)


def known_keys(tuning: Tuning) -> KnownKeys:
    """Return the product's own names, and the annotations of this program."""
    return _known(tuning).with_also(KnownKeys(frozenset({SLOW, SLOW_UPDATE})))


def think(until: str) -> None:
    """Wait for this number of seconds, or for a file."""
    if not until.startswith("/"):
        Event().wait(float(until))
        return
    while not Path(until).exists():
        Event().wait(LOOK_AGAIN_S)


if __name__ == "__main__":
    be_patient()
    brain.step = step
    translation._known_keys = known_keys
    sys.exit(main.main(sys.argv[1:], os.environ))
