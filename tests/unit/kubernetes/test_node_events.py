"""Events of a node: counted by subject and reason, sent in bounded numbers, dropped fairly."""

from dataclasses import replace

from nri_coloc.kubernetes import node_events
from nri_coloc.kubernetes.event_reasons import LONGEST_MESSAGE, NODE, EventReason, Occurrence, Subject
from nri_coloc.kubernetes.node_events import MOST_KEPT, MOST_SENT, REPEAT_S, NodeEvents

NOW = 1000.0
INVALID = EventReason.ANNOTATION_INVALID


def of_pod(name="web", namespace="shop", *, reason=INVALID, text="bad", topic=""):
    return Occurrence(Subject(namespace, name, f"uid-{name}"), reason, text, topic)


def events(*occurrences):
    found = NodeEvents()
    for number, each in enumerate(occurrences):
        found.occurred(each, NOW + number)
    return found


def many(count, namespace="shop"):
    return [of_pod(f"web-{number}", namespace) for number in range(count)]


def sent(found, now_s=NOW):
    return [entry.subject.pod for entry in found.publish(now_s).entries]


def test_occurrences_of_one_reason_are_counted():
    [entry] = events(of_pod(), of_pod(), of_pod()).publish(NOW + 9).entries
    assert (entry.count, entry.first_s, entry.last_s) == (3, NOW, NOW + 2)


def test_another_reason_is_another_event():
    found = events(of_pod(), of_pod(reason=EventReason.PLACED_LATE)).publish(NOW)
    assert [entry.reason for entry in found.entries] == [INVALID, EventReason.PLACED_LATE]


def test_another_pod_of_the_name_is_another_event():
    again = replace_uid(of_pod(), "uid-new")
    assert len(events(of_pod(), again).publish(NOW).entries) == 2


def replace_uid(occurrence, uid):
    return occurrence._replace(subject=occurrence.subject._replace(uid=uid))


def test_a_message_names_each_topic_once():
    found = events(
        of_pod(text="a=1", topic="a"), of_pod(text="b=2", topic="b"), of_pod(text="a=3", topic="a")
    )
    assert found.publish(NOW).entries[0].message == "a=3; b=2"


def test_a_message_is_bounded():
    found = events(*(of_pod(text="x" * 300, topic=str(n)) for n in range(9)))
    assert len(found.publish(NOW).entries[0].message) == LONGEST_MESSAGE


def test_a_recorded_event_is_not_sent_again():
    found = events(of_pod())
    found.recorded(found.publish(NOW).newest)
    assert sent(found, NOW + 10 * REPEAT_S) == []


def test_an_event_that_is_not_recorded_stays_open():
    found = events(of_pod())
    first = found.publish(NOW)
    assert found.publish(NOW + 1) == first


def test_a_repeated_event_waits_for_a_minute():
    found = events(of_pod())
    found.recorded(found.publish(NOW).newest)
    found.occurred(of_pod(), NOW + 1)
    assert sent(found, NOW + REPEAT_S - 1) == []
    [entry] = found.publish(NOW + REPEAT_S).entries
    assert (entry.sequence, entry.count) == (2, 2)


def test_an_occurrence_between_sending_and_recording_counts():
    found = events(of_pod())
    sequence = found.publish(NOW).newest
    found.occurred(of_pod(), NOW + 1)
    found.recorded(sequence)
    assert found.publish(NOW + REPEAT_S).entries[0].count == 2


def test_a_number_beyond_all_loses_open_events_only():
    found = events(of_pod("a"))
    found.publish(NOW)
    found.occurred(of_pod("b"), NOW)
    found.recorded(2**64 - 1)
    assert sent(found) == ["b"]


def test_few_events_are_open_at_once():
    found = events(*many(2 * MOST_SENT))
    assert len(found.publish(NOW).entries) == MOST_SENT
    found.recorded(MOST_SENT // 2)
    assert len(found.publish(NOW).entries) == MOST_SENT


def test_namespaces_are_sent_round_robin():
    found = events(*many(100, "noisy"), of_pod("web", "shop"))
    assert "web" in sent(found)[:2]


def test_recorded_events_are_dropped_first():
    found = events(*many(MOST_KEPT - 1))
    found.recorded(found.publish(NOW).entries[0].sequence)
    found.occurred(of_pod("new-1"), NOW)
    found.occurred(of_pod("new-2"), NOW)
    assert found.publish(NOW).lost == 0


def test_dropped_events_are_counted():
    found = events(*many(MOST_KEPT + 3))
    assert found.publish(NOW).lost == 3


def test_a_noisy_namespace_loses_its_own_events():
    found = events(of_pod("web", "shop"), *many(2 * MOST_KEPT, "noisy"))
    assert "web" in sent(found)


def test_a_batch_is_in_order_of_its_numbers():
    found = events(*many(5), Occurrence(NODE, EventReason.LENDING_OFF, "off"))
    found.publish(NOW)
    found.occurred(of_pod("late"), NOW)
    assert [entry.sequence for entry in found.publish(NOW).entries] == list(range(1, 8))


def test_only_problems_are_warnings():
    [off] = events(Occurrence(NODE, EventReason.LENDING_OFF, "off")).publish(NOW).entries
    assert not off.is_warning
    assert replace(off, reason=INVALID).is_warning


def test_a_recorded_event_keeps_its_count():
    found = events(of_pod())
    found.recorded(found.publish(NOW).newest)
    for number in range(9):
        found.occurred(of_pod(), NOW + number)
    assert found.publish(NOW + node_events.REPEAT_S).entries[0].count == 10
