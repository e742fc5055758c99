"""The real daemon with a brain that is slow on purpose, for a pod that carries the annotation SLOW or SLOW_UPDATE.

It thinks for so many seconds, or, where the annotation is a path, until there is such a file: what is to happen before
a decision happens before it then, however long it takes on a machine that stands still.

Run instead of `python -m nri_coloc`, with the same arguments. Only the creation of such a pod's containers, or an
update of them that can still be answered, takes long; everything else is the product, untouched.
"""

import os
import sys
from pathlib import Path
from threading import Event
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.events import ContainerCreating, ContainerUpdating
from nri_coloc.core.events import Event as Happening
from nri_coloc.core.metadata import KnownKeys
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.daemon import translation
from nri_coloc.placing import step as brain
from tests.rig.patient_daemon import be_patient

SLOW: Final = "rig.test/slow"
SLOW_UPDATE: Final = "rig.test/slow-update"
LOOK_AGAIN_S: Final = 0.02
_quick: Final = brain.step
_known: Final = translation._known_keys


def step(state: NodeState, event: Happening, tuning: Tuning) -> Outcome:
    """Think as long as the pod's annotation says, then do what the product does."""
    if isinstance(event, ContainerCreating) and SLOW in event.pod.annotations:
        think(event.pod.annotations[SLOW])
    if isinstance(event, ContainerUpdating) and event.answered and SLOW_UPDATE in event.pod.annotations:
        think(event.pod.annotations[SLOW_UPDATE])
    return _quick(state, event, tuning)


def known_keys(tuning: Tuning) -> KnownKeys:
    """Return the product's own names, and the annotations of this program."""
    return _known(tuning).with_also(KnownKeys(frozenset({SLOW, SLOW_UPDATE})))


def think(until: str) -> None:
    """Wait for so many seconds, or for a file."""
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
