"""Build the rungs of the ladder of pressure: verdicts with their limits, and evictions."""

from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.stall_readings import StallReader
from nri_coloc.placing.node import Node
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.service.cool_down import CoolDown
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.report import Report


def rungs(
    node: Node,
    machine: tuple[CgroupLayout, str],
    writer: CgroupWriter,
    report: Report,
    *,
    orders: EvictionOrders,
    cool_down: CoolDown,
) -> tuple[Pressure, Evictor]:
    """Return the ladder: verdicts with their limits, and evictions if these do not help."""
    stalls = StallReader(*machine)
    pressure = Pressure(node, stalls, writer, report)
    evictor = Evictor(
        node,
        MemoryLeftReader(*machine),
        stalls,
        ladder=pressure,
        orders=orders,
        report=report,
        begun=cool_down.begun(),
        keep=cool_down.keep,
    )
    return pressure, evictor
