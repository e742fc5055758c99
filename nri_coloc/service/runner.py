"""Start, run and stop the daemon that `wiring` has put together.

Threads:
main: housekeeping, signals.
trunk: hooks.
watchdog: overdue hooks.
actuator: cgroup files.
pusher: the runtime's specs.
lending: the fast loop.
file_watch: sleeps until another process writes to reclaimed pods' files.
survey: the slow loop.
memory: memory limits of reclaimed pods.
reclaim: takes memory back, one write at a time; only after memory was short.
audit: stdout.
http, http-answers: HTTP.
admin: sleeps in accept; while a caller is connected there are also its connections' threads and gRPC's own.
companion: sleeps until the companion connects or calls; only with `kubernetes.report`.
compare: while CRI is asked for its list.
census: once, for old runtimes that launch plugins.

No other code starts a thread, but for one of `faulthandler`: it ends the process if the main thread hangs. SIGTERM ends
the process within two seconds and un-pins nothing: the last limits stay in force.
"""

import faulthandler
import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Final, Protocol

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import POOLS, NodeState
from nri_coloc.errors import ColocError, SettingsError, blame
from nri_coloc.host import files
from nri_coloc.nri import events, version
from nri_coloc.repair import targets
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import Place, RuntimeAt
from nri_coloc.runtime.listing import take_in_time
from nri_coloc.service import logs, probe, wiring
from nri_coloc.service.configuration import loading as reader
from nri_coloc.service.options import Options
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.service.state_folder import LABEL
from nri_coloc.service.wiring import Wired

HOUSEKEEPING_S: Final = 1.0
"""Seconds between two turns of the main thread. A comparison that is due has its own turn, because readiness waits for
it."""

LOCK_AGAIN_S: Final = 0.5
"""Seconds between two tries to take the lock while the previous process has it."""

HUNG_S: Final = 120.0
"""Seconds without a turn of the main thread after which the process ends. A turn may wait for a slow disk."""

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_AT_ONCE: Final = 64

GC_THRESHOLD: Final = 50_000
"""Collections stop a hook for milliseconds; long-lived objects are frozen, and cycles are rare."""


class Ending:
    """The daemon's end, requested by SIGTERM, SIGINT or a thread that cannot continue.

    A handler that sets a `threading.Event` may wait for ever. It runs between any two steps of the main thread, also
    inside the same Event's wait while that holds its lock. And a signal that comes a moment before a sleep is handled
    after it. So the interpreter's own handler, which runs at once, writes each signal's number into a pipe
    (`signal.set_wakeup_fd`), and the main thread waits for the pipe. Not `signal.sigtimedwait`: after a stop that is
    longer than its timeout it reports a signal (seen on CPython 3.11; Modules/signalmodule.c, EINTR).

    `wait` and `take_signals` are for the main thread, `ask` is for any thread; `asked` stays True.
    """

    def __init__(self) -> None:
        self.asked = False
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def take_signals(self) -> None:
        """Let both signals end waits, and do nothing else."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._told)

    def ask(self) -> None:
        """End the present wait, and all later ones."""
        self.asked = True
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._writer, b"\0")

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds at most, less if another signal comes; return whether the end was requested."""
        if not self.asked and self._poll.poll(max(0.0, seconds) * 1000):
            told = SIGNALS.intersection(os.read(self._reader, _AT_ONCE))
            self.asked = self.asked or bool(told)
        return self.asked

    def _told(self, *_: object) -> None:
        self.asked = True


def _end_if_hung() -> None:
    """End the process, with the stacks of all threads in its log, unless this is called again in time.

    The kubelet starts it again. A runtime does not start a plugin again, so a launched plugin answers hooks on.
    """
    faulthandler.dump_traceback_later(HUNG_S, exit=True)


def _nothing() -> None:
    return


class _Times(Protocol):
    """The time of a turn of pressure."""

    def check_in(self, now: float) -> float: ...
    def is_alarmed(self, now: float) -> bool: ...


def _wait(ending: Ending, seconds: float, times: _Times) -> bool:
    """Wait for the next turn, or until a pod's wait for a disk rises; return whether the end was requested."""
    until = time.monotonic() + seconds
    while (pause_s := times.check_in(time.monotonic())) < seconds:
        if ending.wait(pause_s):
            return True
        now = time.monotonic()
        if times.is_alarmed(now):
            return False
        seconds = until - now
    return ending.wait(seconds)


