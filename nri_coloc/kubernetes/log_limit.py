"""Limit log lines that another program causes, so that it cannot fill the log."""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from nri_coloc.core.texts import PlainLog
from nri_coloc.core.token_bucket import Bucket, Rate, take

ORDERS: Final = Rate(burst=16, every_s=1.0)
"""Lines about the orders of one node: at once one for each open order (`eviction.MOST_ORDERS`)."""


class _Lines(NamedTuple):
    """The lines about one subject.

    logged: lines that were logged.
    left_out: lines left out since the last one that was logged.
    """

    logged: Bucket = Bucket()
    left_out: int = 0


class LogLimit:
    """A rate of log lines for each subject, such as a node. One thread calls it, with the time as an argument."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lines: dict[str, _Lines] = {}

    @property
    def subjects(self) -> int:
        """Return the number of subjects that are remembered."""
        return len(self._lines)

    def left_out(self, subject: str, now_s: float) -> int | None:
        """Return the lines left out since the last one; None if the new line must be left out too."""
        self._forget(now_s)
        lines = self._lines.get(subject, _Lines())
        logged = take(lines.logged, self._rate, now_s)
        if logged is None:
            self._lines[subject] = lines._replace(left_out=lines.left_out + 1)
            return None
        self._lines[subject] = _Lines(logged)
        return lines.left_out

    def _forget(self, now_s: float) -> None:
        """Forget subjects whose lines no longer count."""
        for subject, lines in tuple(self._lines.items()):
            if not (lines.left_out or lines.logged.at(now_s, self._rate).used):
                del self._lines[subject]


class BoundedLog:
    """A log with a rate, for one thread. Each line says how many were omitted before it."""

    def __init__(self, log: PlainLog, rate: Rate) -> None:
        self._log = log
        self._limit = LogLimit(rate)

    def info(self, event: str, **fields: Any) -> None:
        """Log a line if the bound allows it."""
        self._write(self._log.info, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a warning if the bound allows it."""
        self._write(self._log.warning, event, fields)

    def _write(self, write: Callable[..., Any], event: str, fields: dict[str, Any]) -> None:
        omitted = self._limit.left_out("", time.monotonic())
        if omitted is not None:
            write(event, **fields, **({"omittedLines": omitted} if omitted else {}))
