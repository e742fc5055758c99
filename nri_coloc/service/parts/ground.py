"""The machine, the settings in force, the state, the reports, and the inboxes: all other parts stand on them."""

import time
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from nri_coloc.core.settings import Settings
from nri_coloc.host import cgroup_layout
from nri_coloc.host.journal_file import boot_of
from nri_coloc.host.sysfs import memory_total
from nri_coloc.kubernetes.event_box import EventBox
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.pods import keys
from nri_coloc.schedule.switch import Clocks
from nri_coloc.service import steering
from nri_coloc.service.audit import AuditLog
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.lending_switch import LendingSwitch
from nri_coloc.service.machine import Machine
from nri_coloc.service.metrics import Metrics
from nri_coloc.service.options import Options
from nri_coloc.service.report import Report
from nri_coloc.service.retuning import InForce


class GroundParts:
    """The parts on which all others stand.

    events, evictions: inboxes, of Events for the companion and of orders for it. They exist before their readers.
    """

    def __init__(self, options: Options, settings: Settings) -> None:
        self.options, root = options, options.host_root
        self.layout = cgroup_layout.detect(root)
        self.machine = Machine(root, self.layout)
        topology = self.machine.read()
        steering.refuse_full_reserve(topology.usable_by_all, settings)
        self.in_force = in_force = InForce(settings)
        self.kubelet = KubeletWatch(root)
        self.clocks = partial(_clocks, boot_of(root))
        self.switch = LendingSwitch(options.state_dir, self.clocks)
        self.clock = LendingClock(settings.schedule, time.time, self.switch)
        tuning = self.clock.over(self.kubelet.over(settings.tuning))
        self.node = node = Node(pools.initial(topology, tuning), tuning, memory_total(root))
        self.version = _version()
        metrics = Metrics(self.version, lambda: node.state, keys.base_of)
        self.events = EventBox()
        self.audit = AuditLog(1, settings.audit_ring, metrics.audit_lost, followers=(self.events.record,))
        self.report = Report(self.audit, metrics, node.lacking)
        self.evictions = EvictionOrders(
            self.report,
            may_evict=lambda: in_force.settings.kubernetes.evict,
            observes=lambda: node.tuning.observe,
        )


def _version() -> str:
    try:
        return package_version("nri-coloc")
    except PackageNotFoundError:
        return "unknown"


def _clocks(boot: str) -> Clocks:
    return Clocks(boot, time.clock_gettime(time.CLOCK_BOOTTIME), time.time())
