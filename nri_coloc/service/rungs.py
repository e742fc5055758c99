"""Build the rungs of the ladder of pressure: verdicts with their limits, starved pods, and evictions."""

from collections.abc import Callable
from typing import NamedTuple

from nri_coloc.core.lending import Headroom
from nri_coloc.core.readings import Picture
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.stall_readings import StallReader
from nri_coloc.placing.node import Node
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.starved_pods import StarvedPods
from nri_coloc.service.cool_down import CoolDown
from nri_coloc.service.evictions import EvictionOrders
from nri_coloc.service.report import Report


class Rungs(NamedTuple):
    """The rungs, the mildest first: limits, records of starved pods, and evictions if nothing milder helps."""

    pressure: Pressure
    starved_pods: StarvedPods
    evictor: Evictor


def rungs(
    node: Node,
    machine: tuple[CgroupLayout, str],
    writer: CgroupWriter,
    report: Report,
    *,
    picture: Callable[[], Picture | None],
    headroom: Callable[[], Headroom],
    orders: EvictionOrders,
    cool_down: CoolDown,
) -> Rungs:
    """Return the ladder.

    picture: returns the newest snapshot.
    headroom: returns what may be lent now.
    """
    pressure = Pressure(node, StallReader(*machine), writer, report)
    starved_pods = StarvedPods(node, report, picture=picture, headroom=headroom)
    evictor = Evictor(
        node,
        MemoryLeftReader(*machine),
        starved=starved_pods,
        ladder=pressure,
        orders=orders,
        report=report,
        begun=cool_down.begun(),
        keep=cool_down.keep,
    )
    return Rungs(pressure, starved_pods, evictor)
