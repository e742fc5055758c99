"""Check readiness for `/readyz`: an open map of name → {ok, detail}. If a required check fails, the answer is 503.

The registry is complete when it is made: each check is a name and a function that is called at each request.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import LONGEST_SWEEP_S
from nri_coloc.repair.neighbours import Neighbours
from nri_coloc.runtime.comparison import Comparison
from nri_coloc.service.unwritten import Unwritten

FAST_WITHIN_S: Final = 5.0
"""Seconds: ten of the fast loop's slowest periods."""

SLOW_WITHIN_S: Final = 60.0
"""Seconds: two of the slow loop's longest periods. With older snapshots the memory of the reclaim cgroups goes to its
floor (`reclaim.memory_stale_s`)."""

SWEPT_WITHIN_S: Final = 2 * LONGEST_SWEEP_S

Sentence = Callable[[], str]
"""Returns a sentence for the operator, "" for none."""


class Finding(NamedTuple):
    """The result of a check.

    ok: whether it passed.
    detail: a sentence for the operator; if the check failed it also says how to repair that.
    """

    ok: bool
    detail: str = ""


class Check(NamedTuple):
    """A check.

    look: runs it.
    required: while it fails the daemon is not ready.
    """

    name: str
    look: Callable[[], Finding]
    required: bool = False


class Reading(NamedTuple):
    """A reading that a loop takes again and again. It is stale beyond its greatest age, and a check then fails.

    name: its name in the check's sentence.
    at: returns when the reading was last taken, monotonic seconds; 0 for never.
    within_s: its greatest age, seconds.
    """

    name: str
    at: Callable[[], float]
    within_s: float


class Readiness:
    """Runs the checks at each request, and shows them in their order."""

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
    """Return whether the runtime's list was compared with CRI's and nothing was missing."""
    if comparison.complete:
        return Finding(ok=True)
    return Finding(ok=False, detail=comparison.detail or "waiting for the comparison with CRI")


def fresh(readings: Iterable[Reading], swept: Reading, node: Node, now: Callable[[], float]) -> Finding:
    """Return which readings are stale; an observer does not sweep."""
    stale = [
        f"{reading.name} {now() - reading.at():.0f} s ago" if reading.at() else f"{reading.name}: not yet"
        for reading in (*readings, *(() if node.tuning.observe else (swept,)))
        if now() - reading.at() > reading.within_s
    ]
    return Finding(ok=not stale, detail="; ".join(stale))


def config(problem: Sentence, remarks: Sequence[Sentence]) -> Finding:
    """Return the configuration's problem; without a problem the detail is the remarks.

    remarks: facts of this machine that leave a setting without effect and do not affect readiness.
    """
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong or "; ".join(filter(None, (remark() for remark in remarks))))


def cgroups(problem: Sentence, remark: Sentence) -> Finding:
    """Return whether pods' CPUs can be set; if they can, the detail is the remark."""
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong or remark())


def without(problem: Sentence) -> Finding:
    """Return a passed check unless there is a problem."""
    wrong = problem()
    return Finding(ok=not wrong, detail=wrong)


def writes(known: Unwritten, now: Callable[[], float]) -> Finding:
    """Return which values are in force nowhere."""
    return without(lambda: known.words(now()))


def neighbours(known: Neighbours, driver: Sentence, now: Callable[[], float]) -> Finding:
    """Return which cgroups another writer keeps changing.

    driver: returns advice about another plugin that names CPUs.
    """
    return without(lambda: "; ".join(filter(None, (known.words(now()), driver()))))
