"""All parts of the daemon together."""

from dataclasses import dataclass

from nri_coloc.hooks.common_steps import Seams
from nri_coloc.service.hotplug import Hotplug
from nri_coloc.service.parts.cluster import ClusterParts
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.forecast import ForecastParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.parts.hooks import HookParts
from nri_coloc.service.parts.lending import LendingParts
from nri_coloc.service.parts.runtime import RuntimeParts
from nri_coloc.service.steering import Steering


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All long-lived objects, without the operator's side, which reads all of them.

    ground: the machine, the settings in force, the state, the reports, and the inboxes.
    files: the state folder, and the objects that write cgroups' files.
    forecast: the slow loop, and the amounts that follow from it.
    runtime: the connection to the runtime, and the specs that it stores.
    lending: the fast loop, quota bursts, and the ladder of pressure.
    steering: follows the settings file, the schedule and the kubelet.
    hotplug: follows the CPUs of the machine.
    hooks: the answers to the runtime, and the comparison with its list.
    cluster: the companion's socket and drains.
    seams: the three seams around a decision.
    """

    ground: GroundParts
    files: FileParts
    forecast: ForecastParts
    runtime: RuntimeParts
    lending: LendingParts
    steering: Steering
    hotplug: Hotplug
    hooks: HookParts
    cluster: ClusterParts
    seams: Seams
