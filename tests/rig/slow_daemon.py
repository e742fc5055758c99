"""The real daemon with a brain that is slow on purpose, for a pod that carries the annotation SLOW or SLOW_UPDATE.

Run instead of `python -m nri_coloc`, with the same arguments. Only the creation of such a pod's containers, or an
update of them that can still be answered, takes long; everything else is the product, untouched.
"""

import os
import sys
from threading import Event
from typing import Final

from nri_coloc.cli import main
from nri_coloc.model.decisions import Outcome
from nri_coloc.model.events import ContainerCreating, ContainerUpdating
from nri_coloc.model.events import Event as Happening
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import step as brain

SLOW: Final = "rig.test/slow-seconds"
SLOW_UPDATE: Final = "rig.test/slow-update-seconds"
_quick: Final = brain.step


def step(state: NodeState, event: Happening, tuning: Tuning) -> Outcome:
    """Think as long as the pod's annotation says, then do what the product does."""
    if isinstance(event, ContainerCreating) and SLOW in event.pod.annotations:
        Event().wait(float(event.pod.annotations[SLOW]))
    if isinstance(event, ContainerUpdating) and event.answered and SLOW_UPDATE in event.pod.annotations:
        Event().wait(float(event.pod.annotations[SLOW_UPDATE]))
    return _quick(state, event, tuning)


if __name__ == "__main__":
    brain.step = step
    sys.exit(main.main(sys.argv[1:], os.environ))
