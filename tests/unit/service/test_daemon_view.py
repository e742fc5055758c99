"""HTTP shows the daemon's health, state and capacity."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import ContainerStarting
from nri_coloc.core.lending import Binding, Capacity, Headroom
from nri_coloc.core.readings import DiskLeft
from nri_coloc.core.settings import ScheduleTuning
from nri_coloc.forecast.slow_loop import Survey
from nri_coloc.lending.loop import Lending
from nri_coloc.memory.bounds import BoxMemory
from nri_coloc.memory.headroom import MemoryHeadroom
from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.eviction import NO_PACE, Pace
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.reclaimer import Reclaimer
from nri_coloc.repair.actuator import Actuator
from nri_coloc.service.daemon_view import HEALTHY_WITHIN_S, DaemonView
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.lending_view import LendingView, PressureView
from nri_coloc.service.new_pods import NewPods
from nri_coloc.service.offer_view import OfferView
from nri_coloc.service.readiness import Readiness
from tests.unit.parts import Cgroups, a_node, a_report, a_switch, an_actuator, create
from tests.unit.placing import kit

DISKS: Any = SimpleNamespace(shortage="", left={"node": DiskLeft(100, 40, 0, 0)})
EVICTOR: Any = SimpleNamespace(pace=NO_PACE)


@pytest.fixture
def parts(tmp_path: Path) -> tuple[DaemonView, Any, Actuator]:
    node = a_node()
    report, _ = a_report(node)
    actuator = an_actuator(node, Cgroups().as_writer(), report)
    readiness = SimpleNamespace(checks=lambda: {"ready": False, "checks": {}})
    lending = cast("Lending", SimpleNamespace(headroom=Headroom(1500, 0, 300, Binding.DWELL)))
    clock = LendingClock(ScheduleTuning(), lambda: 0.0, a_switch(tmp_path))
    memory = cast(
        "BoxMemory", SimpleNamespace(headroom=MemoryHeadroom(7, Binding.FREE_MEMORY), headroom_bytes=7)
    )
    return (
        DaemonView(
            node,
            report,
            actuator=actuator,
            readiness=cast("Readiness", readiness),
            offer=OfferView(
                node,
                clock=clock,
                lending=lending,
                survey=a_survey(),
                memory=memory,
                new_pods=NewPods(EVICTOR, DISKS),
            ),
            lending=LendingView(
                clock,
                PressureView(
                    disks=DISKS,
                    pressure=cast("Pressure", SimpleNamespace(throttled={})),
                    degrader=cast("Degrader", SimpleNamespace(degraded={})),
                    reclaimer=cast("Reclaimer", SimpleNamespace(shown="none")),
                    evictor=EVICTOR,
                ),
                tuple,
            ),
        ),
        node,
        actuator,
    )


def a_survey() -> Survey:
    capacity = Capacity(1200, 5, Binding.FORECAST, "CPU 1200m = …")
    return cast("Survey", SimpleNamespace(offer=SimpleNamespace(capacity=capacity), picture=None))


def test_it_is_healthy_while_the_loop_turns(parts):
    view, _, _ = parts
    assert view.healthy()
    view.turned(time.monotonic() - HEALTHY_WITHIN_S - 1)
    assert not view.healthy()


def test_the_state_shows_what_was_decided_beside_what_was_read(parts):
    view, node, actuator = parts
    create(node, "app")
    create(node, "other")
    actuator.actual["app"] = kit.mask("0-3")
    shown = {one["id"]: (one["cpus"], one["actual_cpus"]) for one in view.state()["containers"]}
    assert shown == {"app": ("0-7", "0-3"), "other": ("0-7", "")}
    assert view.state()["mode"] == "enforce"


def test_the_state_shows_lending_by_the_clock(parts):
    assert parts[0].state()["lending"] == {
        "state": "Offline",
        "factor": 1.0,
        "until": None,
        "reason": "no_windows",
        "because": "the schedule has no windows (lend=100 %)",
        "switch": "on",
        "drains": False,
        "cooling_s": 0,
        "memory_taken_back": "none",
        "disk_short": "",
    }


def test_an_offer_that_was_withdrawn_is_not_shown(parts):
    view, node, _ = parts
    node.told = True
    node.tuning = replace(node.tuning, reclaim=replace(node.tuning.reclaim, lend=1.0, offer=0.0))
    shown = view.capacity()
    assert (shown["cpu_milli"], shown["memory_bytes"], shown["reason"]) == (0, 0, "schedule")


def test_a_short_disk_withdraws_the_offer(parts, monkeypatch):
    view, node, _ = parts
    node.told = True
    monkeypatch.setattr(DISKS, "shortage", "the file system of images is short of space")
    shown = view.capacity()
    assert (shown["cpu_milli"], shown["memory_bytes"], shown["reason"]) == (0, 0, "disk_short")
    assert shown["because"] == "nothing is offered: the file system of images is short of space"
    assert view.state()["lending"]["disk_short"] == "the file system of images is short of space"
    assert b"nri_coloc_disk_short 1.0" in view.metrics()


def test_a_cool_down_withdraws_the_offer(parts, monkeypatch):
    view, node, _ = parts
    node.told = True
    monkeypatch.setattr(EVICTOR, "pace", Pace(cools_until_s=time.monotonic() + 60.0))
    shown = view.capacity()
    assert (shown["cpu_milli"], shown["memory_bytes"], shown["reason"]) == (0, 0, "cool_down")
    assert shown["because"] == "nothing is offered: the cool-down after an eviction is not over"


def test_metrics_show_the_space_that_is_left(parts):
    shown = parts[0].metrics()
    assert b'nri_coloc_disk_left_ratio{file_system="node",resource="space"} 0.4' in shown
    assert b'nri_coloc_disk_left_ratio{file_system="node",resource="inodes"} 1.0' in shown
    assert b"nri_coloc_disk_short 0.0" in shown


def test_containers_that_wait_are_shown_and_counted(parts):
    view, node, _ = parts
    create(node, "web", kit.DEDICATED, 8000)
    node.decide(ContainerStarting(kit.pod(), kit.container("web", milli=8000), kit.DEDICATED, running=True))
    (shown,) = view.state()["containers"]
    assert shown["waits_for"] == "8 CPUs of its own"
    assert b"nri_coloc_waiting_containers 1.0" in view.metrics()


def test_capacity_shows_the_offer_beside_the_headroom(parts):
    capacity = parts[0].capacity()
    assert capacity.pop("at").endswith("Z")
    assert capacity == {
        "cpu_milli": 1200,
        "memory_bytes": 5,
        "headroom_cpu_milli": 1500,
        "headroom_memory_bytes": 7,
        "online_cpu_milli": 300,
        "reason": "forecast",
        "because": "CPU 1200m = …",
    }


@pytest.mark.parametrize(
    ("offer", "reason", "because"),
    [
        (Capacity(), "lending_not_measured", "lendable memory is unknown"),
        (Capacity(5, 5, Binding.FORECAST, "CPU 5m"), "lending_not_measured", "CPU 5m; lendable memory"),
        (Capacity(0, 0, Binding.DISABLED, "switched off"), "lending_disabled", "switched off"),
    ],
    ids=["at the beginning", "while it cannot be read", "while nothing is lent"],
)
def test_an_unknown_headroom_is_not_shown_as_none(offer, reason, because, parts):
    view = parts[0]
    view._offer._survey.offer.capacity = offer
    view._offer._memory.headroom, view._offer._memory.headroom_bytes = None, 0
    told = view.capacity()
    assert (told["headroom_memory_bytes"], told["reason"]) == (0, reason)
    assert told["because"].startswith(because)


@pytest.mark.parametrize("measured", [MemoryHeadroom(7, Binding.FREE_MEMORY), None], ids=["known", "not"])
def test_before_the_list_nothing_is_offered(measured, parts):
    view, node, _ = parts
    node.told, view._offer._memory.headroom = False, measured
    told = view.capacity()
    assert (told["cpu_milli"], told["memory_bytes"], told["reason"]) == (0, 0, "lending_not_measured")
    assert told["because"] == "the runtime has not listed its containers yet"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"enabled": False}, "forecast"), ({"paused": "paused until noon"}, "lending_paused")],
    ids=["nothing is lent", "paused"],
)
def test_another_reason_to_withhold_comes_first(changed, reason, parts):
    view, node, _ = parts
    node.told = False
    node.tuning = replace(node.tuning, reclaim=replace(node.tuning.reclaim, **changed))
    assert view.capacity()["reason"] == reason


def test_the_rest_is_handed_on(parts):
    view, _, _ = parts
    assert view.readiness() == {"ready": False, "checks": {}}
    assert b"nri_coloc_connected" in view.metrics()


def test_a_pause_withdraws_the_offer_at_once(parts):
    view, node, _ = parts
    node.tuning = replace(node.tuning, reclaim=replace(node.tuning.reclaim, paused="paused until noon"))
    shown = view.capacity()
    assert (shown["cpu_milli"], shown["memory_bytes"]) == (0, 0)
    assert (shown["reason"], shown["because"]) == ("lending_paused", "paused until noon")
