"""Facts reach the daemon completely after each connection, then by changes, in messages that it accepts."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.workload import Pod
from nri_coloc.kubernetes import facts, facts_outbox, messages
from nri_coloc.kubernetes.facts import ReadFacts
from nri_coloc.kubernetes.facts_outbox import FactsOutbox
from nri_coloc.kubernetes.kept_facts import KeptFacts
from tests.unit.kubernetes.kit import GIB, KOORDINATOR, container, pod

NOW_S = datetime(2026, 11, 26, 10, 0, 0, tzinfo=UTC).timestamp()


def read(uid: str = "a", *containers: dict[str, Any], **metadata: Any) -> ReadFacts:
    found = pod(*(containers or [container(memory="1Gi")]))
    found["metadata"] |= {"uid": uid, **metadata}
    return facts.read(found, KOORDINATOR)


class Link:
    """An outbox and the daemon's end of it."""

    def __init__(self, *pods: ReadFacts) -> None:
        self.outbox = FactsOutbox(lambda: NOW_S)
        self.outbox.replace({each.facts.uid: each for each in pods})
        self.kept = KeptFacts()
        self.sent: list[pb.ReportPodsRequest] = []

    def send(self, *, connected: bool = False) -> str:
        """Send all messages; return the UIDs of the pods whose facts the daemon has."""
        if connected:
            self.outbox.begin()
            self.kept.connected()
        self.sent = []
        while (message := self.outbox.next()) is not None:
            self.sent.append(message)
            assert message.ByteSize() < messages.MESSAGE_LIMIT - 1024
            self.kept.take(
                messages.reported(pb.ReportPodsRequest.FromString(message.SerializeToString()), 50.0)
            )
        return "".join(uid for uid in "abc" if self.has(uid))

    def has(self, uid: str) -> bool:
        return self.kept.newest.of(Pod("p", uid, "render-1", "jobs")) is not None


def test_a_connection_begins_with_a_complete_list():
    link = Link(read("a"), read("b"))
    assert link.send(connected=True) == "ab"
    assert [(each.begin, each.complete) for each in link.sent] == [(True, True)]


def test_facts_arrive_as_they_were_read():
    lent = container("m", cpu="1", memory="1Gi", batch_cpu="500", batch_memory="7")
    told = read(
        "a", lent, container("s", sidecar=True), ownerReferences=[{"kind": "Job", "controller": True}]
    )
    link = Link(told)
    link.send(connected=True)
    found = link.kept.newest.of(Pod("p", "a", "render-1", "jobs"))
    assert found == told.facts
    assert (found.cpu_milli, found.memory_bytes) == (1000, GIB)


def test_nothing_is_sent_twice():
    link = Link(read("a"))
    link.send(connected=True)
    link.outbox.take("a", read("a"))
    link.send()
    assert link.sent == []


def test_a_change_is_sent_alone():
    link = Link(read("a"), read("b"))
    link.send(connected=True)
    link.outbox.take("b", read("b", container(memory="2Gi")))
    link.send()
    assert [[each.uid for each in message.pods] for message in link.sent] == [["b"]]
    assert (link.sent[0].begin, link.sent[0].complete) == (False, False)


def test_a_pod_that_ended_is_reported():
    link = Link(read("a"), read("b"))
    link.send(connected=True)
    link.outbox.take("a", None)
    assert link.send() == "b"


def test_a_list_of_the_api_server_replaces_all():
    link = Link(read("a"), read("b"))
    link.send(connected=True)
    link.outbox.replace({"b": read("b"), "c": read("c")})
    assert link.send() == "bc"


def test_a_new_connection_corrects_the_daemon():
    link = Link(read("a"), read("b"))
    link.send(connected=True)
    link.outbox.begin()
    link.outbox.take("a", None)
    assert link.send() == "b"


def test_no_list_is_sent_before_one_is_read():
    outbox = FactsOutbox(lambda: NOW_S)
    outbox.begin()
    assert outbox.next() is None


def test_an_empty_node_has_an_empty_list():
    link = Link()
    link.send(connected=True)
    assert [(each.begin, each.complete) for each in link.sent] == [(True, True)]


def test_many_pods_are_many_messages():
    link = Link(*(read(f"u{n}") for n in range(150)))
    link.send(connected=True)
    assert [(len(each.pods), each.begin, each.complete) for each in link.sent] == [
        (64, True, False),
        (64, False, False),
        (22, False, True),
    ]
    assert len(link.kept.newest) == 150


def test_large_pods_fit_into_the_bound():
    many = [container(f"{n:063d}", cpu="1", memory="1Gi", batch_cpu="9") for n in range(128)]
    link = Link(*(read(f"u{n}", *many) for n in range(30)))
    link.send(connected=True)
    assert len(link.kept.newest) == 30


@pytest.mark.parametrize(
    ("at", "seconds"),
    [("2026-11-26T10:00:10Z", 10), ("2026-11-26T09:00:00Z", 0), ("soon", 15), ("2026-11-26T11:00:00Z", 15)],
    ids=["to come", "over", "unreadable", "another clock"],
)
def test_a_deletion_is_told_in_seconds(at: str, seconds: int):
    link = Link(read("a", deletionTimestamp=at, deletionGracePeriodSeconds=15))
    link.send(connected=True)
    found = link.kept.newest.of(Pod("p", "a", "render-1", "jobs"))
    assert found is not None
    assert found.killed_at == 50.0 + seconds


def test_ended_pods_cost_no_memory_while_the_daemon_is_away():
    link = Link(read("a"))
    link.send(connected=True)
    for number in range(facts_outbox.MOST_GONE + 1):
        link.outbox.take(f"u{number}", read(f"u{number}"))
        link.outbox.take(f"u{number}", None)
    link.outbox.take("a", None)
    assert link.send() == ""
    assert sum(len(each.gone) for each in link.sent) == 1
    assert (link.sent[0].begin, link.sent[-1].complete) == (True, True)
