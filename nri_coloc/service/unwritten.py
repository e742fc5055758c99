"""Record values that are in force nowhere: the kernel refused them lately, or this machine has no file for them.

They are the detail of a readiness check. Each is also a record `write.failed` and a metric. Time is an argument.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from nri_coloc.core.texts import counted

REMEMBERED_S: Final = 600.0
"""Seconds for which a refusal counts after its last occurrence."""

KEPT: Final = 4096
"""The most refused files that are remembered; beyond it the oldest are forgotten."""

NAMED: Final = 3
"""The most refusals that a sentence names."""


class Unwritten:
    """Values that are in force nowhere. Any thread may call, because known facts are replaced and never changed in
    place.
    """

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, float]] = {}
        self._absent: Counter[str] = Counter()

    def refused(self, path: str, reason: str, now: float) -> bool:
        """Note a refused file; return whether the file or its reason is new."""
        known = self._refused.get(path)
        kept = {k: each for k, each in self._refused.items() if k != path}
        while len(kept) >= KEPT:
            del kept[next(iter(kept))]
        self._refused = {**kept, path: (reason, now)}
        return known is None or known[0] != reason

    def absent(self, names: Iterable[str]) -> None:
        """Note values without a file on this machine, by their names in the audit."""
        self._absent = self._absent + Counter([*names])

    def words(self, now: float) -> str:
        """Return a sentence on values that are in force nowhere, "" for none."""
        lately = [f"{k}: {reason}" for k, (reason, at) in self._refused.items() if now - at < REMEMBERED_S]
        more = f" and {len(lately) - NAMED} more" if len(lately) > NAMED else ""
        refused = f"refused lately: {', '.join(lately[-NAMED:])}{more}" if lately else ""
        absences = ", ".join(f"{k} ({counted(count, 'time')})" for k, count in sorted(self._absent.items()))
        absent = f"values without a file on this machine: {absences}" if absences else ""
        return "; ".join(filter(None, (refused, absent)))
