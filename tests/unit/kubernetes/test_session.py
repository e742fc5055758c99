"""One connection of a companion that is honest, mistaken or hostile: bytes in, bytes out."""

from typing import Any

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.core.workload import Pod
from nri_coloc.kubernetes import event_messages, messages, session
from nri_coloc.kubernetes.event_reasons import EventReason, Occurrence, Subject
from nri_coloc.kubernetes.kept_facts import KeptFacts
from nri_coloc.kubernetes.node_events import NodeEvents
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import Published, State, Summary
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.kubernetes.session import Calls, Lasting, Session
from nri_coloc.ttrpc.connection import Connection, Role
from nri_coloc.ttrpc.status import Code
from tests.rig.eviction_orders import FewOrders, an_order

NOW = 1000.0
STATE = State(
    age_s=1.0,
    lending=Lending.ON,
    offer=Amounts(4000, 8 << 30),
    node=Amounts(8000, 32 << 30),
    reason="forecast",
    because="because",
)
PUBLISHED = Published(7, STATE, NOW)
HELLO = pb.HelloRequest(protocol=1, version="0.1.0", node_name="node-a")


class Companion:
    """The other end: `call` returns the status code and the payload of the answer, None while there is none."""

    def __init__(self, settings=None, events=None, calls=None):
        self.events = events or NodeEvents()
        self.orders, self.kept = FewOrders(), KeptFacts()
        settings = settings or KubernetesSettings(report=True)
        self.session = Session(
            settings,
            "0.1.0",
            NOW,
            orders=self.orders,
            events=self.events,
            lasting=Lasting(self.kept, calls or Calls()),
        )
        self.wire = Connection(Role.CLIENT)

    def call(self, method, message, *, at=NOW, service=messages.SERVICE):
        payload = message if isinstance(message, bytes) else message.SerializeToString()
        _, sent = self.wire.send_request(service, method, payload)
        return self.answers(self.session.receive(sent, at))

    def turn(self, at=NOW, published=PUBLISHED):
        return self.answers(self.session.turn(published, at))

    def answers(self, sent):
        found: list[Any] = [event for message in sent for event in self.wire.receive_data(message)]
        return (found[-1].code, found[-1].payload) if found else None


@pytest.fixture
def greeted() -> Companion:
    companion = Companion()
    companion.call("Hello", HELLO)
    return companion


def state(answer):
    """Return the state of an answer."""
    code, payload = answer
    assert code == Code.OK
    return pb.NextResponse.FromString(payload).state


def orders(answer):
    """Return the orders of an answer."""
    code, payload = answer
    assert code == Code.OK
    return list(pb.NextResponse.FromString(payload).orders)


def events(answer):
    """Return the Events of an answer."""
    code, payload = answer
    assert code == Code.OK
    return event_messages.events_of(pb.NextResponse.FromString(payload), NOW)


def test_hello_names_the_reported_resources():
    code, payload = Companion(KubernetesSettings(report=True, cpu_resource="a.b/c")).call("Hello", HELLO)
    answer = pb.HelloResponse.FromString(payload)
    assert (code, answer.cpu_resource, answer.report_status) == (Code.OK, "a.b/c", True)


def test_another_protocol_is_refused():
    companion = Companion()
    code, _ = companion.call("Hello", pb.HelloRequest(protocol=2, version="9"))
    assert code == Code.FAILED_PRECONDITION
    assert companion.session.companion == ""


def test_hello_comes_first():
    code, _ = Companion().call("Next", pb.NextRequest())
    assert code == Code.FAILED_PRECONDITION


def test_an_outlook_arrives_whole(greeted):
    shown = STATE._replace(summary=Summary(outlook=tuple(Amounts(hour, 1) for hour in range(24))))
    greeted.call("Next", pb.NextRequest())
    assert messages.state_of(state(greeted.turn(published=PUBLISHED._replace(state=shown)))) == shown


def test_a_new_companion_gets_the_state(greeted):
    assert greeted.call("Next", pb.NextRequest()) is None
    found = messages.state_of(state(greeted.turn()))
    assert found == STATE


def test_a_known_state_is_waited_for(greeted):
    greeted.call("Next", pb.NextRequest(generation=7))
    assert greeted.turn(NOW + 9) is None
    assert state(greeted.turn(NOW + 9.1, PUBLISHED._replace(generation=8))).generation == 8


