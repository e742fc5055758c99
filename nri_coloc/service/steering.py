"""Follow operator and machine: settings file, schedule, the kubelet's CPU manager, CPUs that go on- and offline.

The housekeeping loop checks each of them. A change becomes one `Reconfigured` event, and only affected containers move.
An invalid file changes nothing and is reported.
"""

import time
from dataclasses import dataclass, replace
from threading import RLock
from typing import Final, Protocol

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.events import Reconfigured
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.settings import Settings, Tuning
from nri_coloc.core.topology import Topology
from nri_coloc.errors import SettingsError
from nri_coloc.hooks.translation import Translator
from nri_coloc.host import granted
from nri_coloc.placing import resynchronisation
from nri_coloc.placing.node import Node
from nri_coloc.schedule.lending import Lending
from nri_coloc.schedule.remarks import remarks
from nri_coloc.service import logs
from nri_coloc.service.audit import timestamp
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.machine import Look, Machine
from nri_coloc.service.orders import OrderDeclined
from nri_coloc.service.report import Report
from nri_coloc.service.settings_watch import Change, SettingsWatch

LIST_WITHIN_S: Final = 10.0
"""Seconds for which settings wait for the runtime's list. Without it they apply to running pods when it comes."""

UNREAD: Final = "; running pods lack the labels and annotations that the file newly names"
"""For a daemon that the runtime launched: it cannot get the list again."""

TOPOLOGY_EVERY_S: Final = 1.0
"""Seconds between two checks; a check takes some 50 µs. Until the check, a CPU that went offline counts as lendable."""

_MACHINE_CHANGED: Final = "the set of online CPUs changed"

FIXED: Final = {
    "nri_socket": "runtime.nriSocket",
    "cri_socket": "runtime.criSocket",
    "plugin_name": "runtime.pluginName",
    "plugin_index": "runtime.pluginIndex",
    "http": "telemetry.http",
    "audit_ring": "telemetry.auditRing",
}
"""Settings that are fixed for a process, with their keys in the file."""


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


class Pause:
    """An operator's pause of lending. Belongs to one thread; times are monotonic seconds.

    words: until when and why, for people; "" while lending is not paused.
    """

    def __init__(self) -> None:
        self.words = ""
        self._ends_at = 0.0

    def begin(self, now: float, wall_ns: int, seconds: int, reason: str) -> str:
        """Pause from now on, replacing an earlier pause; return the end as a timestamp."""
        until = timestamp(wall_ns + seconds * 1_000_000_000)
        self._ends_at = now + seconds
        self.words = f"lending is paused until {until}{f': {reason}' if reason else ''}"
        return until

    def end(self) -> bool:
        """Resume lending; return whether it was paused."""
        paused, self.words = bool(self.words), ""
        return paused

    def is_over(self, now: float) -> bool:
        """Return whether a pause has reached its end."""
        return bool(self.words) and now >= self._ends_at

    def over(self, tuning: Tuning) -> Tuning:
        """Return the settings with the pause applied."""
        if not self.words:
            return tuning
        return replace(tuning, reclaim=replace(tuning.reclaim, paused=self.words))


