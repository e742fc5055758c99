"""Follow the schedule: read the clock, lay the lent part over the settings, and report each change of state.

Only the wall clock decides, so a clock that is set forward or back takes effect at the next look. A result is kept
until its next change, but not before its own time and for a minute at most: 32 windows cost 10 ms.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import ScheduleTuning, Tuning
from nri_coloc.daemon.report import Report
from nri_coloc.schedule import Cause, Lending, at
from nri_coloc.service.audit import timestamp

KEPT_S: Final = 60.0


class LendingClock:
    """`look` belongs to the main thread; `lending` may be read from any.

    lending: how much is lent since the last look.
    wall: returns seconds since 1970.
    """

    def __init__(self, schedule: ScheduleTuning, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._known_for = schedule
        self._known_s = wall()
        self.lending = at(schedule, self._known_s)
        self._recorded = at(ScheduleTuning(), self._known_s)

    def look(self, schedule: ScheduleTuning, report: Report) -> bool:
        """Read the clock; return whether the lent part or the offer changed. A change of state is recorded."""
        before, now_s = self.lending, self._wall()
        if not self._still_holds(schedule, now_s):
            self.lending, self._known_for, self._known_s = at(schedule, now_s), schedule, now_s
        now = self.lending
        if (now.state, now.factor) != (self._recorded.state, self._recorded.factor):
            _record(self._recorded, now, schedule, report)
            self._recorded = now
        return (now.factor, now.offer) != (before.factor, before.offer)

    def _still_holds(self, schedule: ScheduleTuning, now_s: float) -> bool:
        until_s = self._known_s + KEPT_S
        if self.lending.until_s is not None:
            until_s = min(until_s, self.lending.until_s)
        return schedule is self._known_for and self._known_s <= now_s < until_s

    def over(self, tuning: Tuning) -> Tuning:
        """Lay the lent part over the settings."""
        factor, offer = self.lending.factor, self.lending.offer
        if factor == offer == 1.0:
            return tuning
        return replace(tuning, reclaim=replace(tuning.reclaim, lend=factor, offer=offer))


def shown(lending: Lending) -> dict[str, Any]:
    """Return the value of `lending` in `/v1/state`."""
    return {
        "state": lending.state.value,
        "factor": lending.factor,
        "until": _until(lending),
        "reason": lending.reason.value,
        "because": lending.because,
    }


def _until(lending: Lending) -> str | None:
    return None if lending.until_s is None else timestamp(round(lending.until_s * 1e9))


def _record(before: Lending, now: Lending, schedule: ScheduleTuning, report: Report) -> None:
    reason = Reason.OPERATOR if now.reason is Cause.OPERATOR else Reason.SCHEDULE
    inputs = {
        "state": now.state.value,
        "state_before": before.state.value,
        "factor": now.factor,
        "factor_before": before.factor,
        "offer": now.offer,
        "until": _until(now),
        "cause": now.reason.value,
        "windows": len(schedule.windows),
        "outside": schedule.outside,
        "grace_s": schedule.grace_s,
    }
    because = f"{now.state}: {now.because}"
    report.said(AuditEvent.SCHEDULE_STATE, reason, because, extra={"inputs": inputs})
