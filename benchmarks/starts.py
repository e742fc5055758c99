"""`start.*`: CPU time in which a StartContainer hook writes all that annotations can order, with the journal.

On a simulated machine with cgroup v1 and v2, after the decision: `….answered` for a container whose creation was
answered, the other rows for one whose values are all written to files.
"""

import time
from pathlib import Path
from typing import Final

from benchmarks import figures, folders
from tests.unit.hooks.starting import Start

ROUNDS: Final = 100


def run() -> dict[str, figures.Figures]:
    """Return the figures of every row."""
    return {
        f"start.v{cgroup}{name}": figures.of([_took_ns(cgroup, answered=answered) for _ in range(ROUNDS)])
        for cgroup in (1, 2)
        for name, answered in (("", False), (".answered", True))
    }


def _took_ns(cgroup: int, *, answered: bool) -> int:
    with folders.planted() as folder:
        start = Start(Path(folder), cgroup)
        start.admit(answered=answered)
        began = time.thread_time_ns()
        start.write()
        return time.thread_time_ns() - began
