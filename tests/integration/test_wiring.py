"""A daemon in this process on a simulated node: every object has its parts when it is made, and keeps them."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.service import runner, wiring
from nri_coloc.service.configuration import loading as reader
from nri_coloc.service.options import Options
from nri_coloc.service.settings_watch import SettingsWatch
from nri_coloc.sim.node import Node
from tests.integration.harness import dedicated, reclaimed, shared
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.rig.wired import Graph

THREADS = {"trunk", "watchdog", "actuator", "pusher", "lending", "file_watch", "survey", "http", "admin"}
LENDING = "reclaim: {enabled: true}\n"

OF_SHORTER_LIFE = {
    "Connection._session",  # ends with its connection (nri-protocol §3)
    "FastSampler._round",  # ends when another set of cgroups is read
    "HttpServer._serving",  # begins when the port is free
    "Journal._contents",  # the values that the file holds
    "Watchdog._ticket",  # the hook that is being handled, if there is one
}
"""Objects that begin and end while the daemon lives; only their owner knows them."""


class Living:
    """Start a daemon's parts; `turn` does the work that the main thread does once a second."""

    def __init__(self, node: Node, folder: Path) -> None:
        options = Options(
            nri_socket=str(node.nri_socket),
            cri_socket=str(node.cri_socket),
            host_root=str(node.host_root),
            state_dir=str(folder / "state"),
            admin_socket=str(folder / "admin.sock"),
            http="127.0.0.1:0",
        )
        settings = options.over(reader.load(LENDING, "a test"))
        wired = wiring.wire(options, settings, SettingsWatch("", options.over))
        self.parts = wired.parts
        self.wired = Graph(wired.parts, wired.operator)
        self._daemon = runner.Daemon(wired)
        assert self.parts.files.lock.take()
        self._daemon._start_http()
        self._daemon._serve()

    def turn(self) -> None:
        assert self._daemon._tick()

    def knows(self, container_id: str) -> bool:
        return container_id in self.parts.ground.node.state.containers

    def synchronised(self) -> None:
        wait_until(lambda: self.parts.runtime.connection.synchronized_at, 30, "the runtime's list")

    def end(self) -> None:
        assert self._daemon._end() == 0
        self.parts.hooks.claim.release()
        for thread in threading.enumerate():
            if thread.name in THREADS:
                thread.join(PATIENCE_SECONDS)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", cgroup=2) as node:
        yield node


@pytest.fixture
def living(node: Node, tmp_path: Path) -> Iterator[Living]:
    living = Living(node, tmp_path)
    living.synchronised()
    yield living
    living.end()


def lives(node: Node, living: Living, name: str) -> None:
    """Run and end an online, a dedicated and a reclaimed container."""
    for container_id in (
        shared(node, f"{name}-shared"),
        dedicated(node, f"{name}-own"),
        reclaimed(node, name),
    ):
        wait_until(partial(living.knows, container_id), 30, "the container")
    ticked = living.parts.lending.loop.ticked_at
    wait_until(lambda: living.parts.lending.loop.ticked_at > ticked, 30, "a tick")
    living.turn()
    for pod_id in list(node.runtime.pods):
        node.remove_pod(pod_id)
    wait_until(lambda: not living.parts.ground.node.state.containers, 30, "the containers' end")
    living.turn()


def test_no_object_is_attached_after_wiring(node: Node, living: Living):
    lives(node, living, "first")
    node.kill_runtime()
    wait_until(lambda: not living.parts.runtime.connection.connected, 30, "the end of the connection")
    node.start_runtime()
    living.synchronised()
    lives(node, living, "second")
    assert living.wired.changed() - OF_SHORTER_LIFE == set()


def test_the_graph_reaches_every_thread(living: Living):
    threads = {"Trunk", "Watchdog", "Actuator", "Pusher", "Lending", "FileWatch", "Survey", "MemoryWorker"}
    assert threads | {"HttpServer", "Gate", "CgroupWriter", "Journal"} <= living.wired.classes


# ---- the checker itself ----


class Part:
    """Replace an object of the product."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def work(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def _counts_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Part, "__module__", "nri_coloc.service.part")


def test_a_value_may_change():
    owner: Any = Part(number=1, names={"a"})
    graph = Graph(owner)
    owner.number, owner.names = 2, {"b"}
    assert graph.changed() == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: None, Part),
        (Part, Part),
        (lambda: lambda: None, lambda: Part().work),
        (lambda: Part().work, lambda: Part().work),
        (lambda: partial(Part.work, Part()), lambda: partial(Part.work, Part())),
        (lambda: (Part(),), lambda: (Part(), Part())),
    ],
    ids=["attached", "replaced", "bound over a default", "bound again", "a partial", "within a tuple"],
)
def test_a_late_binding_is_found(before, after):
    inner: Any = Part(part=before())
    graph = Graph(Part(inner=inner))
    inner.part = after()
    assert graph.changed() == {"Part.part"}


def test_a_late_binding_in_a_real_daemon_is_found(living: Living):
    bursts: Any = living.parts.lending.quota_burst_loop
    kept, bursts._headroom = bursts._headroom, living.parts.forecast.loans.ease
    assert "QuotaBurstLoop._headroom" in living.wired.changed()
    bursts._headroom = kept
