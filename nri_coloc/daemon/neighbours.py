"""Other writers of our values: which cgroups were repaired so often that repairs of them pause.

A single repair is no rival: the kubelet and systemd write their own values again at times. Time is an argument.
"""

from typing import Final

from nri_coloc.daemon.drift import REPAIRS_PER_MINUTE, Drift

REMEMBERED_S: Final = 600.0
"""How long a rival counts as there after the last pause of repairs."""

NAMED: Final = 3
"""How many cgroups a sentence names."""

KEPT: Final = 64
"""How many cgroups are remembered; beyond it the oldest are forgotten."""


class Neighbours:
    """`repaired` is called by the threads that write, `words` by those that answer."""

    def __init__(self) -> None:
        self._contested: dict[str, float] = {}

    def repaired(self, name: str, drift: Drift, now: float) -> None:
        """Take note of a repair; `name` is the cgroup's for people."""
        if drift.times < REPAIRS_PER_MINUTE:
            return
        contested = {k: at for k, at in self._contested.items() if k != name}
        while len(contested) >= KEPT:
            contested.pop(next(iter(contested)))
        self._contested = {**contested, name: now}

    def words(self, now: float) -> str:
        """Return which cgroups are contested, "" if none."""
        names = [k for k, at in self._contested.items() if now - at < REMEMBERED_S]
        if not names:
            return ""
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return (
            f"another writer keeps changing our values of {', '.join(names[-NAMED:])}{more} "
            f"({REPAIRS_PER_MINUTE} repairs in 60 s); see drift.repair in the audit, and stop that writer"
        )
