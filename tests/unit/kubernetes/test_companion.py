"""The companion between a daemon's socket and an API server, both on real sockets."""

import os
import socket
import time
from contextlib import contextmanager
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from nri_coloc.core.backoff import Backoff
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.core.workload import Pod
from nri_coloc.kubernetes import requests
from nri_coloc.kubernetes.client import DaemonAwayError, DaemonLink
from nri_coloc.kubernetes.colocation_node import OBJECTS
from nri_coloc.kubernetes.companion import Companion, Daemon, Own
from nri_coloc.kubernetes.event_box import EventBox
from nri_coloc.kubernetes.event_reasons import EventReason, Occurrence, Subject
from nri_coloc.kubernetes.event_writer import EventWriter
from nri_coloc.kubernetes.facts_outbox import FACTS_RETRY_S, FactsOutbox
from nri_coloc.kubernetes.presets import DEFAULT, Amounts
from nri_coloc.kubernetes.publication import State
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.kubernetes.serving import CompanionServer
from nri_coloc.kubernetes.session import BREACHES_S, MOST_BREACHES, Refusal, Session
from nri_coloc.ttrpc.status import Code
from tests.rig.eviction_orders import FewOrders, an_order
from tests.rig.node_side import NodeSide
from tests.rig.waiting import wait_until
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.kit import running_threads
from tests.unit.kubernetes.test_serving import Lines
from tests.unit.kubernetes.test_stores import node, pod

SETTINGS = KubernetesSettings(report=True, companion_uid=os.geteuid(), companion_gid=os.getegid())
STATE = State(1.0, Lending.ON, Amounts(4000, 8 << 30), Amounts(8000, 32 << 30))
SOON_S = 20


class Node:
    """A node with a daemon's socket and an API server; `patches` are the companion's."""

    def __init__(self, folder):
        self.state = STATE
        self.events = EventBox()
        self.orders = FewOrders()
        self.side = NodeSide(lambda: self.state)
        self.refused = Reply()
        self.pods = [pod("a")]
        self.path = folder / "d" / "cluster.sock"
        self.log = Lines()
        self.patches = []
        self.objects = []
        self.result = {}
        self.written = []
        self.object = node()
        self.answered = None
        self.changes = []

    def answers(self, asked):
        """Answer as an API server with one node and some pods."""
        if asked.method == "POST":
            (self.written if asked.body["kind"] == "Event" else self.objects).append(asked.body)
            return Reply()
        if asked.method == "PATCH":
            if self.refused.status != 200:
                return self.refused
            if asked.path.startswith(OBJECTS):
                return self.lent(asked.body["spec"])
            self.patches.append(asked.body)
            return Reply(body=self.object if self.answered is None else self.answered)
        if asked.path.endswith("nodes") and "watch" in asked.query and self.changes:
            return Reply(lines=(self.changes.pop(),), holds=True)
        if "watch" in asked.query:
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
            return Reply(lines=(bookmark,), holds=True)
        nodes = [self.object] if self.object else []
        items = nodes if asked.path.endswith("nodes") else self.pods
        return Reply(body={"metadata": {"resourceVersion": "7"}, "items": items})

    def lent(self, spec):
        """Answer as an API server with a controller, whose result of each order is `result`."""
        if not spec.get("evictions") or not self.result:
            return Reply(status=404, body={"message": "not found"})
        results = [{"id": each["id"], **self.result} for each in spec["evictions"]]
        return Reply(body={"spec": spec, "status": {"results": results}})

    def gates(self):
        """Return the gate resource of each report."""
        return [patch["status"]["allocatable"]["coloc.nri.io/open"] for patch in self.patches]


def serve(found):
    """Serve the socket of a node's daemon."""
    server = CompanionServer(
        str(found.path),
        found.side,
        orders=found.orders,
        events=found.events,
        version="0.1.0",
        log=Lines(),
    )
    server.look(SETTINGS)
    return server


@contextmanager
def running(found, folder):
    server = serve(found)
    with serving(folder, found.answers) as api:
        companion = Companion(api.connect(), str(found.path), Own("a", "0.1.0"), log=found.log)
        thread = Thread(target=companion.run)
        thread.start()
        try:
            yield SimpleNamespace(api=api, server=server, companion=companion, thread=thread)
        finally:
            companion.stop()
            thread.join(SOON_S)
            server.close()


@pytest.fixture
def found(tmp_path):
    return Node(tmp_path)


