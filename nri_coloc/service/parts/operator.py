"""The admin socket, readiness and HTTP, and the Events of the node that follow from readiness."""

import time
from collections.abc import Callable
from functools import partial

from nri_coloc.host import kubelet as kubelet_files
from nri_coloc.repair import neighbours, targets
from nri_coloc.service import probe, readiness
from nri_coloc.service.admin_orders import AdminOrders, AdminSide
from nri_coloc.service.daemon_view import DaemonView
from nri_coloc.service.http import HttpServer
from nri_coloc.service.lending_view import LendingView, PressureView
from nri_coloc.service.node_watch import NodeWatch
from nri_coloc.service.parts.daemon import Parts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.readiness import (
    FAST_WITHIN_S,
    SLOW_WITHIN_S,
    SWEPT_WITHIN_S,
    Check,
    Readiness,
    Reading,
)
from nri_coloc.service.remarks import remarks
from nri_coloc.service.settings_orders import SettingsOrders


class OperatorParts:
    """The objects that an operator touches."""

    def __init__(self, parts: Parts) -> None:
        ground, cluster = parts.ground, parts.cluster
        self.admin = _admin(parts)
        checks = (*_required_checks(parts, self.admin), *_other_checks(parts))
        self.view = DaemonView(
            ground.node,
            ground.report,
            actuator=parts.files.actuator,
            readiness=Readiness(checks),
            offer=cluster.offer,
            lending=LendingView(ground.clock, _pressure(parts), partial(_remarks, parts)),
        )
        self.http = HttpServer(self.view, ground.report.log.warning)
        self.node_watch = NodeWatch(
            ground.events,
            lending=cluster.state.lending,
            checks=self.view.readiness,
            is_on=partial(_has_events, ground),
        )


def _remarks(parts: Parts) -> tuple[str, ...]:
    return (*remarks(parts.ground.in_force.settings), *parts.files.machine_fit.unfit)


def _pressure(parts: Parts) -> PressureView:
    lending = parts.lending
    return PressureView(
        disks=lending.disks,
        pressure=lending.pressure,
        degrader=lending.degrader,
        reclaimer=lending.reclaimer,
        evictor=lending.evictor,
    )


def _admin(parts: Parts) -> AdminSide:
    ground = parts.ground
    settings = SettingsOrders(
        ground.node,
        ground.report,
        parts.steering,
        loops=(parts.lending.loop, parts.forecast.survey),
        switch=ground.switch,
        drain=parts.cluster.drain,
    )
    orders = AdminOrders(
        ground.node,
        ground.report,
        settings=settings,
        actuator=parts.files.actuator,
        comparison=parts.hooks.comparison,
        evictions=ground.evictions,
    )
    return AdminSide(ground.options.admin_socket, orders, ground.report)


def _has_events(ground: GroundParts) -> bool:
    kubernetes = ground.in_force.settings.kubernetes
    return kubernetes.report and kubernetes.events


# ---- what `/readyz` shows, in its order ----


def _required_checks(parts: Parts, admin: AdminSide) -> tuple[Check, ...]:
    ground, lending, survey = parts.ground, parts.lending.loop, parts.forecast.survey
    readings = (
        Reading("the fast loop last measured", lambda: lending.ticked_at, FAST_WITHIN_S),
        Reading("the last snapshot of the node was taken", lambda: survey.looked_at, SLOW_WITHIN_S),
    )
    swept = Reading("cgroups were last read", lambda: parts.files.actuator.swept_at, SWEPT_WITHIN_S)
    of_machine = (
        partial(probe.remarks, ground.layout, ground.options.host_root),
        lambda: admin.problem,
        lambda: parts.cluster.companion.problem,
        lambda: ground.kubelet.remark(ground.node.tuning),
        lambda: "; ".join(parts.files.machine_fit.unfit),
    )
    looks: dict[str, Callable[[], readiness.Finding]] = {
        "connected": partial(readiness.connected, parts.runtime.connection),
        "synchronised": partial(readiness.synchronised, parts.hooks.comparison),
        "readings": partial(readiness.fresh, readings, swept, ground.node, time.monotonic),
        "config": partial(readiness.config, lambda: parts.steering.problem, of_machine),
        "cgroups": partial(
            readiness.cgroups,
            partial(_no_place_for_cpus, ground),
            lambda: ground.machine.remark(ground.node.state),
        ),
    }
    return tuple(Check(name, look, required=True) for name, look in looks.items())


def _other_checks(parts: Parts) -> tuple[Check, ...]:
    report, clock = parts.ground.report, time.monotonic
    driver = partial(_other_driver, parts.ground)
    return (
        Check("state", partial(readiness.without, lambda: parts.files.state_folder.problem)),
        Check("writes", partial(readiness.writes, report.unwritten, clock)),
        Check("neighbours", partial(readiness.neighbours, report.neighbours, driver, clock)),
    )


def _other_driver(ground: GroundParts) -> str:
    """Return the advice about another plugin that names CPUs, "" for none."""
    if ground.node.tuning.dra_driver:
        return ""
    undone = ground.report.neighbours.creations.words(time.monotonic())
    return undone or neighbours.driver_words(kubelet_files.driver_socket(ground.options.host_root))


def _no_place_for_cpus(ground: GroundParts) -> str:
    """Return why pods' CPUs cannot be set, "" if they can."""
    state = ground.node.state
    return probe.no_place_for_cpus(ground.layout, targets.pod_paths(state)) or ground.machine.problem(state)
