"""Put the daemon together: read it from top to bottom, and every object has all that it needs when it is made.

The folder `parts` has one module for each step. Nothing is attached to an object later. Facts that become known later
are values: the state, the settings in force, the capabilities of kernel and runtime (`Node`, `InForce`, `Connection`).
"""

from functools import partial
from typing import NamedTuple

from nri_coloc.core.seams import After
from nri_coloc.core.settings import Settings
from nri_coloc.hooks.common_steps import CgroupSteps, Seams, Steps
from nri_coloc.hooks.pod_requests import PodRequests
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri.calls import HookKind
from nri_coloc.runtime import stored_specs
from nri_coloc.service.hotplug import Hotplug
from nri_coloc.service.options import Options
from nri_coloc.service.parts.cluster import ClusterParts
from nri_coloc.service.parts.daemon import Parts
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.forecast import ForecastParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.parts.hooks import HookParts
from nri_coloc.service.parts.lending import LendingParts
from nri_coloc.service.parts.operator import OperatorParts
from nri_coloc.service.parts.runtime import RuntimeParts
from nri_coloc.service.retuning import Retuning
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.service.steering import Steering


class Wired(NamedTuple):
    """The daemon: its parts, and the objects that an operator touches."""

    parts: Parts
    operator: OperatorParts


def wire(options: Options, settings: Settings, watch: SettingsWatch) -> Wired:
    """Return the daemon, complete and not started."""
    ground = GroundParts(options, settings)
    files = FileParts(ground)
    forecast = ForecastParts(ground, files)
    runtime = RuntimeParts(ground, files, forecast)

    # observers of every decision: files first, then stored specs, then the records
    after = (files.actuator.changed, runtime.pusher.changed, ground.report.changed)
    lending = LendingParts(ground, files, forecast, after=after)
    # entered around a hook's decision: lending sizes the reclaim pool before the first reclaimed pod
    prepare = (lending.loop.prepare,)
    translator = _translator(ground, files)
    retuning = _retuning(ground, translator, after)
    hotplug = Hotplug(ground.node, ground.machine, retuning, ground.report)
    before_answer = _before_answer(CgroupSteps(ground.node, files.actuator, ground.report), hotplug)
    seams = Seams(prepare, before_answer, after)

    steering = _steering(ground, runtime, retuning, watch)
    hooks = HookParts(ground, files, runtime, steering=steering, translator=translator, seams=seams)
    cluster = ClusterParts(ground, forecast, lending, after=after)
    parts = Parts(
        ground=ground,
        files=files,
        forecast=forecast,
        runtime=runtime,
        lending=lending,
        steering=steering,
        hotplug=hotplug,
        hooks=hooks,
        cluster=cluster,
        seams=seams,
    )
    return Wired(parts, OperatorParts(parts))


def _before_answer(steps: CgroupSteps, hotplug: Hotplug) -> Steps:
    """Return the steps that each kind of hook takes before its answer.

    The runtime must find some cgroups written, and some CPUs must be free by then.
    """
    return {
        HookKind.RUN_POD_SANDBOX: (hotplug.place_pod, steps.place_pod),
        HookKind.CREATE_CONTAINER: (steps.widen_pod,),
        HookKind.POST_CREATE_CONTAINER: (steps.place_moved_pod,),
        HookKind.START_CONTAINER: (steps.move_others, steps.place_start, steps.wait_for_own_cpus),
        HookKind.UPDATE_CONTAINER: (steps.leave_own, steps.move_others, steps.wait_for_own_cpus),
    }


def _retuning(ground: GroundParts, translator: Translator, after: After) -> Retuning:
    """Return the object that puts a new tuning in force, as one event."""
    return Retuning(
        ground.in_force,
        ground.node,
        kubelet=ground.kubelet,
        clock=ground.clock,
        translator=translator,
        after=after,
    )


def _steering(
    ground: GroundParts, runtime: RuntimeParts, retuning: Retuning, watch: SettingsWatch
) -> Steering:
    """Return the object that follows the settings file, the schedule and the kubelet."""
    return Steering(
        retuning,
        ground.report,
        watch=watch,
        kubelet=ground.kubelet,
        clock=ground.clock,
        runtime=runtime.connection,
    )


def _translator(ground: GroundParts, files: FileParts) -> Translator:
    """Return the reader of pods and containers: messages and annotations become events."""
    return Translator(
        ground.node.memory_bytes,
        ground.node.tuning,
        PodRequests(files.writer, ground.layout.version),
        partial(stored_specs.journalled, files.writer),
    )