def test_the_offer_becomes_capacity_and_allocatable(found, tmp_path):
    with running(found, tmp_path) as run:
        wait_until(lambda: found.patches, SOON_S, "a report")
        selectors = {asked.query.get("fieldSelector") for asked in run.api.asked if asked.method == "GET"}
    status = found.patches[0]["status"]
    assert status["capacity"] == status["allocatable"]
    assert status["capacity"][DEFAULT.cpu] == "4000"
    assert selectors == {requests.selector("a"), "metadata.name=a"}


def test_a_node_that_stops_to_lend_closes(found, tmp_path):
    found.object = node(**{DEFAULT.cpu: "4000", DEFAULT.memory: str(8 << 30), "coloc.nri.io/open": "110"})
    with running(found, tmp_path):
        wait_until(lambda: found.patches, SOON_S, "a report")
        found.state = STATE._replace(lending=Lending.OFF)
        wait_until(lambda: None in found.gates(), SOON_S, "a closed node")
    assert found.patches[-1]["metadata"]["labels"] == {"coloc.nri.io/lending": "off"}


def test_a_report_keeps_the_floor(found, tmp_path):
    found.pods = [pod("a", "6000")]
    found.object = node(**{DEFAULT.cpu: "6000", DEFAULT.memory: str(8 << 30)})
    with running(found, tmp_path):
        wait_until(lambda: found.patches, SOON_S, "a report")
    assert found.patches[0]["status"]["capacity"][DEFAULT.cpu] == "6000"


def test_a_pod_above_the_node_is_logged(found, tmp_path):
    found.pods = [pod("a", "12E")]
    with running(found, tmp_path):
        wait_until(lambda: "do not count in the report" in str(found.log.lines), SOON_S, "a remark")
        wait_until(lambda: found.patches, SOON_S, "a report")
    assert found.patches[0]["status"]["capacity"][DEFAULT.cpu] == "4000"


def test_an_unreadable_amount_is_overwritten(found, tmp_path):
    found.object = node(**{DEFAULT.cpu: "12E", DEFAULT.memory: str(8 << 30)})
    with running(found, tmp_path):
        wait_until(lambda: found.patches, SOON_S, "a report")
    assert found.patches[0]["status"]["capacity"][DEFAULT.cpu] == "4000"


def test_a_reporting_companion_is_ready(found, tmp_path):
    with running(found, tmp_path) as parts:
        wait_until(lambda: parts.companion.problem() == "", SOON_S, "no problem")
        parts.server.close()
        wait_until(parts.companion.problem, SOON_S, "a problem: the daemon is away")


def test_a_missing_node_is_a_problem(found, tmp_path):
    found.object = {}
    with running(found, tmp_path) as parts:
        wait_until(lambda: "no Node" in parts.companion.problem(), SOON_S, "the missing node")
        wait_until(lambda: "no Node" in str(found.log.lines), SOON_S, "a line")
    assert str(found.log.lines).count("no Node") == 1


def test_two_watches_serve_a_node(found, tmp_path):
    def watched():
        return sorted(asked.path for asked in parts.api.asked if "watch" in asked.query)

    with running(found, tmp_path) as parts:
        wait_until(lambda: len(watched()) > 1 and found.patches, SOON_S, "watches and a report")
    assert watched() == ["/api/v1/nodes", "/api/v1/pods"]


@pytest.mark.parametrize("wrong", [{}, {"metadata": []}, {"metadata": {"uid": "n1"}, "status": 7}])
def test_an_unreadable_answer_is_asked_again(found, tmp_path, wrong):
    found.answered = wrong
    with running(found, tmp_path) as parts:
        wait_until(lambda: "cannot be read" in parts.companion.problem(), SOON_S, "a problem")
        found.answered = None
        wait_until(lambda: parts.companion.problem() == "", SOON_S, "no problem")
    assert len(found.patches) > 1


@pytest.mark.parametrize("wrong", [[], {"type": "X", "object": node()}])
def test_an_unreadable_change_is_asked_again(found, tmp_path, wrong):
    def watches():
        return [asked for asked in parts.api.asked if asked.path.endswith("nodes") and "watch" in asked.query]

    found.changes = [wrong]
    with running(found, tmp_path) as parts:
        wait_until(lambda: len(watches()) > 1, SOON_S, "another watch")
        wait_until(lambda: found.patches and parts.companion.problem() == "", SOON_S, "no problem")
    assert "a watch broke" in str(found.log.lines)


