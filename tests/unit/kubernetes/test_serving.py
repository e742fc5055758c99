"""The second socket on the file system and in the kernel: modes, credentials, hostile peers, restarts."""

import os
import socket
import stat
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.core.token_bucket import Rate
from nri_coloc.kubernetes import messages, serving, session
from nri_coloc.kubernetes.client import DaemonAwayError, DaemonLink, DaemonRefusedError
from nri_coloc.kubernetes.event_box import EventBox
from nri_coloc.kubernetes.log_limit import BoundedLog
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import State
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.kubernetes.serving import CompanionServer
from tests.rig.eviction_orders import FewOrders
from tests.rig.node_side import NodeSide
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

SETTINGS = KubernetesSettings(report=True, companion_uid=os.geteuid(), companion_gid=os.getegid())
STATE = State(1.0, Lending.ON, Amounts(4000, 8 << 30), Amounts(8000, 32 << 30))
HELLO = pb.HelloRequest(protocol=1, version="0.1.0", node_name="node-a")


class Lines:
    """The operator's log."""

    def __init__(self):
        self.lines = []

    def info(self, event, **fields):
        self.lines.append((event, fields))

    warning = info


@pytest.fixture
def served(tmp_path):
    log = Lines()
    path = tmp_path / "folder" / "cluster.sock"
    orders = FewOrders()
    states = [STATE]
    side = NodeSide(lambda: states[-1])
    server = CompanionServer(str(path), side, orders=orders, events=EventBox(), version="0.1.0", log=log)
    yield SimpleNamespace(server=server, path=path, log=log, orders=orders, side=side, states=states)
    server.close()


def greeted(path):
    """Return a connection after its Hello."""
    link = DaemonLink(str(path), PATIENCE_SECONDS)
    with ExitStack() as unless_greeted:
        unless_greeted.callback(link.close)
        link.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
        unless_greeted.pop_all()
    return link


def test_the_companion_gets_the_state(served):
    served.server.look(SETTINGS)
    link = greeted(served.path)
    answer = link.call("Next", pb.NextRequest(), pb.NextResponse, PATIENCE_SECONDS)
    link.close()
    assert messages.state_of(answer.state).offer == Amounts(4000, 8 << 30)


def test_facts_are_sent_while_a_call_waits(served):
    served.server.look(SETTINGS)
    link = greeted(served.path)
    known = link.call("Next", pb.NextRequest(), pb.NextResponse, PATIENCE_SECONDS).state.generation

    def report():
        if len(served.states) == 1:
            facts = pb.PodFacts(uid="u1", namespace="shop", name="web")
            link.call(
                "ReportPods", pb.ReportPodsRequest(pods=[facts]), pb.ReportPodsResponse, PATIENCE_SECONDS
            )
            served.states.append(STATE._replace(reason="another"))

    answer = link.call(
        "Next", pb.NextRequest(generation=known), pb.NextResponse, PATIENCE_SECONDS, meanwhile=report
    )
    link.close()
    assert answer.state.reason == "another"
    assert [len(each) for each in served.side.facts] == [1]


def test_orders_know_whether_a_companion_is_there(served):
    served.server.look(SETTINGS)
    link = greeted(served.path)
    wait_until(lambda: served.orders.is_connected, 5, "a connected companion")
    link.close()
    wait_until(lambda: not served.orders.is_connected, 5, "its end")


def test_folder_and_socket_are_closed_to_others(served):
    served.server.look(SETTINGS)
    assert stat.S_IMODE(served.path.parent.stat().st_mode) == 0o750
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o660
    assert served.path.stat().st_gid == SETTINGS.companion_gid


def test_a_folder_that_the_kubelet_made_is_closed(served):
    served.path.parent.mkdir(mode=0o755)
    served.server.look(SETTINGS)
    assert stat.S_IMODE(served.path.parent.stat().st_mode) == 0o750


def test_without_a_report_there_is_no_socket(served):
    served.server.look(replace(SETTINGS, report=False))
    assert not served.path.exists()
    assert served.server.problem == ""


def test_another_user_is_refused(served):
    served.server.look(replace(SETTINGS, companion_uid=os.geteuid() + 1))
    link = DaemonLink(str(served.path), PATIENCE_SECONDS)
    with pytest.raises(DaemonAwayError):
        link.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
    wait_until(lambda: len(served.log.lines) > 1, 5, "a line about the refused peer")
    assert served.log.lines[1][1]["uid"] == os.geteuid()


