"""Events written over HTTP into an API server that refuses, is slow, or is flooded."""

from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.kubernetes import event_writer
from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import NODE, Subject
from nri_coloc.kubernetes.event_writer import EventWriter, body_of
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.test_serving import Lines

WEB = Subject("shop", "web", "u1")
OBJECTS = "/api/v1/namespaces/shop/events"


def message(sequence: int, pod: str = "web", count: int = 1, namespace: str = "shop") -> pb.Event:
    return pb.Event(
        sequence=sequence,
        namespace=namespace,
        pod=pod,
        uid="u1",
        reason="AnnotationInvalid",
        message="bad value",
        is_warning=True,
        count=count,
    )


def told(subject: Subject = WEB, reason: str = "AnnotationInvalid", times: int = 1) -> Told:
    return Told(
        sequence=1,
        subject=subject,
        reason=reason,
        message="bad value",
        is_warning=True,
        times=times,
        first_s=0.0,
        last_s=61.9,
    )


@contextmanager
def writing(folder, answers):
    """Yield a writer, the API server beside it, and the log."""
    log = Lines()
    with serving(folder, answers) as api:
        writer = EventWriter(api.connect(), "node-a", log=log)
        writer.connected()
        yield writer, api, log


def take(writer, *events, turns=None, every_s=60.0):
    """Give Events to the writer; take as many turns as there are Events, or `turns`."""
    writer.take(pb.NextResponse(events=events))
    return [writer.turn(every_s * number) for number in range(turns or len(events))]


# ---- the object ----


def test_an_object_names_pod_and_count():
    body = body_of(told(times=3), "node-a")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
    }
    assert (body["count"], body["type"], body["metadata"]["namespace"]) == (3, "Warning", "shop")
    assert body["lastTimestamp"] == "1970-01-01T00:01:01Z"


def test_an_event_of_the_node_is_found_by_its_name():
    body = body_of(told(NODE, "LendingOff"), "node-a")
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "node-a"}
    assert body["metadata"]["namespace"] == "default"


def test_a_name_differs_by_pod_and_reason():
    subjects = (WEB, WEB._replace(uid="u2"), WEB._replace(pod="db"))
    names = {body_of(told(subject), "a")["metadata"]["name"] for subject in subjects}
    names.add(body_of(told(reason="Starved"), "a")["metadata"]["name"])
    assert len(names) == 4


def test_the_longest_pod_name_fits():
    name = body_of(told(WEB._replace(pod="a." * 126 + "a")), "a")["metadata"]["name"]
    assert len(name) <= 253
    assert ".." not in name


# ---- requests ----


def test_a_new_event_is_one_request(tmp_path):
    with writing(tmp_path, lambda _: Reply(status=201)) as (writer, api, _):
        take(writer, message(1))
        assert writer.recorded == 1
        assert [asked.path for asked in api.asked] == [OBJECTS]
        assert api.asked[0].body["reason"] == "AnnotationInvalid"


def test_a_repetition_changes_the_object(tmp_path):
    with writing(tmp_path, lambda _: Reply()) as (writer, api, _):
        take(writer, message(1, count=5))
        [asked] = api.asked
    assert (writer.recorded, asked.method, asked.body["count"]) == (1, "PATCH", 5)
    assert "involvedObject" not in asked.body


@pytest.mark.parametrize(
    ("count", "refused", "expected"),
    [(1, ("POST", 409), ["POST", "PATCH"]), (5, ("PATCH", 404), ["PATCH", "POST"])],
    ids=["exists already", "gone already"],
)
def test_the_other_request_follows(tmp_path, count, refused, expected):
    method, status = refused
    answers = lambda asked: Reply(status=status) if asked.method == method else Reply()  # noqa: E731
    with writing(tmp_path, answers) as (writer, api, _):
        take(writer, message(1, count=count))
        assert [asked.method for asked in api.asked] == expected
    assert writer.recorded == 1


@pytest.mark.parametrize("status", [403, 429, 500])
def test_a_storm_of_refusals_loses_nothing(tmp_path, status):
    answer = [Reply(status=status, body={"message": "no"})]
    with writing(tmp_path, lambda _: answer[0]) as (writer, _, log):
        waits = take(writer, message(1), message(2, "db"), turns=12)
        assert writer.recorded == 0
        assert 100 < max(waits) <= event_writer.MOST_BACKOFF_S
        answer[0] = Reply(status=201)
        take(writer, turns=2)
        assert writer.recorded == 2
    assert str(log.lines).count("an Event was not written") == 1


def test_the_api_server_says_how_long_to_wait(tmp_path):
    busy = Reply(status=429, headers=(("Retry-After", "77"),))
    with writing(tmp_path, lambda _: busy) as (writer, _, _):
        [pause_s] = take(writer, message(1))
    assert 77 <= pause_s <= 154


