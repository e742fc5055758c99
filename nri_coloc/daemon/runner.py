"""The wiring: what is made in which order, which threads there are, and how it all ends.

Threads: `main` (housekeeping, signals), `trunk` (hooks), `watchdog` (overdue hooks), `actuator` (cgroup files),
`pusher` (the runtime's specs), `lending` (the fast loop), `sentry` (asleep until somebody writes to the box's
members), `survey` (the slow one), `memory` (the box's memory limits), `audit` (stdout), `http` and its workers, `admin`
(asleep in accept) and, while somebody calls, its connections and gRPC's own, `compare` (while CRI is asked for its
list), `census` (once, for old runtimes that launch us). Nothing else in the program starts one.
SIGTERM ends the process within two seconds and un-pins nothing: the last limits stay in force.
"""

import contextlib
import gc
import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Final

from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.actuation.journal import Journal
from nri_coloc.actuation.marks import Marks
from nri_coloc.admin.http import HttpServer
from nri_coloc.config import keys
from nri_coloc.config import settings as reader
from nri_coloc.daemon import (
    census,
    guarded,
    neighbours,
    probe,
    readiness,
    restoration,
    specs,
    steering,
    targets,
    trunk,
    verification,
)
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.admin_orders import Staff
from nri_coloc.daemon.admin_side import AdminSide
from nri_coloc.daemon.box_memory import BoxMemory
from nri_coloc.daemon.comparison import Comparison
from nri_coloc.daemon.cri_side import CriSide
from nri_coloc.daemon.ending import Ending
from nri_coloc.daemon.forecast_file import ForecastFile
from nri_coloc.daemon.hooks import Hooks
from nri_coloc.daemon.instance_lock import InstanceLock
from nri_coloc.daemon.kubelet_watch import KubeletWatch
from nri_coloc.daemon.lending import Lending
from nri_coloc.daemon.loans import Loans, memory_in_use
from nri_coloc.daemon.machine import Machine
from nri_coloc.daemon.memory_worker import MemoryWorker
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.options import Options
from nri_coloc.daemon.pod_requests import PodRequests
from nri_coloc.daemon.pusher import Pusher
from nri_coloc.daemon.quota_bursts import QuotaBursts
from nri_coloc.daemon.readiness import Check, Readiness, Reading
from nri_coloc.daemon.records_file import RecordsFile
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.restoration import JOURNAL, Place, RuntimeAt
from nri_coloc.daemon.runtime_claim import RuntimeClaim
from nri_coloc.daemon.second_chances import SecondChances
from nri_coloc.daemon.settings_watch import SettingsWatch
from nri_coloc.daemon.spec_updates import SpecUpdates
from nri_coloc.daemon.state_folder import LABEL, StateFolder
from nri_coloc.daemon.steering import Crew, Steering
from nri_coloc.daemon.survey import Survey
from nri_coloc.daemon.translation import Translator
from nri_coloc.daemon.verification import Verification
from nri_coloc.daemon.view import DaemonView, Loops
from nri_coloc.daemon.waiting import Waiting
from nri_coloc.errors import SettingsError
from nri_coloc.knobs.capability import Capability
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.tuning import Settings
from nri_coloc.nri import events, version
from nri_coloc.policy import pools
from nri_coloc.sampling import cgroup_layout, descriptors
from nri_coloc.sampling import kubelet as kubelet_files
from nri_coloc.sampling.cgroup_reading import CgroupReader
from nri_coloc.sampling.fast import FastSampler
from nri_coloc.sampling.picture import PictureTaker
from nri_coloc.sampling.topology import memory_total
from nri_coloc.telemetry import logs
from nri_coloc.telemetry.audit import AuditLog
from nri_coloc.telemetry.metrics import Metrics

HOUSEKEEPING_S: Final = 1.0
"""Between two turns of the main thread; a comparison that is due comes in its own time, for it makes us ready."""

LOCK_AGAIN_S: Final = 0.5
"""Between two looks whether the former daemon has ended, which keeps ours from beginning."""

GC_THRESHOLD: Final = 50_000
"""Collections stop a hook for milliseconds; what lives long is frozen, and cycles are rare."""


