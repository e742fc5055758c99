"""Orders of an operator that change the settings in force: pause, switch and reload. For the main thread.

Each takes effect before it returns: the settings with pause and switch over them are put in force again, and both loops
look at once.
"""

import time
from collections.abc import Iterable
from typing import Protocol

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.placing.node import Node
from nri_coloc.schedule.switch import switched_off, switched_on
from nri_coloc.service.audit import timestamp
from nri_coloc.service.drain import Drain
from nri_coloc.service.lending_switch import LendingSwitch
from nri_coloc.service.orders import LendingBegins, LendingEnds, OrderDeclined, RunningPod
from nri_coloc.service.report import Report
from nri_coloc.service.steering import Steering


class Loop(Protocol):
    """A loop that follows the settings."""

    def look_now(self) -> None: ...


class SettingsOrders:
    """All methods but `keep` are for the main thread. `loops`: they take a turn after each change."""

    def __init__(
        self,
        node: Node,
        report: Report,
        steering: Steering,
        *,
        loops: Iterable[Loop],
        switch: LendingSwitch,
        drain: Drain,
    ) -> None:
        self._node = node
        self._report = report
        self._steering = steering
        self._loops = tuple(loops)
        self._switch = switch
        self._drain = drain

    def look(self, now: float) -> None:
        """End a pause whose time is over."""
        if self._steering.pause.is_over(now):
            self._go_on()
            self._report.said(AuditEvent.RECLAIM_RESUME, Reason.EXPIRED, "lending resumed: the pause is over")

    def reload(self) -> str:
        """Read the configuration file again; return its problem, "" if it is in force."""
        return self._steering.reload()

    def keep(self) -> str:
        """Store the switch; return why that failed, "" if it is stored. Any thread may call."""
        return self._switch.keep()

    def pause(self, seconds: int, reason: str) -> str:
        """Pause lending for some seconds; return the end of the pause in RFC 3339."""
        if not self._node.tuning.reclaim.enabled:
            raise OrderDeclined("lending is switched off in the configuration: there is nothing to pause")
        pause = self._steering.pause
        until = pause.begin(time.monotonic(), time.time_ns(), seconds, reason)
        self._take_effect()
        because = f"lending paused: {pause.words}; the reclaim pool shrinks to its floor, nothing is offered"
        self._report.said(AuditEvent.RECLAIM_PAUSE, Reason.OPERATOR, because)
        return until

    def resume(self) -> bool:
        """End a pause; return whether there was one."""
        words = self._steering.pause.words
        if not words:
            return False
        self._go_on()
        self._report.said(
            AuditEvent.RECLAIM_RESUME, Reason.OPERATOR, f"lending resumed before its time: {words}"
        )
        return True

    def switch_off(self, grace_s: int | None, *, drain: bool) -> LendingEnds:
        """Switch lending off; return the result without the cgroups outside Kubernetes."""
        default_s = self._steering.grace_s if drain else 0.0
        wait_s = default_s if grace_s is None else float(grace_s)
        self._switch.put(lambda before, now_s: switched_off(before, now_s, wait_s, drain=drain))
        self._take_effect()
        lending = self._steering.lending
        until = "" if lending.until_s is None else timestamp(round(lending.until_s * 1e9))
        now_s = time.monotonic()
        self._drain.look(lending, now_s)
        running = self._drain.running(lending, now_s)
        if not self._node.told:
            running = (*running, RunningPod("unknown", "the runtime has not sent its list of pods yet"))
        return LendingEnds(lending.because, until, not_kept="", running=running, outside=())

    def switch_on(self) -> LendingBegins:
        """Undo `switch_off`."""
        was_off = self._switch.held.off
        self._switch.put(switched_on)
        self._take_effect()
        return LendingBegins(was_off, self._steering.lending.because, "")

    def _go_on(self) -> None:
        self._steering.pause.end()
        self._take_effect()

    def _take_effect(self) -> None:
        self._steering.repeat()
        for loop in self._loops:
            loop.look_now()
        self._report.metrics.paused(now=bool(self._steering.pause.words))
