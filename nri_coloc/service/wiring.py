"""Put the daemon together: read it from top to bottom, and every object has all that it needs when it is made.

First come machine, state and audit. Then come the objects that write, the loops that measure, the runtime's side, and
the operator's side. Nothing is attached to an object later. Facts that become known later are values: the state, the
settings in force, the capabilities of kernel and runtime (`Node`, `InForce`, `Connection`).

Objects are connected at the seams that `seams` describes:
    prepare        entered around a hook's decision; lending sizes the reclaim pool before the first reclaimed pod
    before_answer  steps by kind of hook: cgroups that the runtime must find written, CPUs that must be free by then
    after          observers of every decision, each with a queue of its own: files, stored specs, records
"""

import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from itertools import islice
from pathlib import Path

from nri_coloc.core.knobs import Capability
from nri_coloc.core.seams import After
from nri_coloc.core.settings import Settings
from nri_coloc.forecast.forecast_file import ForecastFile
from nri_coloc.forecast.slow_loop import Survey
from nri_coloc.forecast.snapshot import PictureTaker
from nri_coloc.hooks.before_answer import CgroupSteps
from nri_coloc.hooks.common_steps import Steps
from nri_coloc.hooks.dispatch import Hooks
from nri_coloc.hooks.pod_requests import PodRequests
from nri_coloc.hooks.second_chances import SecondChances
from nri_coloc.hooks.translation import Translator
from nri_coloc.hooks.trunk import Trunk
from nri_coloc.host import cgroup_layout
from nri_coloc.host import kubelet as kubelet_files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal, boot_of
from nri_coloc.host.marks import Marks
from nri_coloc.host.readings import CgroupReader
from nri_coloc.host.sysfs import memory_total
from nri_coloc.kubernetes.event_box import EventBox
from nri_coloc.kubernetes.serving import CompanionServer
from nri_coloc.lending.delayed_tasks import DelayedTasks
from nri_coloc.lending.file_watch import FileWatch
from nri_coloc.lending.loop import Lending
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.memory.bounds import BoxMemory
from nri_coloc.memory.worker import MemoryWorker
from nri_coloc.nri.calls import HookKind
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.pods import keys
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.repair import neighbours, targets
from nri_coloc.repair.actuator import Actuator
from nri_coloc.restore.restoration import JOURNAL
from nri_coloc.runtime import stored_specs
from nri_coloc.runtime.comparison import Comparison
from nri_coloc.runtime.connection import Connection, connect_to
from nri_coloc.runtime.cri_side import CriSide
from nri_coloc.runtime.pusher import Pusher
from nri_coloc.runtime.verification import Verification
from nri_coloc.schedule import Clocks
from nri_coloc.service import probe, readiness, rungs, steering
from nri_coloc.service.admin_orders import AdminOrders, AdminSide
from nri_coloc.service.audit import AuditLog
from nri_coloc.service.companion_state import ClusterSide
from nri_coloc.service.cool_down import CoolDown
from nri_coloc.service.daemon_view import DaemonView
from nri_coloc.service.drain import Drain
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.http import HttpServer
from nri_coloc.service.instance_lock import InstanceLock
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.lending_switch import LendingSwitch
from nri_coloc.service.machine import Machine
from nri_coloc.service.metrics import Metrics
from nri_coloc.service.node_watch import NodeWatch
from nri_coloc.service.offer_view import OfferView
from nri_coloc.service.options import Options
from nri_coloc.service.readiness import Check, Readiness, Reading
from nri_coloc.service.records_file import RecordsFile
from nri_coloc.service.report import Report
from nri_coloc.service.runtime_claim import RuntimeClaim
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.service.state_folder import StateFolder
from nri_coloc.service.steering import InForce, Steering
from nri_coloc.tuning.bandwidths import PodBandwidths
from nri_coloc.tuning.hints import Hints
from nri_coloc.tuning.loans import Loans, memory_in_use
from nri_coloc.tuning.quota_burst_loop import QuotaBurstLoop
from nri_coloc.tuning.scores import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The long-lived objects that `runner` starts, turns and stops."""

    options: Options
    in_force: InForce
    layout: CgroupLayout
    node: Node
    audit: AuditLog
    report: Report
    records: RecordsFile
    lock: InstanceLock
    claim: RuntimeClaim
    journal: Journal
    state_folder: StateFolder
    actuator: Actuator
    memory_worker: MemoryWorker
    lending: Lending
    survey: Survey
    loans: Loans
    quota_burst_loop: QuotaBurstLoop
    pressure: Pressure
    evictor: Evictor
    connection: Connection
    pusher: Pusher
    steering: Steering
    switch: LendingSwitch
    hooks: Hooks
    trunk: Trunk
    comparison: Comparison
    second_chances: SecondChances
    starved_pods: StarvedPods
    after: After
    admin: AdminSide
    companion: CompanionServer
    node_watch: NodeWatch
    evictions: EvictionOrders
    drain: Drain
    view: DaemonView
    http: HttpServer


def wire(options: Options, settings: Settings, watch: SettingsWatch) -> Parts:
    """Return all parts, each complete and none started."""
    root = options.host_root

    # the machine, the state, and the reports on it
    layout = cgroup_layout.detect(root)
    machine = Machine(root, layout)
    topology = machine.read()
    steering.refuse_full_reserve(topology.usable_by_all, settings)
    in_force = InForce(settings)
    kubelet = KubeletWatch(root)
    switch = LendingSwitch(options.state_dir, partial(_clocks, boot_of(root)))
    clock = LendingClock(settings.schedule, time.time, switch)
    tuning = clock.over(kubelet.over(settings.tuning))
    node = Node(pools.initial(topology, tuning), tuning, memory_total(root))
    metrics = Metrics(version(), lambda: node.state, keys.base_of)
    events = EventBox()
    audit = AuditLog(1, settings.audit_ring, metrics.audit_lost, followers=(events.record,))
    report = Report(audit, metrics, node.lacking)
    evictions = EvictionOrders(
        report,
        may_evict=lambda: in_force.settings.kubernetes.evict,
        observes=lambda: node.tuning.observe,
    )

    # the state folder and its files
    lock = InstanceLock(options.state_dir)
    journal = Journal(str(Path(options.state_dir) / JOURNAL), root, Marks(layout.mounts))
    forecasts = ForecastFile(options.state_dir, report.unread_file)
    records = RecordsFile(options.state_dir, audit.kept, report.unread_file)
    state_folder = StateFolder(
        options.state_dir, lock, journal, (forecasts, records, switch), report, lambda: node.tuning.observe
    )

    # the objects that write files
    file_watch = FileWatch(report)
    writer = CgroupWriter(layout, journal, root, file_watch.wrote)
    memory_worker = MemoryWorker(node, writer, report)
    bandwidths = PodBandwidths(node, writer, report)
    actuator = Actuator(
        node,
        writer,
        report,
        memory=memory_worker,
        bandwidths=bandwidths,
        hints=Hints(node, writer, report, probe.scheduling(root, report.log.warning)),
        scores=Scores(node, writer, report),
        look_again=partial(_with_files_of_pods, layout, node),
    )

    # the slow loop, and the amounts that follow from it
    cgroups = CgroupReader(layout, root)
    sampler = FastSampler(layout, root)
    box_memory = BoxMemory(node, memory_worker, report)
    survey = Survey(
        node,
        PictureTaker(layout, root),
        box_memory,
        forecasts,
        report,
        host_groups=actuator.members_outside,
        listen=DelayedTasks(sampler, cgroups).turn,
    )
    loans = Loans(node, lambda: survey.offer.capacity, partial(memory_in_use, cgroups), report)

    # the runtime's side, up to the specs that it stores
    connection = Connection(report, once=options.launched is not None)
    cri = CriSide(lambda: in_force.settings.cri_socket)
    pusher = Pusher(
        node,
        report,
        relay=cri,
        runtime=connection,
        loans=loans,
        files=Verification(writer, layout.version),
        place=actuator,
    )

    # observers of every decision: files first, then stored specs, then the records
    after = (actuator.changed, pusher.changed, report.changed)

    # the fast loop
    lending = Lending(
        node,
        actuator,
        sampler,
        report,
        file_watch=file_watch,
        after=after,
        eevdf=probe.eevdf(platform.release()),
    )
    ladder = rungs.rungs(
        node,
        (layout, root),
        writer,
        report,
        picture=lambda: survey.picture,
        headroom=lambda: lending.headroom,
        orders=evictions,
        cool_down=CoolDown(options.state_dir),
    )

    # settings and machine followed while it runs
    translator = Translator(
        node.memory_bytes,
        tuning,
        PodRequests(writer, layout.version),
        partial(stored_specs.journalled, writer),
    )
    steered = Steering(
        in_force,
        node,
        report,
        machine=machine,
        watch=watch,
        kubelet=kubelet,
        clock=clock,
        translator=translator,
        runtime=connection,
        after=after,
    )

    # hooks
    hooks = Hooks(
        node,
        actuator,
        pusher,
        translator,
        report,
        kubelet=steered,
        prepare=(lending.prepare,),
        before_answer=_before_answer(CgroupSteps(node, actuator, report)),
        after=after,
        is_there=writer.is_there,
    )
    claim = RuntimeClaim()
    comparison = Comparison(node, connection, report, listing=cri, after=after)

    # the companion's side
    offer = OfferView(node, clock=clock, lending=lending, survey=survey, memory=box_memory)
    cluster_side = ClusterSide(node, offer, clock=clock, survey=survey, evictor=ladder.evictor, after=after)
    companion = CompanionServer(
        options.cluster_socket,
        cluster_side,
        orders=evictions,
        events=events,
        version=version(),
        log=report.log,
    )

    # the operator's side
    drain = Drain(node, evictions)
    admin = AdminSide(
        options.admin_socket,
        AdminOrders(
            node,
            report,
            steering=steered,
            lending=lending,
            survey=survey,
            actuator=actuator,
            comparison=comparison,
            switch=switch,
            evictions=evictions,
            drain=drain,
        ),
        report,
    )
    required = _required_checks(
        connection,
        comparison,
        readings=(
            Reading("the fast loop last measured", lambda: lending.ticked_at, readiness.FAST_WITHIN_S),
            Reading(
                "the last snapshot of the node was taken", lambda: survey.looked_at, readiness.SLOW_WITHIN_S
            ),
        ),
        swept=Reading("cgroups were last read", lambda: actuator.swept_at, readiness.SWEPT_WITHIN_S),
        node=node,
        config=partial(
            readiness.config,
            lambda: steered.problem,
            (partial(probe.remarks, layout, root), lambda: admin.problem, lambda: companion.problem),
        ),
        cgroups=partial(
            readiness.cgroups,
            partial(_no_place_for_cpus, layout, machine, node),
            lambda: machine.remark(node.state),
        ),
    )
    view = DaemonView(
        node,
        report,
        actuator=actuator,
        readiness=Readiness((*required, *_other_checks(node, report, root, lambda: state_folder.problem))),
        clock=clock,
        offer=offer,
        pressure=ladder.pressure,
        evictor=ladder.evictor,
    )
    return Parts(
        options=options,
        in_force=in_force,
        layout=layout,
        node=node,
        audit=audit,
        report=report,
        records=records,
        lock=lock,
        claim=claim,
        journal=journal,
        state_folder=state_folder,
        actuator=actuator,
        memory_worker=memory_worker,
        lending=lending,
        survey=survey,
        loans=loans,
        quota_burst_loop=QuotaBurstLoop(node, bandwidths, cgroups, lambda: lending.headroom, report),
        pressure=ladder.pressure,
        evictor=ladder.evictor,
        connection=connection,
        pusher=pusher,
        steering=steered,
        switch=switch,
        hooks=hooks,
        trunk=Trunk(
            connection,
            _connector(options, in_force, claim),
            (settings.plugin_name, settings.plugin_index),
            hooks,
            report,
        ),
        comparison=comparison,
        starved_pods=ladder.starved_pods,
        second_chances=SecondChances(
            node, actuator, report, after=after, knows_all=lambda: comparison.complete
        ),
        after=after,
        admin=admin,
        companion=companion,
        node_watch=NodeWatch(
            events,
            lending=cluster_side.lending,
            checks=view.readiness,
            is_on=lambda: in_force.settings.kubernetes.report and in_force.settings.kubernetes.events,
        ),
        evictions=evictions,
        drain=drain,
        view=view,
        http=HttpServer(view, report.log.warning),
    )


def version() -> str:
    try:
        return package_version("nri-coloc")
    except PackageNotFoundError:
        return "unknown"


def _before_answer(steps: CgroupSteps) -> Steps:
    """Return the steps that each kind of hook takes before its answer."""
    return {
        HookKind.RUN_POD_SANDBOX: (steps.place_pod,),
        HookKind.CREATE_CONTAINER: (steps.widen_pod,),
        HookKind.POST_CREATE_CONTAINER: (steps.place_moved_pod,),
        HookKind.START_CONTAINER: (steps.move_others, steps.place_start, steps.wait_for_own_cpus),
        HookKind.UPDATE_CONTAINER: (steps.leave_own, steps.move_others, steps.wait_for_own_cpus),
    }


# ---- what `/readyz` shows, in its order ----


def _required_checks(
    connection: Connection,
    comparison: Comparison,
    *,
    readings: tuple[Reading, ...],
    swept: Reading,
    node: Node,
    config: Callable[[], readiness.Finding],
    cgroups: Callable[[], readiness.Finding],
) -> tuple[Check, ...]:
    looks: dict[str, Callable[[], readiness.Finding]] = {
        "connected": partial(readiness.connected, connection),
        "synchronised": partial(readiness.synchronised, comparison),
        "readings": partial(readiness.fresh, readings, swept, node, time.monotonic),
        "config": config,
        "cgroups": cgroups,
    }
    return tuple(Check(name, look, required=True) for name, look in looks.items())


def _other_checks(
    node: Node, report: Report, root: str, folder_problem: Callable[[], str]
) -> tuple[Check, ...]:
    clock = time.monotonic
    driver = partial(_other_driver, node, report, root)
    return (
        Check("state", partial(readiness.without, folder_problem)),
        Check("writes", partial(readiness.writes, report.unwritten, clock)),
        Check("neighbours", partial(readiness.neighbours, report.neighbours, driver, clock)),
    )


def _other_driver(node: Node, report: Report, root: str) -> str:
    """Return the advice about another plugin that names CPUs, "" for none."""
    if node.tuning.dra_driver:
        return ""
    undone = report.neighbours.creations.words(time.monotonic())
    return undone or neighbours.driver_words(kubelet_files.driver_socket(root))


def _no_place_for_cpus(layout: CgroupLayout, machine: Machine, node: Node) -> str:
    """Return why pods' CPUs cannot be set, "" if they can."""
    state = node.state
    return probe.no_place_for_cpus(layout, targets.pod_paths(state)) or machine.problem(state)


# ---- small functions that objects are given ----


def _clocks(boot: str) -> Clocks:
    return Clocks(boot, time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


def _with_files_of_pods(layout: CgroupLayout, node: Node, known: Capability) -> Capability:
    pods = islice(targets.pod_paths(node.state), probe.PODS_LOOKED_AT)
    return probe.with_files_of_pods(layout, pods, known)


def _connector(options: Options, in_force: InForce, claim: RuntimeClaim) -> Callable[[], socket.socket]:
    """Return a function that connects to the runtime.

    A launched plugin uses the socket that it was given; any other daemon claims the runtime first.
    """
    launched = options.launched
    if launched is not None:
        return lambda: socket.socket(fileno=os.dup(launched.fd))

    def connect() -> socket.socket:
        claim.take(in_force.settings.nri_socket)
        return connect_to(in_force.settings.nri_socket)

    return connect
