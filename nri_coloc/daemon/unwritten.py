"""Values that are in force nowhere: refused by the kernel lately, or wished for without a file for them here.

The detail of a readiness check; each is a record `write.failed` and a metric too. Time is an argument.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

REMEMBERED_S: Final = 600.0
"""How long a refusal counts after the last time that it happened."""

KEPT: Final = 4096
"""Refused files that are remembered; beyond it the oldest are forgotten."""

NAMED: Final = 3
"""How many refusals a sentence names."""


class Unwritten:
    """May be called from every thread: what is known is replaced, never changed in place."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, float]] = {}
        self._absent: Counter[str] = Counter()

    def refused(self, path: str, reason: str, now: float) -> bool:
        """Take note of a refused file; whether it is news: another file or another reason than before."""
        known = self._refused.get(path)
        kept = {k: each for k, each in self._refused.items() if k != path}
        while len(kept) >= KEPT:
            del kept[next(iter(kept))]
        self._refused = {**kept, path: (reason, now)}
        return known is None or known[0] != reason

    def absent(self, names: Iterable[str]) -> None:
        """Take note of values that no file takes here, by their names in the audit."""
        self._absent = self._absent + Counter([*names])

    def words(self, now: float) -> str:
        """Return what is in force nowhere, "" if nothing."""
        lately = [f"{k}: {reason}" for k, (reason, at) in self._refused.items() if now - at < REMEMBERED_S]
        more = f" and {len(lately) - NAMED} more" if len(lately) > NAMED else ""
        refused = f"refused lately: {', '.join(lately[-NAMED:])}{more}" if lately else ""
        counted = ", ".join(f"{name} ({count} times)" for name, count in sorted(self._absent.items()))
        absent = f"values without a file on this machine: {counted}" if counted else ""
        return "; ".join(filter(None, (refused, absent)))