def test_a_second_connection_is_closed(served):
    served.server.look(SETTINGS)
    first = greeted(served.path)
    second = DaemonLink(str(served.path), PATIENCE_SECONDS)
    with pytest.raises(DaemonAwayError):
        second.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
    first.call("Next", pb.NextRequest(), pb.NextResponse, PATIENCE_SECONDS)
    first.close()


def is_greeted(path):
    """Connect, greet and close again; return whether the daemon answered."""
    try:
        greeted(path).close()
    except (DaemonAwayError, DaemonRefusedError):
        return False
    return True


def test_a_new_connection_follows_an_ended_one(served):
    served.server.look(SETTINGS)
    greeted(served.path).close()
    wait_until(lambda: is_greeted(served.path), 5, "another connection")


def come_and_go(path, seconds):
    """Connect, greet and close again as often as the daemon allows."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if not is_greeted(path):
            time.sleep(0.01)


def test_connections_are_a_pause_apart(served):
    served.server.look(SETTINGS)
    come_and_go(served.path, 2 * serving.PAUSE_S)
    connected = [event for event, _ in served.log.lines if event == "the companion is connected"]
    assert 1 <= len(connected) <= 3


def reports(path):
    """Report pods on a new connection, 15 times at most; return how often it was taken, -1 without a connection."""
    taken = -1
    with suppress(DaemonAwayError, DaemonRefusedError), closing(greeted(path)) as link:
        taken = 0
        while taken < 15:
            link.call("ReportPods", pb.ReportPodsRequest(), pb.ReportPodsResponse, PATIENCE_SECONDS)
            taken += 1
    return taken


def test_a_reconnection_gives_no_further_calls(served, monkeypatch):
    monkeypatch.setattr(session, "CALLS", Rate(burst=20, every_s=3600.0))
    monkeypatch.setattr(serving, "PAUSE_S", 0.0)
    served.server.look(SETTINGS)
    assert reports(served.path) == 15
    later = [-1]

    def is_served():
        later[0] = reports(served.path)
        return later[0] >= 0

    wait_until(is_served, 60, "another connection")
    assert later == [5]


def test_the_next_connection_waits_for_no_calls(served, monkeypatch):
    monkeypatch.setattr(session, "CALLS", Rate(burst=20, every_s=3600.0))
    monkeypatch.setattr(serving, "PAUSE_S", 0.0)
    served.server.look(SETTINGS)
    assert reports(served.path) == 15
    wait_until(lambda: is_greeted(served.path), 60, "another connection")


def test_lines_about_connections_are_bounded(served, monkeypatch):
    monkeypatch.setattr(serving, "PAUSE_S", 0.0)
    served.server.look(SETTINGS)
    come_and_go(served.path, 0.5)
    assert len(served.log.lines) <= 1 + serving.LINES.burst


def test_the_next_line_counts_omitted_ones(monkeypatch):
    log, now_s = Lines(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    bounded = BoundedLog(log, serving.LINES)
    for _ in range(serving.LINES.burst + 5):
        bounded.info("the companion is connected")
    now_s = serving.LINES.every_s
    bounded.info("the companion is connected")
    assert log.lines[-1] == ("the companion is connected", {"omittedLines": 5})


def flood(path):
    """Send frames over the limit until the daemon ends the connection."""
    frame = b"\x00\x04\x00\x01\x00\x00\x00\x01\x01\x00" + b"x" * (256 * 1024 + 1)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(str(path))
        for _ in range(10_000):
            peer.sendall(frame)


def test_a_flood_of_large_messages_ends(served):
    served.server.look(SETTINGS)
    with pytest.raises(ConnectionError):
        flood(served.path)


def test_a_removed_socket_is_made_again(served):
    served.server.look(SETTINGS)
    served.path.unlink()
    served.server.look(SETTINGS)
    greeted(served.path).close()


def test_a_stale_socket_is_replaced(served):
    served.path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(served.path))
    served.server.look(SETTINGS)
    greeted(served.path).close()


def test_a_file_in_its_place_stays(served):
    served.path.parent.mkdir()
    served.path.write_text("mine")
    served.server.look(SETTINGS)
    assert "no socket" in served.server.problem
    assert served.path.read_text() == "mine"


def test_a_folder_behind_a_link_is_refused(served, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    served.path.parent.symlink_to(tmp_path / "elsewhere")
    served.server.look(SETTINGS)
    assert served.server.problem
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o755


def test_a_problem_is_told_once(served):
    served.path.parent.mkdir()
    served.path.write_text("mine")
    served.server.look(SETTINGS)
    served.server.look(SETTINGS)
    assert len(served.log.lines) == 1


def test_the_end_removes_the_socket(served):
    served.server.look(SETTINGS)
    served.server.close()
    assert not served.path.exists()