class Daemon:
    """Runs the parts; `run` blocks until a signal."""

    def __init__(self, wired: Wired) -> None:
        self._parts, self._operator = wired
        self._ground = self._parts.ground
        self._launched = self._ground.options.launched is not None
        self._ending = Ending()
        self._failed = False
        self._serves = False
        self._pruned_for: NodeState | None = None

    def run(self) -> int:
        self._ending.take_signals()
        threading.excepthook = self._thread_failed
        self._ground.audit.start()
        self._ground.report.said(
            AuditEvent.DAEMON_START,
            Reason.STARTED,
            f"daemon started: version {self._ground.version}, {self._mode()}",
        )
        if not self._launched:
            self._start_http()
        self._wait_for_lock()
        end_if_hung = _nothing if self._launched else _end_if_hung
        try:
            end_if_hung()
            if not self._ending.asked:
                self._serve()
            pause_s = self._until_due()
            while not _wait(self._ending, pause_s, self._parts.lending.pressure.times):
                end_if_hung()
                # a comparison that failed is due at once, again and again
                pause_s = self._until_due() if self._tick() else HOUSEKEEPING_S
        finally:
            faulthandler.cancel_dump_traceback_later()
        return self._end()

    def _serve(self) -> None:
        """Start to write and to answer: this process has the lock."""
        parts = self._parts
        self._serves = True
        parts.files.state_folder.begin()
        parts.files.records.load()
        self._take_switch()
        parts.lending.evictor.begin()
        self._ground.node.learn(
            probe.capability(self._ground.layout, (0, 0, 0), self._ground.options.host_root)
        )
        parts.files.actuator.start()
        parts.runtime.pusher.start()
        parts.lending.loop.start()
        parts.forecast.survey.start()
        self._start_trunk()

    def _take_switch(self) -> None:
        """Follow an operator's order that the previous process stored, before anything is lent."""
        parts = self._parts
        known = self._ground.switch.held
        problem = self._ground.switch.load()
        if problem:
            self._ground.report.unread_file(problem)
        if self._ground.switch.held != known:
            parts.steering.repeat()

    def _until_due(self) -> float:
        now, parts = time.monotonic(), self._parts
        return min(
            HOUSEKEEPING_S, parts.hooks.comparison.due_in(now), parts.lending.pressure.times.due_in(now)
        )

    def _start_trunk(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        Thread(target=self._run_trunk, name="trunk", daemon=True).start()

    def _run_trunk(self) -> None:
        try:
            self._parts.hooks.trunk.run(self._configured, once=self._launched)
        except Exception as error:
            self._ground.report.log.exception("the runtime's thread failed; the daemon ends", exc_info=error)
            self._failed = True
            self._ending.ask()
        if self._launched:
            # the runtime is gone and with it the only socket that this process can have
            self._ending.ask()

    # ---- turns ----

    def _tick(self) -> bool:
        """Run all steps of housekeeping, even if one fails; return whether all succeeded."""
        now, parts = time.monotonic(), self._parts
        self._operator.view.turned(now)
        steps: dict[str, Callable[[], object]] = {
            "claiming the runtime": self._claim_for_launched,
            "releasing superseded containers": self._leave_superseded,
            "comparing with CRI": partial(parts.hooks.comparison.poll, now),
            "leaving out departed pods": partial(parts.hooks.departed_pods.look, now),
            "reading requests again": partial(parts.hooks.requests_again.look, now),
            "following settings": partial(parts.steering.look, now),
            "following the machine": partial(parts.hotplug.look, now),
            "comparing settings with the machine": parts.files.machine_fit.look,
            "placing containers that wait for CPUs": partial(parts.hooks.second_chances.look, now),
            "lending amounts": partial(parts.forecast.loans.look, now, parts.seams.after),
            "raising quotas": partial(parts.lending.quota_burst_loop.look, now),
        }
        if self._serves:
            steps["judging pressure"] = partial(parts.lending.pressure.look, now)
            steps["degrading in short pools"] = partial(parts.lending.degrader.look, now)
            steps["taking memory back"] = partial(parts.lending.reclaimer.look, now)
            steps["watching file systems"] = partial(parts.lending.disks.look, now)
            steps["evicting for shortages"] = partial(parts.lending.evictor.look, now)
            steps["keeping the state folder"] = partial(parts.files.state_folder.look, now)
            steps["keeping the switch"] = partial(self._ground.switch.look, now)
            steps["keeping the admin socket"] = partial(self._operator.admin.look, now)
            steps["keeping the companion's socket"] = partial(
                parts.cluster.companion.look, self._ground.in_force.settings.kubernetes
            )
            steps["draining"] = partial(parts.cluster.drain.look, parts.steering.lending, now)
            steps["closing expired eviction orders"] = partial(self._ground.evictions.look, now)
            steps["looking for starved pods"] = parts.lending.starved_pods.look
            steps["looking for Events of the node"] = partial(self._operator.node_watch.look, now)
            steps["keeping records"] = partial(self._keep_records, now)
        return each_step(self._ground.report.log, "a turn of housekeeping", steps)

    def _claim_for_launched(self) -> None:
        """Claim the runtime that launched this plugin as soon as its socket exists, so that no other copy serves it."""
        if self._launched:
            with suppress(OSError):
                self._parts.hooks.claim.take(self._ground.in_force.settings.nri_socket)

    def _leave_superseded(self) -> None:
        """Leave a connection that was never configured if another socket is at the runtime's path by now.

        A registration has no deadline, because the runtime takes plugins one by one. A new socket alone distinguishes a
        program that will never answer from a slow runtime.
        """
        parts = self._parts
        if parts.runtime.connection.connected or self._launched:
            return
        if parts.hooks.claim.superseded(self._ground.in_force.settings.nri_socket):
            parts.runtime.connection.drop("another socket is at the runtime's path")

    def _keep_records(self, now: float) -> None:
        """Save the records of live containers: those of ended ones are dropped when the state has changed."""
        parts, state = self._parts, self._ground.node.state
        if self._ground.node.told and state is not self._pruned_for:
            self._pruned_for = state
            uids = {place.pod.uid for place in state.pods.values()}
            pools = {*POOLS, *state.pools.tiers}
            self._ground.audit.kept.prune(state.containers.keys(), uids, pools)
        parts.files.records.save_if_due(now)

    # ---- start ----

    def _wait_for_lock(self) -> None:
        parts, said = self._parts, False
        words = "another nri-coloc holds the lock in the state folder; waiting for its end"
        while not parts.files.lock.take() and not self._ending.wait(LOCK_AGAIN_S):
            self._operator.view.turned(time.monotonic())
            parts.runtime.connection.wait_for(words)
            if not said:
                self._ground.report.log.info(words)
                said = True
        parts.runtime.connection.wait_for("")

    def _configured(self, configured: events.Configured) -> None:
        """Learn the capabilities of this runtime; a launched plugin may get its configuration here."""
        parts, root = self._parts, self._ground.options.host_root
        pid = parts.runtime.connection.peer_pid
        pods = targets.pod_paths(self._ground.node.state)
        can = probe.capability(self._ground.layout, configured.nri_version, root, pid, pods=pods)
        self._ground.node.learn(can)
        if not self._launched:
            return
        if configured.config.strip():
            self._begin_with(configured.config)
        self._start_http()
        if version.late_sync_leaves_zombie(configured.nri_version):
            Thread(target=self._take_census, name="census", daemon=True).start()

    def _begin_with(self, text: str) -> None:
        """Take the configuration that the runtime gives to a plugin it launched, including sockets and ports."""
        parts = self._parts
        try:
            found = self._ground.options.over(reader.load(text, "the runtime's plugin configuration"))
        except SettingsError as error:
            parts.steering.refuse(error.sentence)
            return
        self._ground.audit.keep(found.audit_ring)
        parts.steering.begin_with(found)

    def _take_census(self) -> None:
        """Ask an old runtime that launched this plugin for its list, as soon as its socket exists."""
        parts = self._parts
        settings, connection = self._ground.in_force.settings, parts.runtime.connection
        at = settings.nri_socket, settings.plugin_name
        listed = take_in_time(at, parts.hooks.hooks.listing, connection.wait_for, lambda: self._ending.asked)
        if listed is not None:
            parts.hooks.hooks.learn(listed)
            connection.took_list()

    def _start_http(self) -> None:
        address = self._ground.in_force.settings.http
        if address != "off":
            self._operator.http.start(address)

    # ---- the end ----

    def _end(self) -> int:
        parts = self._parts
        settings = self._ground.in_force.settings
        restores = settings.restore_on_exit and not settings.tuning.observe
        ends = "everything is restored" if restores else "nothing is un-pinned"
        self._ground.report.said(
            AuditEvent.DAEMON_STOP, Reason.SIGNALLED, f"daemon stops: a signal asked for it, and {ends}"
        )
        steps: dict[str, Callable[[], object]] = {
            "closing the admin socket": self._operator.admin.close,
            "closing the companion's socket": parts.cluster.companion.close,
            "leaving the runtime": parts.hooks.trunk.stop,
            "stopping the fast loop": parts.lending.loop.stop,
            "stopping the memory thread": parts.files.memory_worker.stop,
            "stopping the reclaim thread": parts.lending.reclaim_worker.stop,
            "stopping the survey": parts.forecast.survey.stop,
            "stopping the actuator": parts.files.actuator.stop,
            "stopping pushes": parts.runtime.pusher.stop,
        }
        if self._serves:
            steps["restoring quotas of degraded containers"] = parts.lending.degrader.end
            steps["restoring raised quotas"] = parts.lending.quota_burst_loop.end
            steps["removing limits of throttled pods"] = parts.lending.pressure.end
        if self._serves and restores:
            steps["restoring everything"] = self._restore
        steps["closing HTTP"] = self._operator.http.close
        went_well = each_step(self._ground.report.log, "the daemon's end", steps)
        self._ground.audit.close()
        if self._serves:
            parts.files.records.save()
        return 0 if went_well and not self._failed else 1

    def _restore(self) -> None:
        """Restore original values after every thread stopped writing."""
        parts, settings = self._parts, self._ground.in_force.settings
        place = Place(parts.files.journal, self._ground.options.host_root, self._ground.layout)
        runtime = RuntimeAt(settings.nri_socket, settings.cri_socket, settings.plugin_name)
        writers = (parts.hooks.trunk, parts.files.actuator, parts.lending.loop, parts.files.memory_worker)
        for words in restoration.at_exit(
            place, runtime, writers, parts.runtime.pusher, self._ground.report.log
        ):
            self._ground.report.metrics.write_failed(LABEL)
            because, more = f"not restored at the end: {words}", {"inputs": {"file": LABEL, "error": words}}
            self._ground.report.said(AuditEvent.WRITE_FAILED, Reason.REFUSED, because, extra=more)

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread else "unknown"
        self._ground.report.log.error(
            "a thread ended by an error in the plugin", thread=name, exc_info=failure.exc_value
        )

    def _mode(self) -> str:
        observes = self._ground.in_force.settings.tuning.observe
        return "observe: nothing is changed" if observes else "enforce"


class Log(Protocol):
    """The operator's log."""

    def error(self, event: str, **fields: Any) -> Any: ...

    def exception(self, event: str, **fields: Any) -> Any: ...


def each_step(log: Log, whole: str, steps: Mapping[str, Callable[[], object]]) -> bool:
    """Run all steps in order, also after one that fails; return whether all succeeded.

    whole: the name of the work that the steps are part of.
    """
    taken = [_is_taken(log, f"a step of {whole} failed", name, take) for name, take in steps.items()]
    return all(taken)


def _is_taken(log: Log, failed: str, name: str, take: Callable[[], object]) -> bool:
    try:
        take()
    except ColocError as error:
        log.error(failed, step=name, blame=blame(error), because=str(error))  # noqa: TRY400 - its sentence says all
    except Exception as error:
        log.exception(failed, step=name, blame=blame(error), exc_info=error)
    else:
        return True
    return False


def run(options: Options) -> int:
    """Read the configuration and serve; return the exit code.

    Raises SettingsError for a fault that the operator must repair first.
    """
    # before the file is read: a change in between must be seen
    watch = SettingsWatch(options.config, options.over)
    settings = options.over(
        reader.read(options.config) if options.config else reader.load("", "the defaults")
    )
    logs.configure(settings.log_level)
    files.raise_soft_limit()
    return Daemon(wiring.wire(options, settings, watch)).run()
