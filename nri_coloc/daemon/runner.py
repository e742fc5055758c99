"""The wiring: what is made in which order, which threads there are, and how it all ends.

Threads: `main` (housekeeping, signals), `trunk` (hooks), `watchdog` (overdue hooks), `actuator` (cgroup files),
`pusher` (the runtime's specs), `audit` (stdout), `http` and its workers, `compare` (while CRI is asked for its list),
`census` (once, for old runtimes that launch us). Nothing else in the program starts one.
SIGTERM ends the process within two seconds and un-pins nothing: the last limits stay in force.
"""

import contextlib
import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from threading import Event, Thread
from typing import Final

from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.actuation.journal import Journal
from nri_coloc.admin.http import HttpServer
from nri_coloc.config import keys
from nri_coloc.config import settings as reader
from nri_coloc.daemon import census, probe, trunk
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.cri_side import CriSide
from nri_coloc.daemon.hooks import Hooks
from nri_coloc.daemon.instance_lock import InstanceLock
from nri_coloc.daemon.kubelet_watch import KubeletWatch
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.options import Options
from nri_coloc.daemon.pusher import Pusher
from nri_coloc.daemon.readiness import Readiness
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.runtime_claim import RuntimeClaim
from nri_coloc.daemon.settings_watch import SettingsWatch
from nri_coloc.daemon.translation import Translator
from nri_coloc.daemon.view import DaemonView
from nri_coloc.errors import ColocError, SettingsError
from nri_coloc.model.events import Reconfigured
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.topology import Topology
from nri_coloc.model.tuning import Settings
from nri_coloc.nri import events, version
from nri_coloc.policy import pools, resync
from nri_coloc.sampling import cgroup_layout
from nri_coloc.sampling import topology as machine
from nri_coloc.telemetry import logs
from nri_coloc.telemetry.audit import AuditLog
from nri_coloc.telemetry.metrics import Metrics

JOURNAL: Final = "restore.jsonl"
TICK_S: Final = 0.5
CENSUS_PAUSE_S: Final = 0.01
"""An old runtime opens its socket a few milliseconds after it has configured what it launched."""

GC_THRESHOLD: Final = 50_000
"""Collections stop a hook for milliseconds; what lives long is frozen, and cycles are rare."""

TOPOLOGY_EVERY_S: Final = 10.0