def test_a_call_waits_ten_seconds_at_most(greeted):
    greeted.call("Next", pb.NextRequest(generation=7))
    assert state(greeted.turn(NOW + session.WAIT_S)).generation == 7


def test_two_answers_are_a_second_apart(greeted):
    greeted.call("Next", pb.NextRequest())
    greeted.turn()
    greeted.call("Next", pb.NextRequest(), at=NOW + 0.1)
    assert greeted.turn(NOW + 0.9) is None
    assert greeted.turn(NOW + 1.0) is not None


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff\xff",
        pb.NextRequest(order_ids=["x"] * 17),
        pb.NextRequest(order_ids=["x" * 65]),
        pb.NextRequest(order_ids=["a\nb"]),
    ],
    ids=["not a message", "too many", "too long", "control character"],
)
def test_a_call_beyond_its_bounds_fails(greeted, message):
    code, _ = greeted.call("Next", message)
    assert code == Code.INVALID_ARGUMENT
    assert not greeted.session.is_waiting


@pytest.mark.parametrize("field", ["version", "node_name", "node_uid"])
def test_a_long_name_is_refused(field):
    code, _ = Companion().call("Hello", pb.HelloRequest(protocol=1, **{field: "x" * 254}))
    assert code == Code.INVALID_ARGUMENT


def test_an_unknown_method_is_not_served(greeted):
    assert greeted.call("Evict", b"")[0] == Code.UNIMPLEMENTED


def test_the_admin_service_is_not_served(greeted):
    assert greeted.call("PauseLending", b"", service="coloc.admin.v1.Admin")[0] == Code.UNIMPLEMENTED


def test_one_call_of_a_method_is_open(greeted):
    greeted.call("Next", pb.NextRequest(generation=7))
    assert greeted.call("Next", pb.NextRequest(generation=7))[0] == Code.RESOURCE_EXHAUSTED


def test_a_flood_of_calls_ends_the_connection():
    companion = Companion()
    codes = [companion.call("Hello", HELLO)[0] for _ in range(session.CALLS.burst + 2)]
    assert codes == [Code.OK] * session.CALLS.burst + [Code.RESOURCE_EXHAUSTED] * 2
    companion.call("Hello", HELLO)
    assert companion.session.ended


def test_a_rate_within_the_bound_goes_on():
    companion = Companion()
    for number in range(100):
        assert companion.call("Hello", HELLO, at=NOW + number * 0.5)[0] == Code.OK
    assert companion.session.ended == ""


def test_the_next_connection_has_the_calls_that_are_left():
    calls = Calls()
    for _ in range(4):
        codes = [Companion(calls=calls).call("Hello", HELLO)[0] for _ in range(5)]
        assert codes == [Code.OK] * 5
    assert Companion(calls=calls).call("Hello", HELLO)[0] == Code.RESOURCE_EXHAUSTED
    assert Companion(calls=calls).call("Hello", HELLO, at=NOW + 0.5)[0] == Code.OK


def test_breaches_of_an_hour_ago_do_not_count(greeted):
    for minute in range(10):
        greeted.call("Evict", b"", at=NOW + 60 * minute + minute)
    assert greeted.session.ended == ""


def test_a_message_over_the_limit_is_not_decoded(greeted):
    _, sent = greeted.wire.send_request(messages.SERVICE, "Next", b"x" * (messages.MESSAGE_LIMIT + 1))
    assert greeted.answers(greeted.session.receive(sent, NOW))[0] == Code.RESOURCE_EXHAUSTED


def test_bytes_that_are_no_frame_end_the_connection(greeted):
    for _ in range(session.MOST_BREACHES):
        greeted.session.receive(b"\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00", NOW)
    assert greeted.session.ended


def test_ignored_frames_end_the_connection(greeted):
    reserved = b"\x00\x00\x00\x00\x00\x00\x00\x03\x07\x00"
    for _ in range(session.MOST_BREACHES):
        greeted.session.receive(reserved, NOW)
    assert greeted.session.ended


def test_a_silent_companion_is_disconnected(greeted):
    greeted.turn(NOW + session.IDLE_S + 1)
    assert "no call" in greeted.session.ended


# ---- eviction orders ----


