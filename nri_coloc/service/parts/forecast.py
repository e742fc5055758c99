"""The slow loop, and the amounts that follow from it."""

from functools import partial

from nri_coloc.forecast.node_snapshots import NodeSnapshots
from nri_coloc.forecast.slow_loop import Conclusions, Survey
from nri_coloc.forecast.snapshot import PictureTaker
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending.delayed_tasks import DelayedTasks
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.memory.bounds import BoxMemory
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.tuning.loans import Loans, memory_in_use


class ForecastParts:
    """The slow loop. `sampler` reads the fast loop's counters, for which the slow loop selects tasks."""

    def __init__(self, ground: GroundParts, files: FileParts) -> None:
        node, report, layout = ground.node, ground.report, ground.layout
        root, host_groups = ground.options.host_root, files.actuator.host_groups
        self.cgroups = CgroupReader(layout, root)
        self.sampler = FastSampler(layout, root)
        self.box_memory = BoxMemory(node, files.memory_worker, report)
        self.survey = survey = Survey(
            node,
            NodeSnapshots(node, PictureTaker(layout, root), lambda: host_groups.members),
            Conclusions(self.box_memory, files.forecasts, report),
            report,
            listen=DelayedTasks(self.sampler, self.cgroups).turn,
        )
        self.loans = Loans(node, lambda: survey.offer.capacity, partial(memory_in_use, self.cgroups), report)