def test_missing_rights_say_their_remedy(tmp_path):
    with writing(tmp_path, lambda _: Reply(status=403, body={"message": "no"})) as (writer, _, log):
        take(writer, message(1))
    assert "create and patch events" in str(log.lines)


ENDING = {"message": "being terminated", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}


@pytest.mark.parametrize(
    "refusal",
    [Reply(404), Reply(422), Reply(403, ENDING), Reply(413)],
    ids=["no namespace", "policy", "ending namespace", "too large"],
)
def test_an_impossible_event_blocks_no_other(tmp_path, refusal):
    answers = lambda asked: refusal if asked.path == OBJECTS else Reply(status=201)  # noqa: E731
    with writing(tmp_path, answers) as (writer, api, _):
        take(writer, message(1), message(2, namespace="other"))
        assert (writer.recorded, len(api.asked)) == (2, 2)


def test_a_webhook_of_one_namespace_blocks_no_other(tmp_path):
    """The API server answers 500 if an admission webhook of the namespace is down."""
    answers = lambda asked: Reply(500) if asked.path == OBJECTS else Reply(status=201)  # noqa: E731
    with writing(tmp_path, answers) as (writer, _, log):
        take(writer, message(1))
        for minute in range(14):
            take(writer, message(2 + minute, f"db-{minute}", namespace="other"), turns=2, every_s=0)
            writer.turn(60.0 * minute)
        assert writer.recorded == 15
    assert "Events were lost" in str(log.lines)


def test_a_name_is_never_a_path(tmp_path):
    with writing(tmp_path, lambda _: Reply()) as (writer, api, _):
        take(writer, message(1, pod="../../secrets/x", count=2), message(2, namespace="a/b"), message(3))
        assert [asked.path for asked in api.asked] == [OBJECTS]
    assert writer.recorded == 3


def test_a_flood_is_written_slowly(tmp_path):
    burst = event_writer.RATE.burst
    flood = [message(n, f"web-{n}") for n in range(1, burst + 3)]
    with writing(tmp_path, lambda _: Reply(status=201)) as (writer, _, _):
        take(writer, *flood, every_s=0.0)
        assert writer.recorded == burst
        writer.turn(event_writer.RATE.every_s)
        assert writer.recorded == burst + 1


def is_recorded(writer, number):
    """Return whether the Events up to a number were written."""
    return writer.recorded == number


class EndsAmidALook(Event):
    """A stop that is set, and told to the writer, between a look at it and the next step."""

    def __init__(self, writer):
        super().__init__()
        self._writer = writer

    def is_set(self):
        was_set = super().is_set()
        self.set()
        self._writer.end()
        return was_set


def test_an_end_amid_a_look_is_not_missed(tmp_path):
    with writing(tmp_path, lambda _: Reply(status=201)) as (writer, _, _):
        thread = Thread(target=writer.run, args=(EndsAmidALook(writer),), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_an_event_wakes_the_thread(tmp_path):
    stop = Event()
    with writing(tmp_path, lambda _: Reply(status=201)) as (writer, _, _):
        thread = Thread(target=writer.run, args=(stop,), daemon=True)
        thread.start()
        for number in (1, 2):
            writer.take(pb.NextResponse(events=[message(number)]))
            wait_until(partial(is_recorded, writer, number), PATIENCE_SECONDS, "a written Event")
        stop.set()
        writer.end()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_losses_of_the_daemon_are_logged_once(tmp_path):
    with writing(tmp_path, lambda _: Reply()) as (writer, _, log):
        writer.take(pb.NextResponse(events_lost=3))
        writer.take(pb.NextResponse(events_lost=3))
    assert str(log.lines).count("Events were lost") == 1


def test_events_that_were_given_up_are_logged_once(tmp_path):
    with writing(tmp_path, lambda _: Reply(422)) as (writer, _, log):
        take(writer, message(1))
        writer.take(pb.NextResponse())
        writer.take(pb.NextResponse())
    assert str(log.lines).count("Events were lost") == 1


@pytest.mark.parametrize("field", ["message", "reason", "pod"])
def test_a_control_character_of_the_daemon_is_no_event(tmp_path, field):
    bad = message(1)
    setattr(bad, field, "a\x1bb")
    with writing(tmp_path, lambda _: Reply()) as (writer, api, _):
        take(writer, bad, message(2))
        assert len(api.asked) == 1
    assert writer.recorded == 2


def test_an_event_that_cannot_be_used_is_not_repeated(tmp_path):
    bad = message(1)
    bad.reason = "a\x1bb"
    with writing(tmp_path, lambda _: Reply()) as (writer, api, _):
        take(writer, bad)
        assert api.asked == []
    assert writer.recorded == 1