def test_a_new_order_is_answered_at_once(greeted):
    greeted.call("Next", pb.NextRequest(generation=7))
    greeted.orders.orders = (an_order(until_s=NOW + 90),)
    (order,) = orders(greeted.turn(NOW + 1))
    assert (order.id, order.expires_s) == ("e1", 89)
    assert (order.eviction.namespace, order.eviction.pod, order.eviction.uid) == ("shop", "batch", "uid-1")
    assert (order.eviction.reason, order.eviction.text) == ("operator", "the disk is full")
    assert order.eviction.by_operator


def test_a_known_order_is_repeated(greeted):
    greeted.orders.orders = (an_order(),)
    greeted.call("Next", pb.NextRequest(generation=7, order_ids=["e1"]))
    assert greeted.turn(NOW + 9) is None
    assert [each.id for each in orders(greeted.turn(NOW + 10))] == ["e1"]


def test_a_dropped_order_is_answered_at_once(greeted):
    greeted.call("Next", pb.NextRequest(generation=7, order_ids=["e1"]))
    assert orders(greeted.turn(NOW + 1)) == []


def test_a_result_reaches_the_daemon(greeted):
    result = pb.Result(order_id="e1", outcome=pb.OUTCOME_BUDGET, detail="not now", retry_after_s=10)
    code, _ = greeted.call("ReportResults", pb.ReportResultsRequest(results=[result]))
    assert code == Code.OK
    assert greeted.orders.results == [Result("e1", Outcome.BUDGET, "not now", 10)]


def test_an_unknown_outcome_leaves_the_order_open(greeted):
    results = [pb.Result(order_id="e1"), pb.Result.FromString(b"\x0a\x02e2\x10\x63")]
    assert greeted.call("ReportResults", pb.ReportResultsRequest(results=results))[0] == Code.OK
    assert greeted.orders.results == []


@pytest.mark.parametrize(
    "results",
    [
        [pb.Result(order_id="x", outcome=pb.OUTCOME_GONE)] * 17,
        [pb.Result(order_id="x" * 65, outcome=pb.OUTCOME_GONE)],
        [pb.Result(order_id="x", outcome=pb.OUTCOME_GONE, detail="x" * 201)],
        [pb.Result(order_id="x", outcome=pb.OUTCOME_GONE, detail="a\x1b[2J")],
        [pb.Result(order_id="x", outcome=pb.OUTCOME_BUDGET, retry_after_s=3601)],
    ],
    ids=["too many", "long id", "long detail", "control character", "retry in a day"],
)
def test_a_result_beyond_its_bounds_fails(greeted, results):
    answer = greeted.call("ReportResults", pb.ReportResultsRequest(results=results))
    assert answer[0] == Code.INVALID_ARGUMENT
    assert greeted.orders.results == []


def test_results_have_a_rate(greeted):
    codes = [greeted.call("ReportResults", pb.ReportResultsRequest())[0] for _ in range(21)]
    assert codes == [Code.OK] * 20 + [Code.RESOURCE_EXHAUSTED]


# ---- Events ----

INVALID = Occurrence(Subject("shop", "web", "u1"), EventReason.ANNOTATION_INVALID, "no class")


def test_an_event_ends_the_wait(greeted):
    greeted.call("Next", pb.NextRequest(generation=7))
    assert greeted.turn() is None
    greeted.events.occurred(INVALID, NOW - 5)
    [found] = events(greeted.turn())
    assert (found.reason, found.subject, found.times) == ("AnnotationInvalid", INVALID.subject, 1)
    assert found.first_s == NOW - 5


def test_a_sent_event_is_waited_for_no_more(greeted):
    greeted.events.occurred(INVALID, NOW)
    greeted.call("Next", pb.NextRequest(generation=7))
    greeted.turn()
    greeted.call("Next", pb.NextRequest(generation=7), at=NOW + 1)
    assert greeted.turn(NOW + 2) is None
    assert len(events(greeted.turn(NOW + 1 + session.WAIT_S))) == 1


def test_a_recorded_event_is_not_repeated(greeted):
    greeted.events.occurred(INVALID, NOW)
    greeted.call("Next", pb.NextRequest(generation=7))
    [found] = events(greeted.turn())
    greeted.call("Next", pb.NextRequest(event_sequence=found.sequence), at=NOW + 1)
    assert events(greeted.turn(NOW + 1)) == ()