class Daemon:
    """Everything, wired; `run` blocks until a signal."""

    def __init__(self, options: Options, settings: Settings, watch: SettingsWatch) -> None:
        self.settings = settings
        self._options = options
        self._ending = Ending()
        self._failed = False
        self._serves = False
        self._waits_for = ""
        self._http: HttpServer | None = None
        self._layout = cgroup_layout.detect(options.host_root)
        self._machine = Machine(options.host_root, self._layout)
        topology = self._machine.read()
        steering.refuse_full_reserve(topology.usable_by_all, settings)
        memory = memory_total(options.host_root)
        kubelet = KubeletWatch(options.host_root)
        tuning = kubelet.over(settings.tuning)
        self.node = Node(pools.initial(topology, tuning), tuning, memory)
        metrics = Metrics(_version(), lambda: self.node.state, keys.base_of)
        self.audit = AuditLog(1, settings.audit_ring, metrics.audit_lost)
        self.report = Report(self.audit, metrics)
        self._records = RecordsFile(options.state_dir, self.audit.kept, self._say_unread)
        self._lock = InstanceLock(options.state_dir)
        self._claim = RuntimeClaim()
        journal = str(Path(options.state_dir) / JOURNAL)
        self._journal = Journal(journal, options.host_root, Marks(self._layout.mounts))
        self._forecasts = ForecastFile(options.state_dir, self._say_unread)
        parts = self._lock, self._journal, (self._forecasts, self._records)
        self._state_folder = StateFolder(options.state_dir, *parts, self.report, self._observes)
        writer = CgroupWriter(self._layout, self._journal, options.host_root)
        self.actuator = Actuator(self.node, writer, self.report)
        self.report.lacking = lambda wanted: self.actuator.can.lacking(wanted)  # noqa: PLW0108 - `can` is replaced
        self.actuator.hints.can = probe.scheduling(options.host_root, self.report.log.warning)
        self.actuator.look_again = self._with_files_of_pods
        requests = PodRequests(writer, self._layout.version)
        self._translator = Translator(memory, tuning, requests, partial(specs.journalled, writer))
        self._wire_runtime(settings, writer)
        self._wire_lending(writer)
        crew = Crew(
            node=self.node,
            actuator=self.actuator,
            pusher=self.pusher,
            translator=self._translator,
            report=self.report,
            runtime=self.trunk,
        )
        self._steering = Steering(settings, self._machine, watch, kubelet, crew)
        staff = Staff(self.node, self._steering, self.lending, self.survey, self.actuator, self._comparison)
        self._admin = AdminSide(options.admin_socket, staff, self.report)
        ready = Readiness(self._checks())
        loops = Loops(self.lending, self.survey)
        self.view = DaemonView(self.node, self.actuator, ready, loops, self.report)

    def _wire_runtime(self, settings: Settings, writer: CgroupWriter) -> None:
        """Make what talks with the runtime: hooks and the trunk, the pusher, the comparison with CRI's list."""
        self._cri = CriSide(settings.cri_socket)
        updates = SpecUpdates(self._cri)
        verify = Verification(writer, self._layout.version)
        self.pusher = Pusher(self.node, updates, self.report, lambda: self.trunk.connected, verify)
        self.pusher.remember = partial(verification.remember, writer)
        self.pusher.within_pod = self._layout.version == 1
        self.pusher.place = self.actuator.bring
        self._hooks = Hooks(
            self.node,
            self.actuator,
            self.pusher,
            self._translator,
            self.report,
            look_at_kubelet=lambda: self._steering.look_at_kubelet(),  # noqa: PLW0108 - made later, beside the trunk
        )
        self._hooks.is_there = writer.is_there
        name, launched = (settings.plugin_name, settings.plugin_index), self._options.launched is not None
        self.trunk = trunk.Trunk(
            self._connector(), name, self._hooks, self.report, self._configured, once=launched
        )
        updates.native = self.trunk
        self._comparison = Comparison(self.node, self.trunk, self.actuator, self.report, self._cri)
        self._comparison.vanished = self.pusher.forget
        self._second_chances = SecondChances(
            self.node, self.actuator, self.pusher, self.report, lambda: self._comparison.complete
        )

    def _wire_lending(self, writer: CgroupWriter) -> None:
        """Make both loops, and what they move: the box's CPUs and memory, lent amounts, raised quotas."""
        root = self._options.host_root
        sampler = FastSampler(self._layout, root)
        self.lending = Lending(self.node, self.actuator, self.pusher, sampler, self.report)
        self._hooks.expecting_member = self.lending.expecting_member
        writer.wrote = self.lending.sentry.wrote
        self._hooks.expecting_list = self.lending.expecting_list
        self._memory_worker = MemoryWorker(self.node, writer, self.report)
        self.actuator.left_box = self._memory_worker.release
        self.actuator.later = self._memory_worker.later
        self._memory_worker.told_all = lambda: self.trunk.synchronized_at > 0.0
        self._cgroups = CgroupReader(self._layout, root)
        self.survey = self._make_survey()
        self.survey.host_groups = self.actuator.members_outside
        self.survey.listen = Waiting(sampler, self._cgroups).turn
        self.loans = Loans(
            self.node,
            lambda: self.survey.outlook.capacity,
            partial(memory_in_use, self._cgroups),
            self.report,
        )
        self.pusher.ease = self.loans.ease
        self._quota_bursts = QuotaBursts(
            self.node, self.actuator.bandwidths, self._cgroups, lambda: self.lending.headroom, self.report
        )
        self._quota_bursts.told_all = lambda: self.trunk.synchronized_at > 0.0

    def _make_survey(self) -> Survey:
        root = self._options.host_root
        memory = BoxMemory(self.node, self._memory_worker, self.report)
        return Survey(self.node, PictureTaker(self._layout, root), memory, self._forecasts, self.report)

    def _checks(self) -> tuple[Check, ...]:
        """Return all that `/readyz` shows, in its order."""
        root, clock = self._options.host_root, time.monotonic
        readings = (
            Reading("the fast loop last measured", lambda: self.lending.ticked_at, readiness.FAST_WITHIN_S),
            Reading(
                "the last picture of the node was taken",
                lambda: self.survey.looked_at,
                readiness.SLOW_WITHIN_S,
            ),
        )
        swept = Reading("cgroups were last read", lambda: self.actuator.swept_at, readiness.SWEPT_WITHIN_S)
        remarks = (partial(probe.remarks, self._layout, root), lambda: self._admin.problem)
        looks = {
            "connected": partial(readiness.connected, self.trunk, lambda: self._waits_for),
            "synchronised": partial(readiness.synchronised, self._comparison),
            "readings": partial(readiness.fresh, readings, swept, self.node, clock),
            "config": partial(readiness.config, lambda: self._steering.problem, remarks),
            "cgroups": partial(readiness.cgroups, self._no_place_for_cpus, self._narrow_cgroups),
        }
        required = (Check(name, look, required=True) for name, look in looks.items())
        return (
            *required,
            Check("state", partial(readiness.without, lambda: self._state_folder.problem)),
            Check("writes", partial(readiness.writes, self.report.unwritten, clock)),
            Check(
                "neighbours", partial(readiness.neighbours, self.report.neighbours, self._other_driver, clock)
            ),
        )

    def _other_driver(self) -> str:
        """Say what to do about another plugin that names CPUs, "" where the operator knows of it."""
        if self.node.tuning.dra_driver:
            return ""
        undone = self.report.neighbours.creations.words(time.monotonic())
        return undone or neighbours.driver_words(kubelet_files.driver_socket(self._options.host_root))

    def _no_place_for_cpus(self) -> str:
        state = self.node.state
        missing = probe.no_place_for_cpus(self._layout, targets.pod_paths(state))
        return missing or self._machine.problem(state)

    def _narrow_cgroups(self) -> str:
        return self._machine.remark(self.node.state)

    def _with_files_of_pods(self, known: Capability) -> Capability:
        pods = islice(targets.pod_paths(self.node.state), probe.PODS_LOOKED_AT)
        return probe.with_files_of_pods(self._layout, pods, known)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code."""
        self._ending.take_signals()
        threading.excepthook = self._thread_failed
        self.audit.start()
        self.report.said(AuditEvent.DAEMON_START, Reason.STARTED, f"nri-coloc {_version()}, {self._mode()}")
        if self._options.launched is None:
            self._start_http()
        self._wait_for_lock()
        if not self._ending.asked:
            self._serves = True
            self._state_folder.begin()
            self._records.load()
            self.actuator.can = probe.capability(self._layout, (0, 0, 0), self._options.host_root)
            self.actuator.start()
            self.pusher.start()
            self.lending.start()
            self.survey.start()
            self._start_trunk()
        pause_s = self._until_due()
        while not self._ending.wait(pause_s):
            # a comparison that failed is due at once, again and again
            pause_s = self._until_due() if self._tick() else HOUSEKEEPING_S
        return self._end()

    def _until_due(self) -> float:
        return min(HOUSEKEEPING_S, self._comparison.due_in(time.monotonic()))

    def _start_trunk(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        Thread(target=self._serve, name="trunk", daemon=True).start()

    def _serve(self) -> None:
        launched = self._options.launched is not None
        try:
            self.trunk.run()
        except Exception as error:
            self.report.log.exception("the trunk's thread failed; leaving", exc_info=error)
            self._failed = True
            self._ending.ask()
        if launched:
            # the runtime is gone and with it the only socket that we shall ever have
            self._ending.ask()

    def _tick(self) -> bool:
        """Take a turn of housekeeping, whatever one of its looks meets; whether all went well."""
        now = time.monotonic()
        self.view.alive_at = now
        steps: dict[str, Callable[[], object]] = {
            "claiming the runtime": self._claim_for_launched,
            "leaving who is superseded": self._leave_superseded,
            "comparing with CRI": partial(self._comparison.poll, now),
            "following settings and machine": partial(self._steering.look, now),
            "placing containers that wait for CPUs": partial(self._second_chances.look, now),
            "lending amounts": partial(self.loans.look, now, self.actuator, self.pusher),
            "raising quotas": partial(self._quota_bursts.look, now),
        }
        if self._serves:
            steps["keeping the state folder"] = partial(self._state_folder.look, now)
            steps["keeping the admin socket"] = partial(self._admin.look, now)
            steps["keeping records"] = partial(self._keep_records, now)
        return guarded.each(self.report.log, "a turn of housekeeping", steps)

    def _observes(self) -> bool:
        return self._steering.settings.tuning.observe

    def _end(self) -> int:
        settings = self._steering.settings
        restores = settings.restore_on_exit and not settings.tuning.observe
        ends = "everything is put back" if restores else "nothing is un-pinned"
        self.report.said(AuditEvent.DAEMON_STOP, Reason.SIGNALLED, f"stopping; {ends}")
        steps: dict[str, Callable[[], object]] = {
            "closing the admin socket": self._admin.close,
            "leaving the runtime": self.trunk.stop,
            "stopping the fast loop": self.lending.stop,
            "stopping what bounds memory": self._memory_worker.stop,
            "stopping the survey": self.survey.stop,
            "stopping what writes cgroups": self.actuator.stop,
            "stopping pushes": self.pusher.stop,
        }
        if self._serves:
            steps["taking raised quotas back"] = self._quota_bursts.end
        if self._serves and restores:
            steps["putting everything back"] = self._restore
        if self._http is not None:
            steps["closing HTTP"] = self._http.close
        went_well = guarded.each(self.report.log, "the daemon's end", steps)
        self.audit.close()
        if self._serves:
            self._records.save()
        return 0 if went_well and not self._failed else 1

    def _keep_records(self, now: float) -> None:
        """Save the records that explain the present, without those of containers that are gone."""
        state = self.node.state
        if self.node.told:
            uids = {place.pod.uid for place in state.pods.values()}
            self.audit.kept.prune(state.containers.keys(), uids)
        self._records.save_if_due(now)

    def _restore(self) -> None:
        """Put back what was ours, once nobody writes any more."""
        settings = self._steering.settings
        place = Place(self._journal, self._options.host_root, self._layout)
        runtime = RuntimeAt(settings.nri_socket, settings.cri_socket, settings.plugin_name)
        writers = (self.trunk, self.actuator, self.lending, self._memory_worker)
        for words in restoration.at_exit(place, runtime, writers, self.pusher, self.report.log):
            self.report.metrics.write_failed(LABEL)
            because, more = f"not restored at the end: {words}", {"inputs": {"file": LABEL, "error": words}}
            self.report.said(AuditEvent.WRITE_FAILED, Reason.REFUSED, because, extra=more)

    def _say_unread(self, sentence: str) -> None:
        """Report a file of the state folder that the daemon cannot go on with."""
        self.report.log.warning(sentence)
        self.report.said(AuditEvent.STATE_FOLDER, Reason.TAKEN_OVER, sentence)

    def _take_census(self) -> None:
        """Ask an old runtime that launched us for its list, as soon as its socket is there."""
        at = self.settings.nri_socket, self.settings.plugin_name
        listed = census.take_in_time(at, self._hooks.listing, self._wait_for, lambda: self._ending.asked)
        if listed is not None:
            self._hooks.learn(listed)
            self.trunk.took_list_from_elsewhere()

    # ---- settings ----

    def _configured(self, configured: events.Configured) -> None:
        """Learn what this runtime takes; a launched plugin may get its configuration here."""
        root = self._options.host_root
        pid = self.trunk.peer_pid
        self.actuator.can = probe.capability(self._layout, configured.nri_version, root, pid)
        if self._options.launched is None:
            return
        if configured.config.strip():
            self._begin_with(configured.config)
        self._start_http()
        if version.late_sync_leaves_zombie(configured.nri_version):
            Thread(target=self._take_census, name="census", daemon=True).start()

    def _begin_with(self, text: str) -> None:
        """Take over what the runtime hands to a plugin that it launched, sockets and ports included."""
        try:
            found = self._options.over(reader.load(text, "the runtime's plugin configuration"))
        except SettingsError as error:
            self._steering.refuse(error.sentence)
            return
        self.settings = found
        self._cri.socket_path = found.cri_socket
        self.audit.keep(found.audit_ring)
        self._steering.begin_with(found)

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

    def _leave_superseded(self) -> None:
        """Leave a program that took our connection, said nothing, and has another at its path by now.

        A registration has no deadline (the runtime takes plugins in one by one), so this alone tells one that will
        never answer from one whose turn for us is far off.
        """
        if self.trunk.connected or self._options.launched is not None:
            return
        if self._claim.superseded(self.settings.nri_socket):
            self.trunk.drop("another socket is at the runtime's path")

    def _start_http(self) -> None:
        if self.settings.http != "off":
            self._http = HttpServer(self.settings.http, self.view, self._http_waits)
            self._http.start()

    def _http_waits(self, sentence: str) -> None:
        self.report.log.warning(sentence)

    def _wait_for_lock(self) -> None:
        said = False
        while not self._lock.take() and not self._ending.wait(LOCK_AGAIN_S):
            self.view.alive_at = time.monotonic()
            self._wait_for("another nri-coloc holds the lock in the state folder; waiting for its end")
            if not said:
                self.report.log.info(self._waits_for)
                said = True
        self._wait_for("")

    def _wait_for(self, words: str) -> None:
        """Know what keeps us from the runtime, "" once nothing does."""
        self._waits_for = words

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread else "unknown"
        self.report.log.error("a thread ended by a failure of ours", thread=name, exc_info=failure.exc_value)

    def _mode(self) -> str:
        return "observe: nothing is changed" if self.settings.tuning.observe else "enforce"


def _version() -> str:
    try:
        return package_version("nri-coloc")
    except PackageNotFoundError:
        return "unknown"


def run(options: Options) -> int:
    """Read the configuration and serve; SettingsError for what the operator must mend first."""
    # before the file is read: a change in between must be seen
    watch = SettingsWatch(options.config, options.over)
    settings = options.over(
        reader.read(options.config) if options.config else reader.load("", "the defaults")
    )
    logs.configure(settings.log_level)
    descriptors.raise_soft_limit()
    return Daemon(options, settings, watch).run()
