"""Follow the operator's settings file, the schedule and the kubelet's CPU manager.

The housekeeping loop checks each of them. An invalid file changes nothing and is reported.
"""

import time
from dataclasses import dataclass
from typing import Final, Protocol

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.schedule.lending import Lending
from nri_coloc.service import logs
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.orders import OrderDeclined
from nri_coloc.service.remarks import remarks
from nri_coloc.service.report import Report
from nri_coloc.service.retuning import Pause, Retuning
from nri_coloc.service.settings_watch import Change, SettingsWatch

LIST_WITHIN_S: Final = 10.0
"""Seconds for which settings wait for the runtime's list. Without it they apply to running pods when it comes."""

UNREAD: Final = "; running pods lack the labels and annotations that the file newly names"
"""For a daemon that the runtime launched: it cannot get the list again."""


class Runtime(Protocol):
    """The connection to the runtime.

    synchronized_at: when the runtime last sent its list, monotonic seconds; 0 while it is not connected.
    relist: asks for the whole list again; returns False if it cannot.
    """

    @property
    def synchronized_at(self) -> float: ...

    def relist(self, why: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Settings that wait for the runtime's list, because they read more of a pod than was kept.

    settings: the settings.
    listed_before: only a list after this time counts, monotonic seconds.
    until: when they are put in force without a list, monotonic seconds.
    """

    settings: Settings
    listed_before: float
    until: float


class Steering:
    """Follows the settings file, the schedule and the kubelet, and has each change put in force.

    config_problem: why the newest configuration is not in force; "" if it is.
    """

    def __init__(
        self,
        retuning: Retuning,
        report: Report,
        *,
        watch: SettingsWatch,
        kubelet: KubeletWatch,
        clock: LendingClock,
        runtime: Runtime,
    ) -> None:
        self._retuning = retuning
        self._in_force = retuning.in_force
        self._report = report
        self._watch = watch
        self._kubelet = kubelet
        self._clock = clock
        self._runtime = runtime
        self._awaited: _Awaited | None = None
        self.config_problem = ""

    def look(self, now: float) -> None:
        """Check file, schedule and kubelet for changes; one turn of the housekeeping loop."""
        self._retuning.look()
        self._look_at_settings(now)
        self._look_for_list(now)
        if self._clock.look(self._in_force.settings.schedule, self._report):
            self._retuning.put()
        self.look_at_kubelet()

    @property
    def problem(self) -> str:
        """Return the problems of the settings as one sentence, "" for none."""
        return "; ".join(filter(None, (self.config_problem, self._retuning.kubelet_problem)))

    @property
    def pause(self) -> Pause:
        """Return the operator's pause of lending."""
        return self._retuning.pause

    @property
    def lending(self) -> Lending:
        """Return how much is lent by schedule and switch."""
        return self._clock.lending

    @property
    def grace_s(self) -> float:
        """Return the schedule's grace in seconds."""
        return self._in_force.settings.schedule.grace_s

    def _look_at_settings(self, now: float) -> None:
        change = self._watch.look(now)
        if change is not None:
            self._take(change)

    def reload(self) -> str:
        """Read the configuration file now; return its problem, "" if it is in force."""
        if not self._watch.has_file:
            raise OrderDeclined("there is no file to read: the daemon was started without --config")
        self._take(self._watch.read())
        return self.config_problem

    def repeat(self) -> None:
        """Put the settings in force again, because the pause or the switch over them has changed."""
        self._clock.look(self._in_force.settings.schedule, self._report)
        self._retuning.put()

    def _take(self, change: Change) -> None:
        if change.settings is None:
            self.refuse(change.problem)
        else:
            self.apply(change.settings)

    def refuse(self, problem: str) -> None:
        """Report an invalid configuration; the previous one stays in force."""
        self.config_problem = problem
        self._report.metrics.config_reload("invalid")
        self._report.log.error(
            "the configuration is invalid; the previous one stays in force", problem=problem
        )
        self._report.said(AuditEvent.CONFIG_RELOAD, Reason.INVALID, f"nothing was changed: {problem}")

    def begin_with(self, settings: Settings) -> None:
        """Apply the configuration that a launched plugin receives. No setting is fixed yet, so all of them apply."""
        self._in_force.begin_with(settings)
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        try:
            refuse_full_reserve(self._retuning.topology.usable_by_all, settings)
        except SettingsError as error:
            self.refuse(error.sentence)
            return
        self.config_problem = ""
        self._awaited = None
        runtime, now = self._runtime, time.monotonic()
        if not self._retuning.reads_more(settings):
            self._put_in_force(settings)
        elif runtime.relist("the configuration names labels or annotations that the daemon has not read"):
            self._awaited = _Awaited(settings, now, now + LIST_WITHIN_S)
        else:
            self._put_in_force(settings, UNREAD if runtime.synchronized_at else "")

    def _look_for_list(self, now: float) -> None:
        """Put awaited settings in force after the runtime has sent its list, or when the wait is over."""
        awaited = self._awaited
        if awaited is None:
            return
        if self._runtime.synchronized_at > awaited.listed_before or now >= awaited.until:
            self._awaited = None
            self._put_in_force(awaited.settings)

    def _put_in_force(self, settings: Settings, note: str = "") -> None:
        logs.configure(settings.log_level)
        fixed = self._in_force.fixed_changes(settings)
        note += f"; only a restart changes {', '.join(fixed)}" if fixed else ""
        note += "".join(f"; {remark}" for remark in remarks(settings))
        self._report.said(
            AuditEvent.CONFIG_RELOAD, Reason.VALID, f"configuration applied: the file is valid{note}"
        )
        self._in_force.put(settings)
        self._clock.look(settings.schedule, self._report)
        self._retuning.put()
        # the record comes before its consequences, so the metric shows when the settings are in force
        self._report.metrics.config_reload("valid")

    def look_at_kubelet(self) -> None:
        """Read the kubelet's state again if it changed, and apply it before this returns; any thread may call.

        The kubelet writes its state file before it asks the runtime for the sandbox. So a hook that places a pinned
        container calls this first.
        """
        self._retuning.put_if(self._kubelet_has_changed)

    def _kubelet_has_changed(self) -> bool:
        has_changed = self._kubelet.look()
        if has_changed:
            because = f"kubelet's state read: {self._kubelet.words()}"
            self._report.said(AuditEvent.TOPOLOGY_CHANGE, Reason.CPUS_CHANGED, because)
        return has_changed


def refuse_full_reserve(usable: CPUMask, settings: Settings) -> None:
    """Raise SettingsError for a reserve that leaves pods no CPU.

    Listed CPUs that are not usable here reserve nothing.
    """
    tuning, has = settings.tuning, usable.bit_count()
    reserved = (tuning.reserved & usable).bit_count() if tuning.reserved else tuning.reserved_count
    if reserved >= has:
        raise SettingsError(
            f"node.reservedCPUs: {reserved} CPUs should be reserved, and this machine has {has} usable; "
            "leave at least one for pods"
        )
