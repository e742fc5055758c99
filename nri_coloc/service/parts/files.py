"""The state folder, and the objects that write cgroups' files."""

from functools import partial
from pathlib import Path

from nri_coloc.core.knobs import Capability
from nri_coloc.forecast.forecast_file import ForecastFile
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.marks import Marks
from nri_coloc.lending.relocation import FileWatch
from nri_coloc.memory.worker import MemoryWorker
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.actuator import Actuator
from nri_coloc.restore.restoration import JOURNAL
from nri_coloc.service import probe
from nri_coloc.service.instance_lock import InstanceLock
from nri_coloc.service.machine_fit import MachineFit
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.records_file import RecordsFile
from nri_coloc.service.state_folder import StateFolder
from nri_coloc.tuning.bandwidths import PodBandwidths
from nri_coloc.tuning.hints import Hints
from nri_coloc.tuning.scores import Scores


class FileParts:
    """The parts that write files; `writer` writes all files of cgroups."""

    def __init__(self, ground: GroundParts) -> None:
        node, report, layout, options = ground.node, ground.report, ground.layout, ground.options
        root, folder = options.host_root, options.state_dir
        self.lock = InstanceLock(folder)
        self.journal = Journal(str(Path(folder) / JOURNAL), root, Marks(layout.mounts))
        self.forecasts = ForecastFile(folder, report.unread_file)
        self.records = RecordsFile(folder, ground.audit.kept, report.unread_file)
        self.state_folder = StateFolder(
            folder=folder,
            lock=self.lock,
            journal=self.journal,
            others=(self.forecasts, self.records, ground.switch),
            report=report,
            observes=lambda: node.tuning.observe,
        )
        self.file_watch = FileWatch(report)
        self.writer = CgroupWriter(layout, self.journal, root, self.file_watch.wrote)
        self.memory_worker = MemoryWorker(node, self.writer, report)
        self.bandwidths = PodBandwidths(node, self.writer, report)
        self.actuator = Actuator(
            node,
            self.writer,
            report,
            memory=self.memory_worker,
            bandwidths=self.bandwidths,
            hints=Hints(node, self.writer, report, probe.scheduling(root, report.log.warning)),
            scores=Scores(node, self.writer, report),
            look_again=partial(_with_files_of_pods, layout, node),
        )
        self.machine_fit = MachineFit(ground.in_force, node, self.actuator.host_groups, report)


def _with_files_of_pods(layout: CgroupLayout, node: Node, known: Capability) -> Capability:
    return probe.with_files_of_pods(layout, targets.pod_paths(node.state), known)