def test_a_new_connection_repeats_open_events(greeted):
    greeted.events.occurred(INVALID, NOW)
    greeted.call("Next", pb.NextRequest())
    greeted.turn()
    again = Companion(events=greeted.events)
    again.call("Hello", HELLO)
    again.call("Next", pb.NextRequest())
    assert len(events(again.turn())) == 1


def test_without_the_switch_no_event_is_sent():
    companion = Companion(KubernetesSettings(report=True, events=False))
    _, payload = companion.call("Hello", HELLO)
    companion.events.occurred(INVALID, NOW)
    companion.call("Next", pb.NextRequest())
    assert not pb.HelloResponse.FromString(payload).report_events
    assert events(companion.turn()) == ()


# --- facts of pods --------------------------------------------------------------------------------------


FACTS = pb.PodFacts(uid="u1", namespace="shop", name="web", requests=pb.Amounts(memory_bytes=1 << 30))


def told(companion, uid="u1", namespace="shop", name="web"):
    return companion.kept.newest.of(Pod("p1", uid, name, namespace))


def test_reported_facts_are_kept(greeted):
    code, payload = greeted.call("ReportPods", pb.ReportPodsRequest(pods=[FACTS]))
    assert (code, pb.ReportPodsResponse.FromString(payload).not_kept) == (Code.OK, 0)
    assert told(greeted).memory_bytes == 1 << 30


@pytest.mark.parametrize("other", [{"namespace": "else"}, {"name": "api"}, {"uid": "u2"}])
def test_facts_count_for_their_own_sandbox(greeted, other):
    greeted.call("ReportPods", pb.ReportPodsRequest(pods=[FACTS]))
    assert told(greeted, **other) is None


def test_a_deletion_has_a_time(greeted):
    deleted = pb.PodFacts(uid="u1", namespace="shop", name="web", deleted_in_s=30)
    greeted.call("ReportPods", pb.ReportPodsRequest(pods=[deleted]))
    assert told(greeted).killed_at == NOW + 30


def test_a_container_of_unknown_kind_does_not_count(greeted):
    found = pb.PodFacts(uid="u1", namespace="shop", name="web", containers=[pb.ContainerFacts(name="c")])
    greeted.call("ReportPods", pb.ReportPodsRequest(pods=[found]))
    assert told(greeted).containers == ()


LARGE = pb.PodFacts(
    uid="u", namespace="a", name="w", containers=[pb.ContainerFacts(name=f"c{n}") for n in range(128)]
)
TWICE = [pb.ContainerFacts(name="c", kind=pb.CONTAINER_MAIN)] * 2


@pytest.mark.parametrize(
    "message",
    [
        pb.ReportPodsRequest(pods=[FACTS] * 65),
        pb.ReportPodsRequest(gone=["u"] * 257),
        pb.ReportPodsRequest(pods=[LARGE] * 9),
        pb.ReportPodsRequest(pods=[pb.PodFacts(uid="u1", name="web")]),
        pb.ReportPodsRequest(pods=[pb.PodFacts(uid="u1", namespace="a\nb", name="web")]),
        pb.ReportPodsRequest(pods=[pb.PodFacts(uid="u1", namespace="a", name="w" * 254)]),
        pb.ReportPodsRequest(pods=[pb.PodFacts(uid="u", namespace="a", name="w", containers=TWICE)]),
        pb.ReportPodsRequest(
            pods=[pb.PodFacts(uid="u", namespace="a", name="w", requests=pb.Amounts(memory_bytes=1 << 63))]
        ),
        pb.ReportPodsRequest(pods=[FACTS], complete=True),
    ],
    ids=["pods", "gone", "containers", "no namespace", "control", "long name", "twice", "amount", "no list"],
)
def test_facts_beyond_a_bound_change_nothing(greeted, message):
    code, _ = greeted.call("ReportPods", message)
    assert code == Code.INVALID_ARGUMENT
    assert len(greeted.kept.newest) == 0


def test_facts_before_hello_are_refused():
    assert Companion().call("ReportPods", pb.ReportPodsRequest())[0] == Code.FAILED_PRECONDITION


@pytest.mark.parametrize(("sent", "heard"), [("Offline", "Offline"), ("mine\n", ""), ("", "")])
def test_only_known_states_of_the_node_count(greeted, sent, heard):
    greeted.call("Next", pb.NextRequest())
    found = state(greeted.turn(published=PUBLISHED._replace(state=STATE._replace(node_state=sent))))
    assert messages.state_of(found).node_state == heard