def test_no_thread_outlives_the_companion(found, tmp_path):
    with running(found, tmp_path) as parts:
        wait_until(lambda: found.patches and parts.companion.problem() == "", SOON_S, "a report")
        parts.companion.stop()
        parts.thread.join()
        wait_until(lambda: not running_threads({"daemon", "events", "pods", "nodes"}), 5, "no thread")
    assert "trying again" not in str(found.log.lines)


def test_a_refused_report_is_a_problem(found, tmp_path):
    found.refused = Reply(status=403, body={"message": "no"})
    with running(found, tmp_path) as parts:
        wait_until(lambda: "403" in parts.companion.problem(), SOON_S, "the API server's refusal")


def test_a_refused_report_says_its_remedy(found, tmp_path):
    found.refused = Reply(status=403, body={"message": "forbidden"})
    with running(found, tmp_path):
        wait_until(lambda: "nodes/status" in str(found.log.lines), SOON_S, "a remedy")
        found.refused = Reply()
        wait_until(lambda: found.patches, SOON_S, "a report after it")


def test_other_resources_end_the_companion(found, tmp_path):
    with running(found, tmp_path) as run:
        wait_until(lambda: found.patches, SOON_S, "a report")
        names = {"cpu_resource": "example.com/c", "memory_resource": "example.com/m"}
        run.server.look(KubernetesSettings(**{**_fields(SETTINGS), **names}))
        run.thread.join(SOON_S)
        assert not run.thread.is_alive()


def _fields(settings):
    return {name: getattr(settings, name) for name in settings.__slots__}


def test_figures_for_people_are_an_object_of_their_own(found, tmp_path):
    with running(found, tmp_path):
        wait_until(lambda: found.objects, SOON_S, "an object")
    (body,) = found.objects
    assert (body["kind"], body["metadata"]["name"]) == ("ColocationNode", "a")
    assert body["spec"]["summary"]["offer"] == {"cpuMilli": 4000, "memoryBytes": 8 << 30}


def test_without_a_daemon_nothing_is_reported(found, tmp_path):
    with serving(tmp_path, found.answers) as api:
        companion = Companion(api.connect(), str(found.path), Own("a", "0.1.0"), log=found.log)
        thread = Thread(target=companion.run)
        thread.start()
        wait_until(lambda: found.log.lines, SOON_S, "a line about the daemon")
        companion.stop()
        thread.join(SOON_S)
    assert found.patches == []
    assert "cluster.sock" in str(found.log.lines[0])


@pytest.mark.parametrize("name", ["missing", "file"])
def test_an_absent_daemon_says_its_remedy(tmp_path, name):
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "file"))
    with pytest.raises(DaemonAwayError, match=r"kubernetes\.report: status"):
        DaemonLink(str(tmp_path / name), 1.0)


