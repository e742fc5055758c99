"""When the daemon may call itself ready, and what an operator reads when it is not."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from nri_coloc.daemon.actuator import LONGEST_SWEEP_S, Actuator
from nri_coloc.daemon.comparison import Comparison
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.trunk import Trunk

FAST_WITHIN_S: Final = 5.0
"""Ten of the fast loop's slowest periods."""

SLOW_WITHIN_S: Final = 60.0
"""Two of the slow loop's longest; older pictures take the box's memory to its floor (`reclaim.memory_stale_s`)."""


class Reading(NamedTuple):
    """Something that is to be read again and again: in words, when it last was, and how old it may be, seconds."""

    what: str
    at: Callable[[], float]
    within_s: float


class Readiness:
    """Words the checks of `/readyz`; whoever has a problem writes it here, "" once it is mended.

    `of_the_machine`, `of_the_admin_socket`: what an operator should know of them although it keeps nothing from being
    ready; it is the detail of a good configuration, some of whose wishes the machine may leave without effect.
    """

    def __init__(self, node: Node, trunk: Trunk, actuator: Actuator, comparison: Comparison) -> None:
        self.config_problem = ""
        self.kubelet_problem = ""
        self.waiting_for = ""
        self.readings: tuple[Reading, ...] = ()
        self.of_the_machine: Callable[[], str] = lambda: ""
        self.of_the_admin_socket: Callable[[], str] = lambda: ""
        self._node = node
        self._trunk = trunk
        self._actuator = actuator
        self._comparison = comparison

    def wait_for(self, words: str) -> None:
        """Know what keeps us from the runtime, "" once nothing does."""
        self.waiting_for = words

    def checks(self) -> dict[str, Any]:
        """Return the body of `/readyz`."""
        detail = self._comparison.detail
        stale = "; ".join(self._stale(time.monotonic()))
        problem = "; ".join(filter(None, (self.config_problem, self.kubelet_problem)))
        checks = {
            "connected": _check(self._trunk.connected, self.waiting_for or "no connection to the runtime"),
            "synchronised": _check(
                self._comparison.complete, detail or "waiting for the comparison with CRI"
            ),
            "readings": _check(not stale, stale),
            "config": {"ok": not problem, "detail": problem or self._remarks()},
        }
        return {"ready": all(c["ok"] for c in checks.values()), "checks": checks}

    def _remarks(self) -> str:
        """Return what keeps nothing from being ready and should be known all the same."""
        return "; ".join(filter(None, (self.of_the_machine(), self.of_the_admin_socket())))

    def _stale(self, now: float) -> Iterator[str]:
        swept = Reading("cgroups were last read", lambda: self._actuator.swept_at, 2 * LONGEST_SWEEP_S)
        observing = self._node.tuning.observe
        for reading in (*self.readings, *(() if observing else (swept,))):
            age = now - reading.at()
            if age > reading.within_s:
                yield f"{reading.what} {age:.0f} s ago" if reading.at() else f"{reading.what}: not yet"


def _check(ok: bool, otherwise: str) -> dict[str, Any]:  # noqa: FBT001 - the check's own result
    return {"ok": ok, "detail": "" if ok else otherwise}