class Daemon:
    """Everything, wired; `run` blocks until a signal."""

    def __init__(self, options: Options, settings: Settings) -> None:
        self.settings = settings
        self._options = options
        self._stopping = Event()
        self._failed = False
        self._file_settings = settings
        topology = machine.read(options.host_root)
        _refuse_full_reserve(topology.usable.bit_count(), settings)
        memory = machine.memory_total(options.host_root)
        self._kubelet = KubeletWatch(options.host_root)
        tuning = self._kubelet.over(settings.tuning)
        self.node = Node(pools.initial(topology, tuning), tuning, memory)
        metrics = Metrics(_version(), lambda: self.node.state, keys.base_of)
        self.audit = AuditLog(1, settings.audit_ring, metrics.audit_lost)
        self.report = Report(self.audit, metrics)
        self._lock = InstanceLock(options.state_dir)
        self._claim = RuntimeClaim()
        self._layout = cgroup_layout.detect(options.host_root)
        path = str(Path(options.state_dir) / JOURNAL)
        self._journal = Journal(path, self._journal_failed, options.host_root)
        writer = CgroupWriter(self._layout, self._journal, options.host_root)
        self.actuator = Actuator(self.node, writer, self.report)
        self.actuator.look_again = partial(probe.with_files_of_pods, self._layout)
        self._translator = Translator(memory)
        cri = CriSide(settings.cri_socket)
        self.pusher = Pusher(self.node, cri, self.report, lambda: self.trunk.connected)
        self._hooks = Hooks(self.node, self.actuator, self.pusher, self._translator, self.report)
        name = (settings.plugin_name, settings.plugin_index)
        self.trunk = trunk.Trunk(self._connector(), name, self._hooks, self.report, self._configured)
        self.readiness = Readiness(self.node, self.trunk, self.actuator, self.report, cri)
        self.readiness.kubelet_problem = self._kubelet.problem(tuning)
        self.view = DaemonView(self.node, self.actuator, self.readiness, self.report)
        self._watch = SettingsWatch(options.config, options.over)
        self._topology_at = time.monotonic()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        self.audit.start()
        self.report.said(AuditEvent.DAEMON_START, Reason.STARTED, f"nri-coloc {_version()}, {self._mode()}")
        http = self._start_http()
        self._wait_for_lock()
        if not self._stopping.is_set():
            self._journal.load_again()
            self.actuator.can = probe.capability(self._layout, (0, 0, 0), self._options.host_root)
            self.actuator.start()
            self.pusher.start()
            self._start_trunk()
        while not self._stopping.wait(TICK_S):
            self._tick()
        return self._end(http)

    def _start_trunk(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        Thread(target=self._serve, name="trunk", daemon=True).start()

    def _serve(self) -> None:
        launched = self._options.launched is not None
        try:
            self.trunk.run(once=launched)
        except Exception as error:
            self.report.log.exception("the trunk's thread failed; leaving", exc_info=error)
            self._failed = True
            self._stopping.set()
        if launched:
            # the runtime is gone and with it the only socket that we shall ever have
            self._stopping.set()

    def _tick(self) -> None:
        now = time.monotonic()
        self.view.alive_at = now
        self._claim_for_launched()
        self.readiness.poll(now)
        self._look_at_settings()
        self._look_at_kubelet()
        if now - self._topology_at > TOPOLOGY_EVERY_S:
            self._topology_at = now
            self._look_at_machine()

    def _end(self, http: HttpServer | None) -> int:
        self.report.said(AuditEvent.DAEMON_STOP, Reason.SIGNALLED, "stopping; nothing is un-pinned")
        self.trunk.stop()
        self.actuator.stop()
        self.pusher.stop()
        if http is not None:
            http.close()
        self.audit.close()
        return 1 if self._failed else 0

    def _take_census(self) -> None:
        """Ask an old runtime that launched us for its list, as soon as its socket is there."""
        pause = CENSUS_PAUSE_S
        while not self._stopping.is_set():
            try:
                listed = census.take(self.settings.nri_socket, self.settings.plugin_name)
            except (OSError, ColocError) as error:
                self.readiness.waiting_for = f"the runtime's list cannot be had: {error}"
                self._stopping.wait(pause)
                pause = min(pause * 1.5, trunk.RETRY_CAP_S)
                continue
            self.readiness.waiting_for = ""
            self._hooks.learn(listed)
            self.trunk.took_list_from_elsewhere()
            return

    # ---- settings ----

    def _configured(self, configured: events.Configured) -> None:
        """Learn what this runtime takes; a launched plugin may get its configuration here."""
        root = self._options.host_root
        pid = self.trunk.peer_pid
        self.actuator.can = probe.capability(self._layout, configured.nri_version, root, pid)
        if self._options.launched is None:
            return
        if version.late_sync_leaves_zombie(configured.nri_version):
            Thread(target=self._take_census, name="census", daemon=True).start()
        if not configured.config.strip():
            return
        try:
            found = self._options.over(reader.load(configured.config, "the runtime's plugin configuration"))
        except SettingsError as error:
            self._config_refused(str(error))
            return
        self._apply(found)

    def _look_at_settings(self) -> None:
        change = self._watch.look()
        if change is None:
            return
        if change.settings is None:
            self._config_refused(change.problem)
            return
        self._apply(change.settings)

    def _config_refused(self, problem: str) -> None:
        self.readiness.config_problem = problem
        self.report.metrics.config_reload("invalid")
        self.report.log.error("the configuration is invalid; the former one stays in force", problem=problem)
        self.report.said(AuditEvent.CONFIG_RELOAD, Reason.INVALID, f"nothing was changed: {problem}")

    def _apply(self, settings: Settings) -> None:
        try:
            _refuse_full_reserve(self.node.state.topology.usable.bit_count(), settings)
        except SettingsError as error:
            self._config_refused(str(error))
            return
        self.readiness.config_problem = ""
        logs.configure(settings.log_level)
        self.report.metrics.config_reload("valid")
        fixed = _fixed_at_start(self.settings, settings)
        note = f"; only a restart changes {', '.join(fixed)}" if fixed else ""
        self.report.said(AuditEvent.CONFIG_RELOAD, Reason.VALID, f"read and applied{note}")
        self.settings = replace(settings, nri_socket=self.settings.nri_socket, http=self.settings.http)
        self._retune(self.node.state.topology)

    def _look_at_kubelet(self) -> None:
        if self._kubelet.look():
            self.report.said(AuditEvent.TOPOLOGY_CHANGE, Reason.CPUS_CHANGED, self._kubelet.words())
            self._retune(self.node.state.topology)

    def _look_at_machine(self) -> None:
        try:
            topology = machine.read(self._options.host_root)
        except Exception as error:  # noqa: BLE001 - a machine in the middle of a hotplug is looked at again later
            self.report.log.warning("cannot read the topology", error=str(error))
            return
        if topology != self.node.state.topology and topology.usable:
            self.report.said(
                AuditEvent.TOPOLOGY_CHANGE, Reason.CPUS_CHANGED, "the set of online CPUs changed"
            )
            self._retune(topology)

    def _retune(self, topology: Topology) -> None:
        before, observed = self.node.state, self.node.tuning.observe
        tuning = self._kubelet.over(self.settings.tuning)
        self.readiness.kubelet_problem = self._kubelet.problem(tuning)
        wishes, pod_wishes = self._translator.wishes_again(before, tuning)
        outcome = self.node.retune(Reconfigured(topology, wishes, pod_wishes), tuning)
        self.report.decided(outcome.decisions, outcome.state, before)
        # whoever only observed until now has moved nobody
        moves = resync.everyone(outcome.state) if observed and not tuning.observe else outcome.moves
        self.actuator.submit(moves)
        self.pusher.submit(moves.containers)

    # ---- start ----

    def _connector(self) -> Callable[[], socket.socket]:
        launched = self._options.launched
        if launched is not None:
            return lambda: socket.socket(fileno=os.dup(launched.fd))
        return self._connect_claimed

    def _connect_claimed(self) -> socket.socket:
        self._claim.take(self.settings.nri_socket)
        return trunk.connect_to(self.settings.nri_socket)

    def _claim_for_launched(self) -> None:
        """Keep other copies off the runtime that launched us, once its socket is there for them."""
        if self._options.launched is not None:
            with contextlib.suppress(OSError):
                self._claim.take(self.settings.nri_socket)

    def _start_http(self) -> HttpServer | None:
        if self.settings.http == "off":
            return None
        server = HttpServer(self.settings.http, self.view, self._http_waits)
        server.start()
        return server

    def _http_waits(self, sentence: str) -> None:
        self.report.log.warning(sentence)

    def _wait_for_lock(self) -> None:
        said = False
        while not self._lock.take() and not self._stopping.wait(TICK_S):
            self.view.alive_at = time.monotonic()
            self.readiness.waiting_for = (
                "another nri-coloc holds the lock in the state folder; waiting for its end"
            )
            if not said:
                self.report.log.info(self.readiness.waiting_for)
                said = True
        self.readiness.waiting_for = ""

    def _journal_failed(self, sentence: str) -> None:
        self.report.log.error(sentence)
        self.report.said(AuditEvent.WRITE_FAILED, Reason.KERNEL_REFUSED, sentence)

    def _mode(self) -> str:
        return "observe: nothing is changed" if self.settings.tuning.observe else "enforce"


def _refuse_full_reserve(usable: int, settings: Settings) -> None:
    reserved = settings.tuning.reserved.bit_count() or settings.tuning.reserved_count
    if reserved >= usable:
        raise SettingsError(
            f"node.reservedCPUs: {reserved} CPUs are to be reserved and this machine has {usable} usable; "
            "leave at least one for pods"
        )


def _fixed_at_start(old: Settings, new: Settings) -> list[str]:
    names = ("nri_socket", "cri_socket", "plugin_name", "plugin_index", "http", "audit_ring")
    return [name for name in names if getattr(old, name) != getattr(new, name)]


def _version() -> str:
    try:
        return package_version("nri-coloc")
    except PackageNotFoundError:
        return "unknown"


def run(options: Options) -> int:
    """Read the configuration and serve; SettingsError for what the operator must mend first."""
    settings = options.over(
        reader.read(options.config) if options.config else reader.load("", "the defaults")
    )
    logs.configure(settings.log_level)
    return Daemon(options, settings).run()
