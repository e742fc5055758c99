"""Follow the schedule and the operator's switch, lay the lent part over the settings, and report each change of state.

Only the wall clock decides, so a clock that is set forward or back takes effect at the next look. A result is kept
until its next change or an operator's order, but not after the wall clock was set and for a minute at most: 32 windows
cost 10 ms.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import ScheduleTuning, Tuning
from nri_coloc.schedule.lending import Cause, Lending, at
from nri_coloc.schedule.switch import Switch
from nri_coloc.service.audit import timestamp
from nri_coloc.service.lending_switch import LendingSwitch
from nri_coloc.service.report import Report

KEPT_S: Final = 60.0


class LendingClock:
    """`look` belongs to the main thread; `lending` may be read from any.

    lending: how much is lent since the last look.
    wall: returns seconds since 1970.
    """

    def __init__(self, schedule: ScheduleTuning, wall: Callable[[], float], switch: LendingSwitch) -> None:
        self._wall = wall
        self._switch = switch
        self._known_for = (schedule, switch.now())
        self._known_s = wall()
        self.lending = at(schedule, self._known_s, self._known_for[1])
        self._measured: Lending | None = None
        self._recorded = at(ScheduleTuning(), self._known_s)

    @property
    def switch(self) -> Switch:
        """Return the last order of an operator, with seconds since 1970."""
        return self._known_for[1]

    def look(self, schedule: ScheduleTuning, report: Report) -> bool:
        """Read the clock; return whether the lent part or the offer changed. A change of state is recorded."""
        before, now_s = self.lending, self._wall()
        known_for = schedule, self._switch.now()
        if not self._still_holds(known_for, now_s):
            self.lending = at(schedule, now_s, known_for[1])
            self._known_for, self._known_s = known_for, now_s
        now = self.lending
        if now is not self._measured:
            self._measured = now
            report.metrics.lending(now.factor, is_off=self.switch.off)
        if _shows(now) != _shows(self._recorded):
            _record(self._recorded, now, known_for, report)
            self._recorded = now
        return (now.factor, now.offer) != (before.factor, before.offer)

    def _still_holds(self, known_for: tuple[ScheduleTuning, Switch], now_s: float) -> bool:
        until_s = self._known_s + KEPT_S
        if self.lending.until_s is not None:
            until_s = min(until_s, self.lending.until_s)
        is_known = known_for[0] is self._known_for[0] and known_for[1] == self._known_for[1]
        return is_known and self._known_s <= now_s < until_s

    def offer_at(self, at_s: float) -> float:
        """Return the part of the headroom that new pods are offered at a time, 0 to 1, if no order follows."""
        return at(self._known_for[0], at_s, self._switch.now()).offer

    def over(self, tuning: Tuning) -> Tuning:
        """Lay the lent part over the settings."""
        factor, offer = self.lending.factor, self.lending.offer
        if factor == offer == 1.0:
            return tuning
        return replace(tuning, reclaim=replace(tuning.reclaim, lend=factor, offer=offer))


def shown(lending: Lending, switch: Switch) -> dict[str, Any]:
    """Return the value of `lending` in `/v1/state`."""
    return {
        "state": lending.state.value,
        "factor": lending.factor,
        "until": _until(lending),
        "reason": lending.reason.value,
        "because": lending.because,
        "switch": position(switch),
        "drains": lending.drains,
    }


def position(switch: Switch) -> str:
    """Return the position of the switch: on, off or drain."""
    if not switch.off:
        return "on"
    return "drain" if switch.drain else "off"


def _shows(lending: Lending) -> tuple[object, ...]:
    """Return the parts of which each change is recorded."""
    return lending.state, lending.factor, lending.drains, lending.reason is Cause.OPERATOR


def _until(lending: Lending) -> str | None:
    return None if lending.until_s is None else timestamp(round(lending.until_s * 1e9))


def _record(before: Lending, now: Lending, known_for: tuple[ScheduleTuning, Switch], report: Report) -> None:
    schedule, switch = known_for
    is_ordered = Cause.OPERATOR in (before.reason, now.reason)
    inputs = {
        "state": now.state.value,
        "state_before": before.state.value,
        "lend": now.factor,
        "factor": now.factor,
        "factor_before": before.factor,
        "offer": now.offer,
        "until": _until(now),
        "cause": now.reason.value,
        "switch": position(switch),
        "switch_grace_s": switch.grace_s,
        "windows": len(schedule.windows),
        "outside": schedule.outside,
        "grace_s": schedule.grace_s,
    }
    reason = Reason.OPERATOR if is_ordered else Reason.SCHEDULE
    report.said(AuditEvent.SCHEDULE_STATE, reason, f"{now.state}: {now.because}", extra={"inputs": inputs})
