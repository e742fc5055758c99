"""Nodes whose reports stop, on a real API server and with the rights of the controller's manifests.

The reaper's time is an argument, so three minutes pass at once.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from nri_coloc.kubernetes import presets
from nri_coloc.kubernetes.api import Api
from nri_coloc.kubernetes.reaper import Reaper
from nri_coloc.kubernetes.watching import Problems, Unreadable
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node, pod
from tests.rig.waiting import wait_until

ONLY_NEWEST = True
BATCH_CPU = presets.DEFAULT.cpu
NAMES = (f"n{number}" for number in count())


@pytest.fixture(scope="module")
def admin(server: ApiServer) -> Iterator[Api]:
    found = server.admin()
    kit.apply(server)
    yield found
    found.close()


@pytest.fixture(scope="module")
def controller_api(server: ApiServer, admin: Api) -> Iterator[Api]:
    found = kit.controller(server, admin)
    yield found
    found.close()


@pytest.fixture
def name(admin: Api) -> Iterator[str]:
    """A node that has reported and is open."""
    found = next(NAMES)
    admin.create("/api/v1/nodes", node(found))
    report(admin, found, "10:00")
    yield found
    kit.delete(admin, f"/api/v1/nodes/{found}")


class Told:
    """The reaper with the list of its corrections and errors."""

    def __init__(self, api: Api, before_correction: Callable[[], object] = lambda: None) -> None:
        self.corrected: list[str] = []
        self.errors: list[str] = []
        self.turn = Reaper(
            api,
            preset=lambda: presets.DEFAULT,
            leads=lambda: before_correction() is None,
            corrected=lambda name, _: self.corrected.append(name),
            problems=Problems(self.errors.append, Unreadable("node", self.errors.append)),
        ).turn

    def list_until(self, until_s: float, since_s: float = 0.0) -> None:
        """List every 30 seconds, both ends included."""
        for now_s in range(int(since_s), int(until_s), 30):
            self.turn(float(now_s))
        self.turn(until_s)


def report(admin: Api, name: str, at: str) -> None:
    admin.merge(kit.status(name), kit.report(f"2026-11-26T{at}:00Z"))


def shown(admin: Api, name: str) -> presets.Shown:
    return presets.shown(admin.get(f"/api/v1/nodes/{name}"), presets.DEFAULT)


def offline(name: str, on: str, cpu: str) -> dict[str, Any]:
    """Return a pod that requests lent CPU."""
    found = pod(name, on=on)
    resources = {BATCH_CPU: cpu}
    found["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return found


def test_a_silent_node_is_closed(controller_api, admin, name):
    told = Told(controller_api)
    told.list_until(179.0)
    assert shown(admin, name).gate == 110
    told.turn(181.0)
    assert shown(admin, name) == presets.Shown(presets.Amounts(4000, 64), None)
    assert told.corrected == [name]


def test_a_closed_node_is_closed_once(controller_api, admin, name):
    told = Told(controller_api)
    told.list_until(240.0)
    assert (told.corrected, told.errors) == ([name], [])


def test_a_node_that_reports_stays_open(controller_api, admin, name):
    told = Told(controller_api)
    told.turn(0.0)
    report(admin, name, "10:01")
    told.list_until(200.0, since_s=30.0)
    assert told.corrected == []


def test_a_long_silent_node_falls_to_its_floor(controller_api, admin, name):
    admin.create(kit.PODS, offline("render-1", name, "1500"))
    ended = admin.create(kit.PODS, offline("render-2", name, "900"))["metadata"]["name"]
    admin.merge(f"{kit.PODS}/{ended}/status", {"status": {"phase": "Succeeded"}})
    told = Told(controller_api)
    told.list_until(901.0)
    assert shown(admin, name) == presets.Shown(presets.Amounts(1500, 0), None)


def test_a_node_that_returns_opens_again(controller_api, admin, name):
    told = Told(controller_api)
    told.list_until(181.0)
    report(admin, name, "11:00")
    told.turn(400.0)
    assert shown(admin, name).gate == 110


def test_a_report_beside_the_correction_wins(controller_api, admin, name):
    told = Told(controller_api, before_correction=lambda: report(admin, name, "10:03"))
    told.list_until(181.0)
    assert (told.corrected, told.errors, shown(admin, name).gate) == ([], [], 110)


def test_a_replica_that_does_not_lead_changes_nothing(controller_api, admin, name):
    told = Told(controller_api, before_correction=lambda: False)
    told.list_until(901.0)
    assert shown(admin, name).gate == 110


def test_a_node_without_lending_is_left_alone(controller_api, admin):
    admin.create("/api/v1/nodes", node("plain"))
    told = Told(controller_api)
    told.list_until(901.0)
    assert (told.corrected, told.errors) == ([], [])
    kit.delete(admin, "/api/v1/nodes/plain")


def test_an_outage_of_the_api_server_is_no_silence(server, controller_api, admin, name):
    told = Told(controller_api)
    told.turn(0.0)
    server.stop_server()
    told.turn(100.0)
    server.start_server()

    def lists_again() -> bool:
        before = len(told.errors)
        told.turn(1000.0)
        return len(told.errors) == before

    wait_until(lists_again, 20, "a list")
    told.list_until(1179.0, since_s=1000.0)
    assert told.corrected == []
    told.turn(1181.0)
    assert told.corrected == [name]
