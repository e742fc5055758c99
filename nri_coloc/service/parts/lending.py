"""The fast loop, quota bursts, and the ladder of pressure: the mildest rung first."""

import platform

from nri_coloc.core.seams import After
from nri_coloc.host.disk_left import DiskLeftReader
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.memory_reclaim import MemoryReclaim
from nri_coloc.host.stall_readings import OpenStalls, StallReader
from nri_coloc.lending.loop import Lending
from nri_coloc.lending.relocation import Relocation
from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.disks import Disks
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.reclaim_worker import ReclaimWorker
from nri_coloc.pressure.reclaimer import Reclaimer, gives_memory
from nri_coloc.pressure.shortages import Shortages
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.service import probe
from nri_coloc.service.cool_down import CoolDown
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.forecast import ForecastParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.tuning.quota_burst_loop import QuotaBurstLoop


class LendingParts:
    """The loops that act within seconds."""

    def __init__(
        self, ground: GroundParts, files: FileParts, forecast: ForecastParts, *, after: After
    ) -> None:
        node, report = ground.node, ground.report
        self.loop = loop = Lending(
            node,
            files.actuator,
            forecast.sampler,
            report,
            relocation=Relocation(
                node, files.actuator, files.file_watch, after=after, eevdf=probe.eevdf(platform.release())
            ),
            file_watch=files.file_watch,
        )
        self.quota_burst_loop = QuotaBurstLoop(
            node, files.bandwidths, forecast.cgroups, lambda: loop.headroom, report
        )
        machine = (ground.layout, ground.options.host_root)
        left, memory = MemoryLeftReader(*machine), MemoryReclaim(*machine)
        stalls = StallReader(*machine)
        self.pressure = Pressure(node, stalls, files.writer, report, disk_stalls=OpenStalls(ground.layout))
        self.degrader = Degrader(
            node, forecast.cgroups, judge=self.pressure, quotas=files.bandwidths, report=report
        )
        self.reclaim_worker = ReclaimWorker(memory, lambda pod_id: gives_memory(node.state, pod_id))
        self.reclaimer = Reclaimer(
            node, left, memory, worker=self.reclaim_worker, ladder=self.pressure, report=report
        )
        self.disks = Disks(node, DiskLeftReader(ground.options.host_root), report)
        self.starved_pods = StarvedPods(
            node, report, picture=lambda: forecast.survey.picture, headroom=lambda: loop.headroom
        )
        self.evictor = Evictor(
            node,
            Shortages(left, stalls, starved=self.starved_pods, disks=self.disks, ladder=self.pressure),
            orders=ground.evictions,
            report=report,
            cool_down=CoolDown(ground.options.state_dir, ground.clocks),
        )
