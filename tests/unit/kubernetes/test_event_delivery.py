"""Events between daemon and API server: none is lost, none blocks the others, each is confirmed once."""

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.kubernetes import event_delivery, event_messages, node_events
from nri_coloc.kubernetes.event_delivery import Delivery
from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import EventReason, Occurrence, Subject
from nri_coloc.kubernetes.node_events import REPEAT_S, NodeEvents


def event(sequence: int, pod: str = "", times: int = 1) -> Told:
    name = pod or f"web-{sequence}"
    return Told(
        sequence=sequence,
        subject=Subject("shop", name, f"uid-{name}"),
        reason="AnnotationInvalid",
        message="bad",
        is_warning=True,
        times=times,
        first_s=0.0,
        last_s=0.0,
    )


def delivery(*sequences: int) -> Delivery:
    found = Delivery()
    found.connected()
    found.take(event(sequence) for sequence in sequences)
    return found


def first(found: Delivery) -> Told:
    event = found.first()
    assert event is not None
    return event


def test_events_are_written_in_order():
    found = delivery(1, 2)
    found.written(first(found))
    assert first(found).sequence == 2


def test_a_written_event_is_confirmed():
    found = delivery(1, 2)
    assert found.recorded == 0
    found.written(first(found))
    assert found.recorded == 1


def test_later_events_are_not_confirmed_before():
    found = delivery(1, 2, 3)
    found.failed(first(found), 0.0)
    found.written(first(found))
    found.written(first(found))
    assert found.recorded == 0
    found.written(first(found))
    assert found.recorded == 3


def test_a_repetition_is_written_once():
    found = delivery(1, 2)
    found.written(first(found))
    found.take([event(1), event(2)])
    found.written(first(found))
    assert found.first() is None


def test_an_event_that_occurred_again_is_written_again():
    found = delivery(1)
    found.written(first(found))
    found.take([event(2, "web-1", times=5)])
    assert first(found).times == 5


def test_an_event_that_waits_is_replaced():
    found = delivery(1, 2)
    found.take([event(3, "web-1", times=5)])
    found.written(first(found))
    found.written(first(found))
    assert (found.first(), found.recorded) == (None, 3)


def test_an_event_that_cannot_be_used_is_confirmed():
    found = delivery(1)
    found.take([], newest=3)
    assert found.recorded == 0
    found.written(first(found))
    assert found.recorded == 3


def test_a_failed_event_waits_behind_others():
    found = delivery(1, 2)
    found.failed(first(found), 0.0)
    assert first(found).sequence == 2


def fail_each_minute(found: Delivery, turns: int, *, others: bool) -> None:
    """Let the first Event fail again and again; `others`: another one is written after each try."""
    for turn in range(turns):
        if others:
            found.take([event(2 + turn, f"db-{turn}")])
        found.failed(first(found), 60.0 * turn)
        if others:
            found.written(first(found))


def test_a_failing_event_holds_others_up_for_minutes():
    found = delivery(1)
    fail_each_minute(found, 12, others=True)
    assert (found.first(), found.lost, found.recorded) == (None, 1, 13)


def test_a_short_failure_loses_nothing():
    found = delivery(1)
    fail_each_minute(found, 11, others=True)
    assert (first(found).sequence, found.lost, found.recorded) == (1, 0, 0)


def test_an_event_survives_a_long_outage():
    found = delivery(1)
    fail_each_minute(found, 40, others=False)
    assert (first(found).sequence, found.lost) == (1, 0)


def test_an_event_survives_a_new_connection():
    found = delivery(7)
    found.connected()
    assert found.recorded == 0
    assert first(found).sequence == 7


def test_a_new_connection_repeats_an_event_once():
    found = delivery(7)
    found.connected()
    found.take([event(1, "web-7", times=2)])
    found.written(first(found))
    assert found.first() is None
    assert found.recorded == 1


def test_an_earlier_connection_confirms_nothing():
    found = delivery(1)
    found.connected()
    old = first(found)
    found.take([event(1, "other")])
    found.written(old)
    assert found.recorded == 0


def test_rights_that_are_missing_lose_nothing():
    found = delivery(1, 2)
    for _ in range(20):
        found.refused(first(found), 0.0)
    assert (found.lost, found.recorded) == (0, 0)


def test_a_forbidden_event_is_given_up():
    found = delivery(1, 2)
    found.refused(first(found), 0.0)
    found.written(first(found))
    found.refused(first(found), 0.0)
    assert (found.lost, found.first(), found.recorded) == (1, None, 2)


def test_an_impossible_event_is_given_up():
    found = delivery(1, 2)
    found.impossible(first(found))
    assert (found.lost, found.recorded, first(found).sequence) == (1, 1, 2)


@pytest.mark.parametrize("connections", [1, 20])
def test_waiting_events_are_bounded(connections):
    found = Delivery()
    for connection in range(connections):
        found.connected()
        found.take(event(n, f"{connection}-{n}") for n in range(1, 33))
    waiting = 0
    while (one := found.first()) is not None:
        found.written(one)
        waiting += 1
    assert waiting == min(32 * connections, event_delivery.MOST_WAITING)
    assert waiting + found.lost == 32 * connections


# ---- beside the daemon's own list ----


def occurred(events: NodeEvents, pod: str, now_s: float) -> None:
    events.occurred(Occurrence(Subject("shop", pod, f"uid-{pod}"), EventReason.PLACED_LATE, "late"), now_s)


def told(found: Delivery, events: NodeEvents, now_s: float) -> int:
    """Let the daemon answer once; return the number of Events in the answer."""
    events.recorded(found.recorded)
    batch, answer = events.publish(now_s), pb.NextResponse()
    event_messages.add(answer, batch, now_s)
    found.take(event_messages.events_of(answer, now_s))
    return len(answer.events)


def test_a_dropped_event_that_returns_blocks_no_other(monkeypatch):
    """While the API server is away, the daemon drops Events that the companion has, and one of them occurs again."""
    monkeypatch.setattr(node_events, "MOST_KEPT", 40)
    found, events = delivery(), NodeEvents()
    for number in range(120):
        occurred(events, f"web-{number}", float(number))
        if number > 40:
            occurred(events, "web-0", float(number))
        told(found, events, float(number))
        found.failed(first(found), 0.0)
    for turn in range(5):
        while (waiting := found.first()) is not None:
            found.written(waiting)
        told(found, events, 1000 + turn * REPEAT_S)
    assert found.first() is None
    assert told(found, events, 2000.0) == 0
