"""The daemon with short times: starved pods count after seconds, not minutes, and with less
than half a CPU. Its rules are the product's.

A decision about a container of a pod named `slow` comes too late for the runtime's call.
"""

import os
import sys
from threading import Event
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.decisions import ContainerCreating, Outcome
from nri_coloc.core.decisions import Event as Happening
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.forecast import node_snapshots
from nri_coloc.placing import node as brain
from nri_coloc.pressure import starvation

SHORT: Final = {"STARVED_S": 60.0, "SUPPRESSED_S": 4.0, "JITTER_S": 0.0, "LEAST_MILLI": 500}
"""A pod that is starved counts as that alone, and on a busy machine snapshots are half a minute apart, not 10 s."""

SLOW_POD: Final = "slow"
SLOW_S: Final = 8.0
"""The rig's runtime waits for 20 s, and the daemon answers without a decision after a quarter of that."""

_quick: Final = brain.step


def step(state: NodeState, event: Happening, tuning: Tuning) -> Outcome:
    """Return the product's outcome, late for a container of the slow pod."""
    if isinstance(event, ContainerCreating) and event.pod.name == SLOW_POD:
        Event().wait(SLOW_S)
    return _quick(state, event, tuning)


if __name__ == "__main__":
    brain.step = step
    setattr(node_snapshots, "EVERY_WHOLE", 1)  # noqa: B010 - only in this program
    for name, value in SHORT.items():
        setattr(starvation, name, value)
    sys.exit(main.main(["run", *sys.argv[1:]], os.environ))
