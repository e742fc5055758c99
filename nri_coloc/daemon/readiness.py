"""The checks of `/readyz`: an open map of name → {ok, detail}. A check that is required and fails makes it 503.

The registry is complete when it is constructed: each check is a name and a function that looks when it is asked.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.daemon.actuator import LONGEST_SWEEP_S
from nri_coloc.daemon.comparison import Comparison
from nri_coloc.daemon.neighbours import Neighbours
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.unwritten import Unwritten

FAST_WITHIN_S: Final = 5.0
"""Ten of the fast loop's slowest periods."""

SLOW_WITHIN_S: Final = 60.0
"""Two of the slow loop's longest; older pictures take the box's memory to its floor (`reclaim.memory_stale_s`)."""

SWEPT_WITHIN_S: Final = 2 * LONGEST_SWEEP_S

Sentence = Callable[[], str]
"""Returns a sentence for the operator, "" where there is nothing to say."""


class Finding(NamedTuple):
    """`detail`: a sentence for the operator; of a check that is not ok it says how to mend it."""

    ok: bool
    detail: str = ""


class Check(NamedTuple):
    """`required`: while it is not ok the daemon is not ready."""

    name: str
    look: Callable[[], Finding]
    required: bool = False


class Reading(NamedTuple):
    """A reading that is repeated: its name, when it was last taken, and its greatest age, seconds."""

    name: str
    at: Callable[[], float]
    within_s: float


class Readiness:
    """Looks when it is asked; `checks` are shown in this order."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)

    def checks(self) -> dict[str, Any]:
        """Return the body of `/readyz`."""
        found = [(check, check.look()) for check in self._checks]
        return {
            "ready": all(finding.ok for check, finding in found if check.required),
            "checks": {check.name: finding._asdict() for check, finding in found},
        }


class Connection(Protocol):
    """The connection to the runtime.

    connected: whether the runtime has registered this plugin.
    obstacle: why the daemon does not connect yet, a sentence; "" if nothing keeps it from that.
    """

    @property
    def connected(self) -> bool: ...

    @property
    def obstacle(self) -> str: ...


def connected(runtime: Connection) -> Finding:
    """Return whether the runtime has registered this plugin."""
    if runtime.connected:
        return Finding(ok=True)
    return Finding(ok=False, detail=runtime.obstacle or "no connection to the runtime")


def synchronised(comparison: Comparison) -> Finding:
    """Say whether the runtime's list was compared with CRI's and nothing was missing."""
    if comparison.complete:
        return Finding(ok=True)
    return Finding(ok=False, detail=comparison.detail or "waiting for the comparison with CRI")


def fresh(readings: Iterable[Reading], swept: Reading, node: Node, now: Callable[[], float]) -> Finding:
    """Say which readings are stale; an observer does not sweep."""
    stale = [
        f"{reading.name} {now() - reading.at():.0f} s ago" if reading.at() else f"{reading.name}: not yet"
        for reading in (*readings, *(() if node.tuning.observe else (swept,)))
        if now() - reading.at() > reading.within_s
    ]
    return Finding(ok=not stale, detail="; ".join(stale))


def config(problem: Sentence, remarks: Sequence[Sentence]) -> Finding:
    """Say what is wrong with the configuration; without a problem the detail is the remarks.

    `remarks`: facts of this machine that leave a setting without effect and do not keep the daemon from being ready.
    """
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong or "; ".join(filter(None, (remark() for remark in remarks))))


def cgroups(problem: Sentence, remark: Sentence) -> Finding:
    """Say whether there is a place for pods' CPUs; the detail of a place that lacks some is the remark."""
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong or remark())


def without(problem: Sentence) -> Finding:
    """Say that all is well unless there is a problem."""
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong)


def writes(known: Unwritten, now: Callable[[], float]) -> Finding:
    """Say which values are in force nowhere."""
    return without(lambda: known.words(now()))


def neighbours(known: Neighbours, driver: Sentence, now: Callable[[], float]) -> Finding:
    """Say which cgroups another writer keeps changing; `driver`: which other plugin names CPUs."""
    return without(lambda: "; ".join(filter(None, (known.words(now()), driver()))))