def test_an_unexpected_error_keeps_following(tmp_path, monkeypatch):
    stop, log = Event(), Lines()
    with serving(tmp_path, lambda _: Reply()) as api:
        events = EventWriter(api.connect(), "a", log=log)
    daemon = Daemon(
        "/no/socket",
        Own("a", "0.1.0"),
        log=log,
        events=events,
        changed=lambda: None,
        facts=FactsOutbox(lambda: 0.0),
    )
    tries = iter([lambda: 1 // 0, stop.set])
    monkeypatch.setattr(daemon, "_follow", lambda *_: next(tries)())
    daemon.run(stop)
    assert "ZeroDivisionError" in str(log.lines)


def test_an_order_comes_back_with_its_result(found, tmp_path):
    found.result = {"outcome": "budget", "detail": "not now", "retryAfterSeconds": 10}
    found.orders.orders = (an_order(until_s=time.monotonic() + 60),)
    with running(found, tmp_path):
        wait_until(lambda: found.orders.results, SOON_S, "a result")
    assert found.orders.results == [Result("e1", Outcome.BUDGET, "not now", 10)]


INVALID = Occurrence(Subject("shop", "web", "u1"), EventReason.ANNOTATION_INVALID, "bad value")


def test_an_event_of_the_daemon_is_written_once(found, tmp_path):
    with running(found, tmp_path):
        found.events.occurred(INVALID)
        wait_until(lambda: found.written, SOON_S, "an Event")
        # a change ends the open call, and the number of the next one confirms the Event
        found.state = STATE._replace(lending=Lending.OFF)
        wait_until(lambda: not found.events.publish(0.0).entries, SOON_S, "a confirmed Event")
    [body] = found.written
    assert (body["reason"], body["involvedObject"]["name"]) == ("AnnotationInvalid", "web")


class TakenEvents:
    """Events that are taken and never written."""

    def __init__(self):
        self.recorded, self.taken = 0, []

    def connected(self):
        """Begin with the numbers of a new connection."""

    def take(self, answer):
        self.taken += answer.events


def test_an_event_alone_wakes_no_report(found):
    events, stop = TakenEvents(), Event()
    woken: list[str] = []
    server = CompanionServer(
        str(found.path),
        found.side,
        orders=found.orders,
        events=found.events,
        version="0.1.0",
        log=Lines(),
    )
    server.look(SETTINGS)

    def woke():
        assert daemon.heard is not None
        woken.append(daemon.heard[0].reason)

    daemon = Daemon(
        str(found.path),
        Own("a", "0.1.0"),
        log=found.log,
        events=events,
        changed=woke,
        facts=FactsOutbox(lambda: 0.0),
    )
    thread = Thread(target=daemon.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: woken, SOON_S, "the state")
        found.events.occurred(INVALID)
        wait_until(lambda: events.taken, SOON_S, "the Event")
        found.state = STATE._replace(reason="floor")
        wait_until(lambda: "floor" in woken, SOON_S, "another state")
    finally:
        stop.set()
        server.close()
        thread.join(SOON_S)
    assert woken == [STATE.reason, "floor"]


# --- facts of pods --------------------------------------------------------------------------------------


def whole(uid):
    """Return a pod that facts can be read of."""
    found = pod(uid)
    found["metadata"] |= {"namespace": "jobs", "name": uid}
    return found


def told(found, uid):
    """Return the last facts about a pod that the daemon got."""
    return found.side.facts[-1].of(Pod("p", uid, uid, "jobs")) if found.side.facts else None


def test_facts_of_pods_reach_the_daemon(found, tmp_path):
    found.pods = [whole("a"), whole("b")]
    with running(found, tmp_path):
        wait_until(lambda: told(found, "a") and told(found, "b"), SOON_S, "facts of both pods")


def test_a_restarted_daemon_gets_all_facts_again(found, tmp_path):
    found.pods = [whole("a")]
    with running(found, tmp_path) as run:
        wait_until(lambda: told(found, "a"), SOON_S, "facts")
        run.server.close()
        found.side.facts.clear()
        again = serve(found)
        try:
            wait_until(lambda: told(found, "a"), SOON_S, "facts again")
        finally:
            again.close()


@pytest.mark.parametrize(
    ("refusal", "remark"),
    [
        (Refusal(Code.UNIMPLEMENTED, "ReportPods is not served"), "takes no facts"),
        (Refusal(Code.INVALID_ARGUMENT, "ReportPods: kind has a control character"), "refused facts"),
    ],
    ids=["an older daemon", "invalid facts"],
)
def test_refused_facts_do_not_stop_the_report(found, tmp_path, monkeypatch, refusal, remark):
    def refused(*_args):
        raise refusal

    monkeypatch.setattr(Session, "_report_pods", refused)
    found.pods = [whole("a")]
    with running(found, tmp_path):
        wait_until(lambda: remark in str(found.log.lines), SOON_S, "a remark")
        wait_until(lambda: found.patches, SOON_S, "a report")
    assert str(found.log.lines).count(remark) == 1


def test_refused_facts_come_again(found, tmp_path, monkeypatch):
    report, refusals = Session._report_pods, iter([Refusal(Code.RESOURCE_EXHAUSTED, "busy")])

    def busy_at_first(*args):
        if (refusal := next(refusals, None)) is not None:
            raise refusal
        return report(*args)

    monkeypatch.setattr(Session, "_report_pods", busy_at_first)
    monkeypatch.setattr("nri_coloc.kubernetes.facts_outbox.FACTS_RETRY_S", 0.1)
    found.pods = [whole("a")]
    with running(found, tmp_path):
        wait_until(lambda: told(found, "a"), SOON_S, "facts after a refusal")


def test_tries_of_refused_facts_end_no_connection():
    assert (MOST_BREACHES - 1) * Backoff(lambda: 0.0, FACTS_RETRY_S).failed() > BREACHES_S