class InForce:
    """The settings in force. Settings that are fixed at the start keep their first values."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin_with(self, settings: Settings) -> None:
        """Take the fixed settings too: the daemon has only begun."""
        self.settings = replace(self.settings, **{name: getattr(settings, name) for name in FIXED})

    def put(self, settings: Settings) -> None:
        """Replace all settings except the fixed ones."""
        self.settings = replace(settings, **{name: getattr(self.settings, name) for name in FIXED})


class Steering:
    """Puts new settings in force.

    config_problem: why the newest configuration is not in force; "" if it is.
    kubelet_problem: why the settings and the kubelet's do not go together; "" if they do.

    Size: settings, kubelet and machine end in one change of the tuning, under one lock.
    """

    def __init__(
        self,
        in_force: InForce,
        node: Node,
        report: Report,
        *,
        machine: Machine,
        watch: SettingsWatch,
        kubelet: KubeletWatch,
        clock: LendingClock,
        translator: Translator,
        runtime: Runtime,
        after: After,
    ) -> None:
        self._in_force = in_force
        self._node = node
        self._report = report
        self._translator = translator
        self._runtime = runtime
        self._after = after
        self._machine = machine
        self._watch = watch
        self._kubelet = kubelet
        self._clock = clock
        self.pause = Pause()
        self._turn = RLock()
        self._awaited: _Awaited | None = None
        self._has_retuned = False
        self._topology_at = time.monotonic()
        self._looks: tuple[Look | None, Look | None] = (None, None)
        self.config_problem = ""
        self.kubelet_problem = kubelet.problem(node.tuning)

    def look(self, now: float) -> None:
        """Check file, kubelet and machine for changes; one turn of the housekeeping loop."""
        if self._has_retuned:  # a hook that was under way then has decided by now
            self._has_retuned = False
            self._catch_up()
        self._look_at_settings(now)
        self._look_for_list(now)
        if self._clock.look(self._in_force.settings.schedule, self._report):
            self._retune(self._node.state.topology)
        self.look_at_kubelet()
        if now - self._topology_at >= TOPOLOGY_EVERY_S:
            self._topology_at = now
            self._look_at_machine()

    @property
    def problem(self) -> str:
        """Return the problems of the settings as one sentence, "" for none."""
        return "; ".join(filter(None, (self.config_problem, self.kubelet_problem)))

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
        self._retune(self._node.state.topology)

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
            refuse_full_reserve(self._node.state.topology.usable_by_all, settings)
        except SettingsError as error:
            self.refuse(error.sentence)
            return
        self.config_problem = ""
        self._awaited = None
        runtime, now = self._runtime, time.monotonic()
        if not self._translator.read_also(settings.tuning):
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
        fixed = _fixed_at_start(self._in_force.settings, settings)
        note += f"; only a restart changes {', '.join(fixed)}" if fixed else ""
        note += "".join(f"; {remark}" for remark in remarks(settings.schedule))
        self._report.said(
            AuditEvent.CONFIG_RELOAD, Reason.VALID, f"configuration applied: the file is valid{note}"
        )
        self._in_force.put(settings)
        self._clock.look(settings.schedule, self._report)
        self._retune(self._node.state.topology)
        # the record comes before its consequences, so the metric shows when the settings are in force
        self._report.metrics.config_reload("valid")

    def look_at_kubelet(self) -> None:
        """Read the kubelet's state again if it changed, and apply it before this returns; any thread may call.

        The kubelet writes its state file before it asks the runtime for the sandbox. So a hook that places a pinned
        container calls this first.
        """
        with self._turn:
            self._follow_kubelet()

    def _follow_kubelet(self) -> None:
        if self._kubelet.look():
            self._report.said(
                AuditEvent.TOPOLOGY_CHANGE,
                Reason.CPUS_CHANGED,
                f"kubelet's state read: {self._kubelet.words()}",
            )
            self._retune(self._node.state.topology)

    def _look_at_machine(self) -> None:
        """Read the machine if a check shows a change, and once more after that, because a hotplug takes time."""
        state = self._node.state
        try:
            look = self._machine.look(state)
            if self._looks == (look, look):
                return
            topology = self._machine.read(state)
            self._looks = (look, self._looks[0])
        except Exception as error:  # noqa: BLE001 - a machine in the middle of a hotplug is looked at again later
            self._report.log.warning("cannot read the topology", error=str(error))
            return
        if topology != state.topology and topology.usable:
            is_granted = (
                topology.machine == state.topology.machine and topology.online != state.topology.online
            )
            why = granted.change(look.granted, topology.machine) if is_granted else _MACHINE_CHANGED
            self._report.said(AuditEvent.TOPOLOGY_CHANGE, Reason.CPUS_CHANGED, f"machine read: {why}")
            self._retune(topology)

    def _retune(self, topology: Topology) -> None:
        with self._turn:
            self._put_over(topology)

    def _put_over(self, topology: Topology) -> None:
        tuning = self.pause.over(self._clock.over(self._kubelet.over(self._in_force.settings.tuning)))
        self.kubelet_problem = self._kubelet.problem(tuning)
        wishes, pod_wishes = self._translator.wishes_again(self._node.state, tuning)
        self._reconfigure(Reconfigured(topology, wishes, pod_wishes), tuning)
        self._catch_up()
        self._has_retuned = True

    def _catch_up(self) -> None:
        """Apply the settings in force to containers and pods that a hook placed by the previous ones.

        Wishes are read before the mutex is taken, so that it is held no longer than for a decision.
        """
        state, tuning = self._node.state, self._node.tuning
        wishes, pod_wishes = self._translator.wishes_again(state, tuning)
        late = {k: wish for k, wish in wishes.items() if wish != state.containers[k].wish}
        late_pods = {k: wish for k, wish in pod_wishes.items() if wish != state.pods[k].wish}
        if late or late_pods:
            self._reconfigure(Reconfigured(state.topology, late, late_pods), tuning)

    def _reconfigure(self, event: Reconfigured, tuning: Tuning) -> None:
        before, observed = self._node.state, self._node.tuning.observe
        outcome = self._node.retune(event, tuning)
        if observed and not tuning.observe:  # an observer has moved no container
            outcome = replace(outcome, moves=resynchronisation.everyone(outcome.state))
        tell(self._after, all_of(outcome, before))


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


def _fixed_at_start(old: Settings, new: Settings) -> list[str]:
    return [key for name, key in FIXED.items() if getattr(old, name) != getattr(new, name)]
