"""The companion's socket of the daemon as its own process, beside a simulated node."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.kubernetes import event_messages, messages
from nri_coloc.kubernetes.client import DaemonLink
from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import NODE
from nri_coloc.kubernetes.publication import State
from nri_coloc.kubernetes.reporting import Lending
from tests.integration import harness
from tests.integration.harness import daemon_of, reload, served
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

CONFIG = f"kubernetes: {{report: status, companionUid: {os.geteuid()}, companionGid: {os.getegid()}}}\n"
LENDING = "reclaim: {enabled: true}\n"
HELLO = pb.HelloRequest(protocol=messages.PROTOCOL, version="test", node_name="node")
SOON_S = 30
PAGE = 4096


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cluster" / "cluster.sock"


def daemon(node, path, config=CONFIG):
    return daemon_of(node, config=config, flags=["--cluster-socket", str(path)])


def state(path: Path) -> State:
    """Return the daemon's state as a companion sees it."""
    wait_until(path.exists, SOON_S, "the socket")
    link = DaemonLink(str(path), PATIENCE_SECONDS)
    try:
        link.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
        return messages.state_of(link.call("Next", pb.NextRequest(), pb.NextResponse, PATIENCE_SECONDS).state)
    finally:
        link.close()


def test_the_companion_sees_the_capacity(node_v2, path):
    with daemon(node_v2, path, CONFIG + LENDING) as running:
        served(running)
        wait_until(
            lambda: running.capacity()["cpu_milli"], SOON_S, "an offer: it is 0 before the first snapshot"
        )
        found, capacity = state(path), running.capacity()
    assert found.offer.cpu_milli == capacity["cpu_milli"]
    assert found.lending is Lending.ON
    assert found.node.cpu_milli == 8000


def test_a_node_without_lending_is_off(node_v2, path):
    with daemon(node_v2, path, CONFIG + "reclaim: {enabled: false}\n") as running:
        served(running)
        assert state(path).lending is Lending.OFF


def test_an_observing_daemon_does_not_lend(node_v2, path):
    with daemon(node_v2, path, CONFIG + LENDING + "mode: observe\n") as running:
        served(running)
        assert state(path).lending is Lending.OFF


def test_without_the_section_there_is_no_socket(node_v2, path):
    with daemon(node_v2, path, "") as running:
        served(running)
        assert not path.exists()


def test_a_reload_opens_and_closes_the_socket(node_v2, path):
    with daemon(node_v2, path, "") as running:
        served(running)
        reload(running, CONFIG)
        state(path)
        reload(running, "")
        wait_until(lambda: not path.exists(), SOON_S, "the end of the socket")


def test_the_end_of_the_daemon_removes_the_socket(node_v2, path):
    with daemon(node_v2, path) as running:
        served(running)
        state(path)
        assert running.terminate() == 0
    assert not path.exists()


@contextmanager
def companion(path: Path) -> Iterator[DaemonLink]:
    """Connect as a companion for the time of a block."""
    wait_until(path.exists, SOON_S, "the socket")
    link = DaemonLink(str(path), PATIENCE_SECONDS)
    link.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
    yield link
    link.close()


def events(link: DaemonLink, reason: str, seen: int = 0) -> tuple[Told, ...]:
    """Return the Events of one reason that the daemon sends; `seen`: number of the last one that was recorded."""
    asked = pb.NextRequest(event_sequence=seen)
    found = event_messages.events_of(link.call("Next", asked, pb.NextResponse, PATIENCE_SECONDS), 0.0)
    return tuple(each for each in found if each.reason == reason)


def event(link: DaemonLink, reason: str) -> Told:
    """Return the one Event of a reason, as soon as the daemon sends it."""
    wait_until(lambda: events(link, reason), SOON_S, f"an Event {reason}")
    [found] = events(link, reason)
    return found


def test_an_invalid_annotation_becomes_one_event(node_v2, path):
    with daemon(node_v2, path) as running:
        served(running)
        harness.shared(node_v2, "web", qos="dedicatd\x1b[2J")
        with companion(path) as link:
            found = event(link, "AnnotationInvalid")
            assert (found.subject.pod, found.times) == ("web", 1)
            assert "dedicatd\\u001b" in found.message
            assert events(link, "AnnotationInvalid", found.sequence) == ()


def test_a_node_that_does_not_lend_has_an_event(node_v2, path):
    with daemon(node_v2, path, CONFIG + "reclaim: {enabled: false}\n") as running:
        served(running)
        with companion(path) as link:
            found = event(link, "LendingOff")
    assert found.subject == NODE
    assert found.message == "nothing is lent: reclaim.enabled is false"
